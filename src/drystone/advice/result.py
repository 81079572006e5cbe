"""The frozen result of :func:`drystone.advise`, and its sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd

from drystone._messages import first_few, html_list
from drystone.advice.bootstrap import WeightBootstrap
from drystone.advice.calibration import remedies
from drystone.advice.further import Further
from drystone.advice.gain import GainCurve
from drystone.advice.learning import LearningCurve
from drystone.advice.redundancy import ROUNDING, DropOne
from drystone.diagnostics import Faults
from drystone.estimate import Estimate, effective_number
from drystone.scores import LogScore
from drystone.solvers.solver import unit_of_loss
from drystone.stacking.result import Stacking

__all__ = ["TAKES", "Advice"]

# A further gain is worth having if it is more than this share of the gain from stacking …
WORTH = 0.1
# … and than so many nats, which do not show in a posterior; of scores in other units, this share of the loss.
NEGLIGIBLE = 0.005
# A gain from further members is worth their training if it is more than so many nats; of scores in other units,
# this share of the loss.
WORTHWHILE = 0.02
# More members: "yes" if that much is likelier than this, "no" if it is less likely than that: a wrong "no" ends
# the matter, a wrong "yes" costs a training run.
LIKELY, UNLIKELY = 2 / 3, 0.1
# Faults of calibration that are listed at most.
FAULTS = 6
# Begins the reason for a piece that was skipped because of the time it takes.
TAKES = "it would take"
Verdict = Literal["yes", "no", "perhaps"]


@dataclass(frozen=True, eq=False)
class Advice:
    """Which members a stack rests on, whether more members or rows would help, and how it is calibrated.

    Prints as sentences.

    Pieces that are None were not affordable, or make no sense for the form; ``skipped`` says why.

    Attributes:
        fit: the stacking in question.
        rows: number of rows it was fitted to.
        names: of the members that were not dropped, in the order of all arrays.
        weights: of the members, (K,), or None where the form has no single set.
        drop_one: loss without each member.
        duplicates: groups of members whose log densities are nearly the same.
        bootstrap: stability of the weights.
        curve: held-out loss as members are added.
        learning: held-out loss against the number of rows.
        calibration: bias and width in each parameter, cross-validated.
        skipped: pieces that are missing, and why.

    Example:
        >>> import drystone as ds
        >>> table = ds.toy.table(200, seed=1)
        >>> advice = ds.advise(ds.stack(table), table, times=10, subsets=2, folds=2)
        >>> list(advice.frame.index[:3]), advice.more_rows, advice.curve.gain.value > 0
        (['narrow', 'left', 'right'], 'no', True)
        >>> print(str(advice).splitlines()[2])
        - The member hardest to replace is narrow: without it the others lose 0.16... ± 0.0...
    """

    fit: Stacking
    rows: int
    names: tuple[str, ...]
    weights: np.ndarray | None
    drop_one: DropOne | None
    duplicates: list[tuple[str, ...]]
    bootstrap: WeightBootstrap | None
    curve: GainCurve | None
    learning: LearningCurve | None
    calibration: Faults | None
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def effective_members(self) -> float:
        """Number of equal weights with the same entropy; NaN where the form has no single set of weights."""
        return np.nan if self.weights is None else effective_number(self.weights)

    @property
    def more_members(self) -> Literal["yes", "no", "cannot tell"] | None:
        """Whether more members like these would help: the chance of a gain worth their training; None for one."""
        if self.curve is None or self.curve.further is None:
            return None
        if np.isinf(self.curve.further.median):  # fewer members leave rows without density: says nothing of more
            return "cannot tell"
        chance = self.curve.further.chance(max(WORTHWHILE * self._unit, self._rounding))
        return "yes" if chance >= LIKELY else "no" if chance <= UNLIKELY else "cannot tell"

    @property
    def more_rows(self) -> Verdict | None:
        """Whether more stacking simulations would help: whether the gain that these leave is worth having."""
        if self.learning is None:
            return None
        return self._worth(self.learning.left)

    @property
    def _unit(self) -> float:
        """One nat, or the loss itself, if it is in other units."""
        nats = any(isinstance(term, LogScore) for _, term in self.fit.score.terms)
        return 1.0 if nats else abs(self.fit.loss)

    @property
    def _rounding(self) -> float:
        return ROUNDING * unit_of_loss(self.fit.score, self.fit.loss)

    def _plain(self, gain: float) -> str:
        """Return a gain to two digits."""
        if np.isinf(gain):
            return "an unbounded amount"
        return f"{gain:.2g}" if abs(gain) >= 5e-4 * self._unit else "0"

    def _amount(self, gain: Estimate) -> str:
        """Return a gain or a loss in words; without its standard error if the score has none."""
        if not np.isfinite(gain.value):
            return "an unbounded amount (a row of density 0)"
        if abs(gain.value) < self._rounding and not gain.se >= self._rounding:
            return "nothing"
        return f"{gain.value:.3g}" if np.isnan(gain.se) else str(gain)

    def _worth(self, gain: Estimate) -> Verdict:
        """Return "no" if a gain is negligible, itself or against that of stacking; "yes" if it is significant."""
        least = max(NEGLIGIBLE * self._unit, self._rounding)
        if self.curve is not None and np.isfinite(self.curve.gain.value):
            least = max(least, WORTH * self.curve.gain.value)
        if gain.value <= least:
            return "no"
        return "yes" if gain.value > 2 * gain.se else "perhaps"

    @property
    def frame(self) -> pd.DataFrame:
        """One row per member, heaviest first: weight, its standard error and 90% interval, drop-one loss."""
        columns: dict[str, object] = {}
        if self.weights is not None:
            columns["weight"] = self.weights
        if self.bootstrap is not None:
            low, high = self.bootstrap.interval(0.1).T
            columns |= {"weight_se": self.bootstrap.se, "weight_low": low, "weight_high": high}
        if self.drop_one is not None:
            columns |= {"drop_one": self.drop_one.loss, "drop_one_se": self.drop_one.se}
            columns["redundant"] = self.drop_one.redundant
        like = {name: [n for n in group if n != name] for group in self.duplicates for name in group}
        columns["same_as"] = [", ".join(like.get(name, [])) for name in self.names]
        frame = pd.DataFrame(columns, index=pd.Index(self.names, name="member"))
        by = next((column for column in ("weight", "drop_one") if column in frame), None)
        return frame if by is None else frame.sort_values(by, ascending=False, kind="stable")

    def __str__(self) -> str:
        return "\n".join(f"- {sentence}" for sentence in self._sentences())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_list("Advice", self._sentences())

    def _sentences(self) -> list[str]:
        sentences = [*self._on_weights(), *self._on_members(), *self._on_gain(), *self._on_rows()]
        sentences += self._on_calibration()
        # Without the seconds, so that reports of equal calls are equal; ``skipped`` has them.
        slow = [piece for piece, why in self.skipped.items() if TAKES in why]
        if slow:
            sentences.append(
                f"Skipped to save time: {', '.join(slow)}. Allow it with ds.advise(fit, table, seconds=...)."
            )
        others = {piece: why for piece, why in self.skipped.items() if TAKES not in why}
        return sentences + [f"Skipped: {piece}, because {why}." for piece, why in others.items()]

    # ── sentences ────────────────────────────────────────────────────────────────────────────────────────

    def _on_weights(self) -> list[str]:
        if self.weights is None:
            return []
        K = len(self.weights)
        sentences = [
            f"{np.count_nonzero(self.weights)} of {K} members carry weight, "
            f"{np.count_nonzero(self.weights > 0.1 / K)} of them more than a tenth of an equal share; together "
            f"they are worth {self.effective_members:.1f} equally weighted ones."
        ]
        if self.bootstrap is not None and K > 1:
            se, k = self.bootstrap.se, int(self.bootstrap.se.argmax())
            sentences.append(
                "The weights are the same in all bootstrap refits."
                if se[k] < ROUNDING
                else f"The weights are known to ± {se[k]:.2g} or better (bootstrap); the least certain is "
                f"{self.names[k]}: {Estimate(self.weights[k], se[k])}."
            )
        return sentences

    def _on_members(self) -> list[str]:
        sentences = []
        if self.drop_one is not None:
            carrying = True if self.weights is None else self.weights > 0
            spare = [self.names[k] for k in np.flatnonzero(self.drop_one.redundant & carrying)]
            if spare:
                sentences.append(
                    f"Redundant, each on its own (without it the others lose less than a standard error): "
                    f"{first_few(spare, most=8)}."
                )
            k = int(self.drop_one.loss.argmax())
            sentences.append(
                "No member is hard to replace: without any one of them the others lose nothing."
                if self.drop_one.loss[k] < self._rounding
                else f"The member hardest to replace is {self.names[k]}: without it the others lose "
                f"{self._amount(Estimate(self.drop_one.loss[k], self.drop_one.se[k]))}."
            )
        sentences += [f"{first_few(group, most=8)} say the same: keep one." for group in self.duplicates]
        return sentences

    def _on_gain(self) -> list[str]:
        if self.curve is None or len(self.names) == 1:
            return []
        curve = self.curve
        gained = self._amount(curve.gain)
        sentences = [f"On held-out rows the stack gains {gained} over the best single member ({curve.score})."]
        enough = curve.enough()
        if enough is not None:
            sentences.append(f"The first {enough} members chosen one after the other have 95% of that gain.")
        if curve.further is not None:
            sentences.append(self._on_further(curve.further))
        return sentences

    def _on_further(self, further: Further) -> str:
        K = len(self.names)
        low, high = further.range(0.8)
        answer = f"cannot tell from {K} members" if self.more_members == "cannot tell" else self.more_members
        if max(abs(low), abs(high)) < self._rounding:
            return f"More members like these: {answer}. Random subsets of these say that they add nothing."
        if np.isinf(further.median):
            return f"More members like these: {answer}, as most subsets of these give some row a density of 0."
        gains = [self._plain(gain) for gain in (low, high, further.median)]
        return (
            f"More members like these: {answer}. {further.members} more would gain {gains[0]} to {gains[1]} (80% "
            f"range; as likely more as less than {gains[2]}), as extrapolated from random subsets of these {K} on "
            "held-out rows."
        )

    def _on_rows(self) -> list[str]:
        if self.learning is None:
            return []
        left = self.learning.left
        half = Estimate(left.value / 2, left.se / 2)
        if max(abs(left.value), left.se) < self._rounding:
            return [f"More stacking simulations: {self.more_rows}. Fewer than these {self.rows} give the same."]
        return [
            f"More stacking simulations: {self.more_rows}. Expected further gain over these {self.rows}: "
            f"{self._amount(half)} from as many again, {self._amount(left)} from infinitely many."
        ]

    def _on_calibration(self) -> list[str]:
        if self.calibration is None:
            return []
        clear, among = self.calibration.clear, f"cross-validated over these {self.rows} rows"
        if not clear:
            return [f"Calibration: no parameter is clearly biased, too narrow or too wide ({among})."]
        listed = "; ".join(map(str, clear[:FAULTS])) + ("; …" if len(clear) > FAULTS else "")
        faulty, d = len({fault.parameter for fault in clear}), len(self.calibration.parameters)
        return [
            f"Calibration: {faulty} of {d} parameters at fault ({among}; an exact posterior would show any fault "
            f"in 5% of cases): {listed}.",
            *(f"To try against what is {remedy}." for remedy in remedies(self.fit, self.calibration)),
        ]
