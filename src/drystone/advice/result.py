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
from drystone.estimate import plus_minus
from drystone.scores import LogScore
from drystone.stacking.result import Stacking

__all__ = ["Advice"]

# What is left to gain is worth having if it is more than this share of what stacking gained …
WORTH = 0.1
# … and than so many nats, which nobody would see in a posterior; of scores in other units, this share of the loss.
NEGLIGIBLE = 0.005
Verdict = Literal["yes", "no", "perhaps"]


@dataclass(frozen=True, eq=False)
class Advice:
    """What a stack rests on, and what would make it better. Prints as sentences.

    Pieces that are None were not affordable, or make no sense for the form; ``left_out`` says why.

    Attributes:
        fit: the stacking in question.
        rows: how many it was fitted to.
        names: of the members that were not dropped, in the order of all arrays.
        weights: of the members, (K,), or None where the form has no single set.
        drop_one: what each member adds to the others.
        duplicates: groups of members whose log densities are nearly the same.
        bootstrap: how steady the weights are.
        curve: held-out loss as members are added.
        learning: held-out loss against the number of rows.
        left_out: pieces that are missing, and why.
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
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def effective_members(self) -> float:
        """exp of the entropy of the weights: as many equally weighted members carry as much."""
        if self.weights is None:
            return np.nan
        w = self.weights[self.weights > 0]
        return float(np.exp(-(w * np.log(w)).sum()))

    @property
    def more_members(self) -> Verdict | None:
        """Whether more members like these would help: whether each of these adds to the others; None for one."""
        if self.curve is None or len(self.names) == 1:
            return None
        return self._worth(*self.curve.another, of=len(self.names))

    @property
    def more_rows(self) -> Verdict | None:
        """Whether more stacking simulations would help: whether what these leave to gain is worth having."""
        if self.learning is None:
            return None
        return self._worth(self.learning.left, self.learning.left_se)

    def _worth(self, gain: float, se: float, of: int = 1) -> Verdict:
        """No if negligible, in itself or against what stacking gained; yes if surely there; else perhaps.

        Args:
            gain: what could be gained.
            se: its standard error.
            of: members that share in what stacking gained, if ``gain`` is that of a single one.
        """
        nats = any(isinstance(term, LogScore) for _, term in self.fit.score.terms)
        least = max(NEGLIGIBLE * (1.0 if nats else abs(self.fit.loss)), ROUNDING)
        if self.curve is not None and np.isfinite(self.curve.gain[0]):
            least = max(least, WORTH * self.curve.gain[0] / of)
        if gain <= least:
            return "no"
        return "yes" if gain > 2 * se else "perhaps"

    @property
    def frame(self) -> pd.DataFrame:
        """A row a member, heaviest first: weight, its bootstrap standard error and 90% interval, drop-one loss."""
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
        said = [*self._on_weights(), *self._on_members(), *self._on_gain(), *self._on_rows()]
        said += [f"Not looked at: {piece}, because {why}." for piece, why in self.left_out.items()]
        return "\n".join(f"- {sentence}" for sentence in said)

    __repr__ = __str__

    # ── sentences ────────────────────────────────────────────────────────────────────────────────────────

    def _on_weights(self) -> list[str]:
        if self.weights is None:
            return []
        K = len(self.weights)
        said = [
            f"{np.count_nonzero(self.weights)} of {K} members carry weight, "
            f"{np.count_nonzero(self.weights > 0.1 / K)} of them more than a tenth of an equal share; together "
            f"they are worth {self.effective_members:.1f} equally weighted ones."
        ]
        if self.bootstrap is not None and K > 1:
            se, k = self.bootstrap.se, int(self.bootstrap.se.argmax())
            said.append(
                "The weights are the same in all bootstrap refits."
                if se[k] < ROUNDING
                else f"The weights are known to ± {se[k]:.2g} or better (bootstrap); the least certain is "
                f"{self.names[k]}: {plus_minus(self.weights[k], se[k])}."
            )
        return said

    def _on_members(self) -> list[str]:
        said = []
        if self.drop_one is not None:
            carrying = True if self.weights is None else self.weights > 0
            spare = [self.names[k] for k in np.flatnonzero(self.drop_one.redundant & carrying)]
            if spare:
                said.append(
                    f"Redundant, each on its own (without it the others lose less than a standard error): "
                    f"{first_few(spare, most=8)}."
                )
            k = int(self.drop_one.loss.argmax())
            said.append(
                "No member is hard to replace: without any one of them the others lose nothing."
                if self.drop_one.loss[k] < ROUNDING
                else f"The member hardest to replace is {self.names[k]}: without it the others lose "
                f"{_amount(self.drop_one.loss[k], self.drop_one.se[k])}."
            )
        said += [f"{first_few(group, most=8)} say the same: keep one." for group in self.duplicates]
        return said

    def _on_gain(self) -> list[str]:
        if self.curve is None or len(self.names) == 1:
            return []
        curve = self.curve
        gained = _amount(*curve.gain)
        said = [f"On held-out rows the stack gains {gained} over the best single member ({curve.score})."]
        enough = curve.enough()
        if enough is not None:
            said.append(f"The first {enough} members chosen one after the other have 95% of that gain.")
        said.append(
            f"More members like these: {self.more_members}. On held-out rows a member adds "
            f"{_amount(*curve.another)} to all others, on average without the one hardest to replace; expect no "
            f"more of another."
        )
        return said

    def _on_rows(self) -> list[str]:
        if self.learning is None:
            return []
        left, se = self.learning.left, self.learning.left_se
        if max(abs(left), se) < ROUNDING:
            return [f"More stacking simulations: {self.more_rows}. Fewer than these {self.rows} give the same."]
        return [
            f"More stacking simulations: {self.more_rows}. Expected further gain over these {self.rows}: "
            f"{_amount(left / 2, se / 2)} from as many again, {_amount(left, se)} from infinitely many."
        ]


def _amount(value: float, se: float) -> str:
    """A gain or a loss in words; without its standard error if the score has none."""
    if not np.isfinite(value):
        return "an unbounded amount (a row of density 0)"
    if abs(value) < ROUNDING and not se >= ROUNDING:
        return "nothing"
    return f"{value:.3g}" if np.isnan(se) else plus_minus(value, se)
