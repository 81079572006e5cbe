"""The frozen result of :func:`drystone.advise`, and its sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd

from drystone._messages import first_few
from drystone.advice.bootstrap import WeightBootstrap
from drystone.advice.gain import GainCurve
from drystone.advice.learning import LearningCurve
from drystone.advice.redundancy import ROUNDING, DropOne
from drystone.estimate import Estimate, effective_number
from drystone.scores import LogScore
from drystone.stacking.result import Stacking

__all__ = ["Advice"]

# A further gain is worth having if it is more than this share of the gain from stacking …
WORTH = 0.1
# … and than so many nats, which do not show in a posterior; of scores in other units, this share of the loss.
NEGLIGIBLE = 0.005
Verdict = Literal["yes", "no", "perhaps"]


@dataclass(frozen=True, eq=False)
class Advice:
    """Which members a stack rests on, and whether more members or rows would help. Prints as sentences.

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
        skipped: pieces that are missing, and why.
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
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def effective_members(self) -> float:
        """Number of equal weights with the same entropy; NaN where the form has no single set of weights."""
        return np.nan if self.weights is None else effective_number(self.weights)

    @property
    def more_members(self) -> Verdict | None:
        """Whether more members like these would help: whether each of these adds to the others; None for one."""
        if self.curve is None or len(self.names) == 1:
            return None
        return self._worth(self.curve.another, of=len(self.names))

    @property
    def more_rows(self) -> Verdict | None:
        """Whether more stacking simulations would help: whether the gain that these leave is worth having."""
        if self.learning is None:
            return None
        return self._worth(self.learning.left)

    def _worth(self, gain: Estimate, of: int = 1) -> Verdict:
        """Return "no" if a gain is negligible, in itself or against that of stacking; "yes" if it is significant.

        Args:
            gain: possible further gain.
            of: members that share in the gain from stacking, if ``gain`` is that of a single one.
        """
        nats = any(isinstance(term, LogScore) for _, term in self.fit.score.terms)
        least = max(NEGLIGIBLE * (1.0 if nats else abs(self.fit.loss)), ROUNDING)
        if self.curve is not None and np.isfinite(self.curve.gain.value):
            least = max(least, WORTH * self.curve.gain.value / of)
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
        sentences = [*self._on_weights(), *self._on_members(), *self._on_gain(), *self._on_rows()]
        sentences += [f"Skipped: {piece}, because {why}." for piece, why in self.skipped.items()]
        return "\n".join(f"- {sentence}" for sentence in sentences)

    __repr__ = __str__

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
                if self.drop_one.loss[k] < ROUNDING
                else f"The member hardest to replace is {self.names[k]}: without it the others lose "
                f"{_amount(Estimate(self.drop_one.loss[k], self.drop_one.se[k]))}."
            )
        sentences += [f"{first_few(group, most=8)} say the same: keep one." for group in self.duplicates]
        return sentences

    def _on_gain(self) -> list[str]:
        if self.curve is None or len(self.names) == 1:
            return []
        curve = self.curve
        gained = _amount(curve.gain)
        sentences = [f"On held-out rows the stack gains {gained} over the best single member ({curve.score})."]
        enough = curve.enough()
        if enough is not None:
            sentences.append(f"The first {enough} members chosen one after the other have 95% of that gain.")
        sentences.append(
            f"More members like these: {self.more_members}. On held-out rows a member adds "
            f"{_amount(curve.another)} to all others, on average without the one hardest to replace; expect no "
            f"more of another."
        )
        return sentences

    def _on_rows(self) -> list[str]:
        if self.learning is None:
            return []
        left = self.learning.left
        half = Estimate(left.value / 2, left.se / 2)
        if max(abs(left.value), left.se) < ROUNDING:
            return [f"More stacking simulations: {self.more_rows}. Fewer than these {self.rows} give the same."]
        return [
            f"More stacking simulations: {self.more_rows}. Expected further gain over these {self.rows}: "
            f"{_amount(half)} from as many again, {_amount(left)} from infinitely many."
        ]


def _amount(gain: Estimate) -> str:
    """Return a gain or a loss in words; without its standard error if the score has none."""
    if not np.isfinite(gain.value):
        return "an unbounded amount (a row of density 0)"
    if abs(gain.value) < ROUNDING and not gain.se >= ROUNDING:
        return "nothing"
    return f"{gain.value:.3g}" if np.isnan(gain.se) else str(gain)
