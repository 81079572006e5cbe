"""The gain from each further member, on rows that the weights were not fitted to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from drystone.advice.further import BATCH, Further, further_gain, nested_sizes
from drystone.advice.refit import Problem
from drystone.comparison import uniform
from drystone.estimate import Estimate, mean_over_folds, split_folds
from drystone.solvers import ProjectedGradient
from drystone.solvers.projected_gradient import differentiated, single_member_scores
from drystone.solvers.solver import unit_of_loss
from drystone.stacking.result import Stacking, losses
from drystone.table import Table

__all__ = ["GREEDY", "GainCurve", "gain_curve", "sizes"]

# Members chosen one after the other, at most: by then the curve has long been flat.
GREEDY = 20
# A slope smaller than this gains nothing that a solver's tolerance would show.
FLAT = 1e-7


@dataclass(frozen=True, eq=False)
class GainCurve:
    """Held-out loss against the number of members that are stacked; lower is better.

    Every loss is of rows that neither the weights nor the choice of members has seen (cross-validation). Standard
    errors of ``best``, ``uniform`` and ``greedy`` are of the difference from ``stacked``, over folds.

    Attributes:
        score: the score that the loss is of.
        stacked: loss of the stack of all members.
        best: loss of the single member that is best on the rows fitted to.
        uniform: loss of uniform weights on all members.
        greedy_sizes: 1, 2, …, (G,); empty if the score has no slope to choose members by.
        greedy: loss of members chosen one after the other, each the one that would lower the loss fastest, (G,).
        greedy_se: (G,).
        random_sizes: sizes of random subsets, up to K, (R,).
        random: mean loss over random subsets, (R,).
        random_se: standard error over subsets, (R,).
        further: gain from further members like these; None for one member.
    """

    score: str
    stacked: float
    best: Estimate
    uniform: Estimate
    greedy_sizes: np.ndarray
    greedy: np.ndarray
    greedy_se: np.ndarray
    random_sizes: np.ndarray
    random: np.ndarray
    random_se: np.ndarray
    further: Further | None

    @property
    def gain(self) -> Estimate:
        """Gain of the stack over the best single member."""
        return Estimate(self.best.value - self.stacked, self.best.se)

    def enough(self, share: float = 0.95) -> int | None:
        """Return how many members, chosen one after the other, have this share of the gain; None if too few do."""
        gain = self.gain.value
        with np.errstate(invalid="ignore"):
            reached = self.best.value - self.greedy >= share * gain
        return int(self.greedy_sizes[reached.argmax()]) if reached.any() and gain > 0 else None

    @property
    def frame(self) -> pd.DataFrame:
        """One row per way of choosing and number of members."""
        parts = {
            "greedy": (self.greedy_sizes, self.greedy, self.greedy_se),
            "random": (self.random_sizes, self.random, self.random_se),
        }
        blocks = [
            pd.DataFrame({"chosen": chosen, "members": size, "loss": loss, "se": se})
            for chosen, (size, loss, se) in parts.items()
        ]
        return pd.concat(blocks, ignore_index=True)


def gain_curve(
    problem: Problem, *, more: int = BATCH, subsets: int = 20, folds: int = 5, seed: int = 0
) -> GainCurve:
    """Cross-validate the loss against the number of members, chosen one after the other and at random.

    Args:
        problem: form, score and rows.
        more: number of further members to expect a gain of.
        subsets: random orders of the members; the first m of each are stacked.
        folds: of the cross-validation.
        seed: of orders and folds.
    """
    table, rng = problem.table, np.random.default_rng(seed)
    K = table.K
    stacked_sizes = sizes(K, more)
    orders = [rng.permutation(K) for _ in range(subsets)]
    parts = list(split_folds(table.N, folds, seed))
    each = [
        _fold(problem.part(rows=fitted), table.select(rows=test), orders, stacked_sizes) for fitted, test in parts
    ]
    shares = np.array([table.row_weights[test].sum() for _, test in parts])

    stacked = np.array([fold.stacked for fold in each])
    longest = max(len(fold.greedy) for fold in each)
    greedy = np.array([_stretched(fold.greedy, longest) for fold in each])
    by_fold = np.array([fold.random for fold in each])  # (folds, orders, sizes)
    random = np.einsum("f,frm->rm", shares, by_fold)
    further = None
    if K > 1:
        with np.errstate(invalid="ignore"):  # a density of 0 somewhere: no finite difference
            gained = {int(m): by_fold[:, :, i] - stacked[:, None] for i, m in enumerate(stacked_sizes)}
        further = further_gain(K, more, gained, shares, seed)
    return GainCurve(
        score=repr(problem.score),
        stacked=float(shares @ stacked),
        best=_against(np.array([fold.best for fold in each]), stacked, shares),
        uniform=_against(np.array([fold.uniform for fold in each]), stacked, shares),
        greedy_sizes=np.arange(1, longest + 1),
        greedy=shares @ greedy,
        greedy_se=np.array([_against(losses, stacked, shares).se for losses in greedy.T]),
        random_sizes=stacked_sizes,
        random=random.mean(0),
        random_se=np.array([mean_over_folds(losses).se for losses in random.T]),
        further=further,
    )


def sizes(K: int, more: int) -> np.ndarray:
    """Return 1, …, K/4, K/2, K, and the sizes that say what ``more`` further members would add."""
    doubling = {K >> i for i in range(K.bit_length())}
    return np.array(sorted(doubling | (set(nested_sizes(K, more)[1]) if K > 1 else set())))


@dataclass(frozen=True)
class _Fold:
    """Losses on the test rows of one fold."""

    stacked: float
    best: float
    uniform: float
    greedy: list[float]
    random: list[list[float]]


def _fold(train: Problem, test: Table, orders: list[np.ndarray], of_sizes: np.ndarray) -> _Fold:
    """Stack on the rows of one fold, and return the losses on its test rows."""
    score = train.score

    @cache  # small subsets come up in several orders
    def held_out(members: tuple[int, ...]) -> float:
        return train.part(members=members).loss_on(test.select(members=members))

    stacked = train.loss_on(test)
    best = int(np.nanargmin(single_member_scores(train.table, score)))
    return _Fold(
        stacked=stacked,
        best=float(single_member_scores(test.select(members=[best]), score)[0]),
        uniform=losses(uniform(test, score.needs), score)[0],
        greedy=[fit.evaluate(test.select(members=list(fit.names)))["loss"] for fit in _greedy(train, best)],
        random=[[*(held_out(tuple(sorted(order[:m]))) for m in of_sizes[:-1]), stacked] for order in orders],
    )


def _greedy(train: Problem, first: int) -> Iterator[Stacking]:
    """Yield stacks of 1, 2, … members: each time the one is added whose weight would lower the loss fastest."""
    form, score, K = train.form, train.score, train.table.K
    if ProjectedGradient().unsupported_reason(form, score) or not score.smooth:
        return
    loss, members = differentiated(train.table, form, score), [first]
    while (part := train.part(members=members)).possible:
        fit = part.solve()
        yield fit
        w = form.expand_params(dict(fit.params), np.array(members), K)["weights"]
        slope = np.nan_to_num(loss.gradient(w), nan=np.inf)
        level = w[members] @ slope[members]  # a member lowers the loss if its slope is below the stack's
        slope[members] = np.inf
        if len(members) == min(K, GREEDY) or slope.min() > level - FLAT * unit_of_loss(score, fit.loss):
            return
        members.append(int(slope.argmin()))


def _stretched(losses: list[float], length: int) -> list[float]:
    """Repeat the last loss of a fold whose last member was added earlier than in other folds."""
    return losses + (losses[-1:] or [np.inf]) * (length - len(losses))


def _against(losses: np.ndarray, stacked: np.ndarray, shares: np.ndarray) -> Estimate:
    """Return the mean loss over folds, with the standard error of its difference from the stack's."""
    with np.errstate(invalid="ignore"):  # a density of 0 somewhere: no finite difference
        return Estimate(float(shares @ losses), mean_over_folds(losses - stacked, shares).se)
