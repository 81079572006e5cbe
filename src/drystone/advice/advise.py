"""What to do next, in plain sentences: members that matter, members that could go, and whether more would help."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from drystone.advice.bootstrap import WeightBootstrap, bootstrap
from drystone.advice.gain import GREEDY, GainCurve, gain_curve, sizes
from drystone.advice.learning import FRACTIONS, LearningCurve, learning_curve
from drystone.advice.redundancy import DropOne, drop_one, duplicates
from drystone.advice.refit import problem
from drystone.stacking import Stacking
from drystone.table import Table
from drystone.uncertain import plus_minus

__all__ = ["Advice", "advise"]

# What is left to gain is worth having if it is more than this share of what stacking gained.
WORTH = 0.1
# Random parts of the rows, of each size and fold, behind the learning curve.
REPEATS = 4


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
    def more_members(self) -> bool | None:
        """Whether more members like these would help: the last doubling of random ones still paid."""
        if self.curve is None:
            return None
        return _worth(*self.curve.random_doubling, self.curve)

    @property
    def more_rows(self) -> bool | None:
        """Whether more stacking simulations would help: what these leave to gain is worth having."""
        if self.learning is None:
            return None
        return _worth(self.learning.left, self.learning.left_se, self.curve)

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
            f"{np.count_nonzero(self.weights > 0.1 / K)} of them more than a tenth of an equal share; together they "
            f"are worth {self.effective_members:.1f} equally weighted ones."
        ]
        if self.bootstrap is not None:
            se, k = self.bootstrap.se, int(self.bootstrap.se.argmax())
            said.append(
                f"The weights are known to ± {se[k]:.2f} or better (bootstrap); the least certain is "
                f"{self.names[k]}: {plus_minus(self.weights[k], se[k])}."
            )
        return said

    def _on_members(self) -> list[str]:
        said = []
        if self.drop_one is not None:
            spare = [self.names[k] for k in np.flatnonzero(self.drop_one.redundant)]
            if spare:
                said.append(
                    f"Redundant, each on its own (without it the others lose less than a standard error): "
                    f"{_listed(spare)}."
                )
            k = int(self.drop_one.loss.argmax())
            said.append(
                f"The member hardest to replace is {self.names[k]}: without it the others lose "
                f"{plus_minus(self.drop_one.loss[k], self.drop_one.se[k])}."
            )
        said += [f"{_listed(group)} say the same: keep one." for group in self.duplicates]
        return said

    def _on_gain(self) -> list[str]:
        if self.curve is None:
            return []
        curve = self.curve
        said = [
            f"On held-out rows the stack gains {plus_minus(*curve.gain)} over the best single member ({curve.score})."
        ]
        enough = curve.enough()
        if enough is not None:
            said.append(f"The first {enough} members chosen one after the other have 95% of that gain.")
        if len(self.names) > 1:
            half, all_ = curve.random_sizes[-2:]
            said.append(
                f"More members like these: {_yes(self.more_members)}. From {half} to {all_} random ones the gain was "
                f"{plus_minus(*curve.random_doubling)}; expect less of the next doubling."
            )
        return said

    def _on_rows(self) -> list[str]:
        if self.learning is None:
            return []
        left, se = self.learning.left, self.learning.left_se
        return [
            f"More stacking simulations: {_yes(self.more_rows)}. Expected further gain over these {self.rows}: "
            f"{plus_minus(left / 2, se / 2)} from as many again, {plus_minus(left, se)} from infinitely many."
        ]


def advise(
    fit: Stacking,
    table: Table,
    *,
    times: int = 100,
    subsets: int = 20,
    folds: int = 5,
    seconds: float = 60.0,
    seed: int = 0,
) -> Advice:
    """Say which members matter, which could go, how steady the weights are, and whether more of anything would help.

    Everything rests on refitting: without a member, to resampled rows, to parts of members and rows, judged on rows
    left out. A refit by log score takes milliseconds; where refits are slow, pieces are left out and named.

    Args:
        fit: the stacking in question.
        table: the rows it was fitted to.
        times: bootstrap refits.
        subsets: random orders in which members are added.
        folds: of cross-validations.
        seconds: how long it may take, estimated from one refit.
        seed: of everything random.

    Example:
        >>> import drystone as ds
        >>> table = ds.toy.table(400, seed=1)
        >>> advice = advise(ds.stack(table), table, times=20, subsets=4)
        >>> round(advice.effective_members, 1), advice.more_rows, list(advice.frame.index)[:2]
        (3.0, False, ['narrow', 'left'])
    """
    asked = problem(fit, table, seed)
    K = asked.table.K
    begun = time.perf_counter()
    whole = asked.solve()
    each = time.perf_counter() - begun
    weights = whole.params.get("weights")

    left_out: dict[str, str] = {}
    spent = 0.0

    def affordable(piece: str, refits: int) -> bool:
        """Whether there is time for so many refits; if so it is spent."""
        nonlocal spent
        if spent + refits * each > seconds:
            left_out[piece] = f"its {refits} refits would take about {refits * each:.0f} s; allow more `seconds`"
            return False
        spent += refits * each
        return True

    dropped = resampled = learning = curve = None
    if K == 1:
        left_out["what members add"] = "there is only one"
    elif affordable("drop-one losses", len(whole.form.used(whole.params)[0])):
        dropped = drop_one(asked, whole)
    if weights is None:
        left_out["the steadiness of weights"] = f"{type(fit.form).__name__} has no single set of weights"
    elif affordable("the bootstrap of the weights", times):
        resampled = bootstrap(asked, weights, times=times, seed=seed)
    if affordable("the learning curve", folds * (1 + REPEATS * (len(FRACTIONS) - 1))):
        learning = learning_curve(asked, repeats=REPEATS, folds=folds, seed=seed)
    if affordable("the gain curve", folds * (1 + subsets * (len(sizes(K)) - 1) + min(K, GREEDY))):
        curve = gain_curve(asked, subsets=subsets, folds=folds, seed=seed)
    names, rows = asked.table.names, asked.table.N
    same = duplicates(asked.table)
    return Advice(fit, rows, names, weights, dropped, same, resampled, curve, learning, left_out)


def _worth(gain: float, se: float, curve: GainCurve | None) -> bool:
    """Whether a gain is surely there, and not negligible against what stacking gained."""
    return bool(gain > 2 * se and (curve is None or gain > WORTH * curve.gain[0]))


def _yes(answer: bool | None) -> str:
    return "yes" if answer else "no"


def _listed(names: list[str] | tuple[str, ...]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
