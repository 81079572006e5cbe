"""What is gained as members are added, on rows that the weights were not fitted to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from drystone.advice.refit import Problem
from drystone.comparison import uniform
from drystone.estimate import split_folds
from drystone.solvers import Gradient
from drystone.solvers.projected_gradient import alone, differentiated
from drystone.stacking.result import Stacking, losses
from drystone.table import Table

__all__ = ["GREEDY", "GainCurve", "gain_curve", "sizes"]

# Members chosen one after the other, at most: by then the curve has long been flat.
GREEDY = 20
# A slope smaller than this gains nothing that a solver's tolerance would show.
FLAT = 1e-7


@dataclass(frozen=True, eq=False)
class GainCurve:
    """Held-out loss against the number of members stacked; lower is better.

    Every loss is of rows that neither the weights nor the choice of members has seen (cross-validation). Standard
    errors of ``best``, ``uniform`` and ``greedy`` are of the difference from ``stacked``, over folds.

    Attributes:
        score: what the loss is.
        stacked: loss of the stack of all members.
        best: loss of the single member that is best on the rows fitted, and the standard error.
        uniform: loss of uniform weights on all members, and the standard error.
        greedy_sizes: 1, 2, …, (G,); empty if the score has no slope to choose members by.
        greedy: loss of members chosen one after the other, each the one that would lower the loss fastest, (G,).
        greedy_se: (G,).
        random_sizes: sizes of random subsets, doubling up to K, (R,).
        random: mean loss over random subsets, (R,).
        random_se: standard error over subsets, (R,).
        another: what a member adds to all others on average, and the standard error, over folds and members; NaN
            for one member. Another like these would add about that or less.
    """

    score: str
    stacked: float
    best: tuple[float, float]
    uniform: tuple[float, float]
    greedy_sizes: np.ndarray
    greedy: np.ndarray
    greedy_se: np.ndarray
    random_sizes: np.ndarray
    random: np.ndarray
    random_se: np.ndarray
    another: tuple[float, float]

    @property
    def gain(self) -> tuple[float, float]:
        """What stacking gains over the best single member, and the standard error."""
        return self.best[0] - self.stacked, self.best[1]

    def enough(self, share: float = 0.95) -> int | None:
        """How many members, chosen one after the other, have this share of the gain; None if too few were."""
        with np.errstate(invalid="ignore"):
            reached = self.best[0] - self.greedy >= share * self.gain[0]
        return int(self.greedy_sizes[reached.argmax()]) if reached.any() and self.gain[0] > 0 else None

    @property
    def frame(self) -> pd.DataFrame:
        """A row a way of choosing and number of members."""
        parts = {
            "greedy": (self.greedy_sizes, self.greedy, self.greedy_se),
            "random": (self.random_sizes, self.random, self.random_se),
        }
        blocks = [
            pd.DataFrame({"chosen": chosen, "members": size, "loss": loss, "se": se})
            for chosen, (size, loss, se) in parts.items()
        ]
        return pd.concat(blocks, ignore_index=True)


def gain_curve(asked: Problem, *, subsets: int = 20, folds: int = 5, seed: int = 0) -> GainCurve:
    """Cross-validated loss against the number of members, chosen one after the other and at random.

    Args:
        asked: form, score and rows.
        subsets: random orders of the members; the first m of each are stacked.
        folds: of the cross-validation.
        seed: of orders and folds.
    """
    table, rng = asked.table, np.random.default_rng(seed)
    orders = [rng.permutation(table.K) for _ in range(subsets)]
    parts = list(split_folds(table.N, folds, seed))
    each = [_fold(asked.part(rows=fitted), table.select(rows=left), orders) for fitted, left in parts]
    shares = np.array([table.row_weights[left].sum() for _, left in parts])

    stacked = np.array([fold.stacked for fold in each])
    longest = max(len(fold.greedy) for fold in each)
    greedy = np.array([_stretched(fold.greedy, longest) for fold in each])
    random = np.einsum("f,frm->rm", shares, [fold.random for fold in each])
    return GainCurve(
        score=repr(asked.score),
        stacked=float(shares @ stacked),
        best=_against(np.array([fold.best for fold in each]), stacked, shares),
        uniform=_against(np.array([fold.uniform for fold in each]), stacked, shares),
        greedy_sizes=np.arange(1, longest + 1),
        greedy=shares @ greedy,
        greedy_se=np.array([_against(losses, stacked, shares)[1] for losses in greedy.T]),
        random_sizes=sizes(table.K),
        random=random.mean(0),
        random_se=_se(random),
        another=_another(np.array([fold.dropped for fold in each]) - stacked[:, None], shares),
    )


def sizes(K: int) -> np.ndarray:
    """1, …, K/4, K/2, K: so that the last step is a doubling."""
    return np.array(sorted({K >> i for i in range(K.bit_length())}))


@dataclass(frozen=True)
class _Fold:
    """Losses on the rows left out of one fold."""

    stacked: float
    best: float
    uniform: float
    greedy: list[float]
    random: list[list[float]]
    dropped: list[float]  # without each member


def _fold(train: Problem, test: Table, orders: list[np.ndarray]) -> _Fold:
    K, score = test.K, train.score

    def held_out(members: np.ndarray) -> float:
        members = np.sort(members)
        return train.part(members=members).loss_on(test.select(members=members))

    whole = train.solve() if train.possible else None
    stacked = np.inf if whole is None else whole.evaluate(test)["loss"]
    used = np.arange(K) if whole is None else whole.form.used(whole.params)[0]
    members = np.arange(K)
    best = int(np.nanargmin(alone(train.table, score)))
    return _Fold(
        stacked=stacked,
        best=float(alone(test.select(members=[best]), score)[0]),
        uniform=losses(uniform(test), score)[0],
        greedy=[fit.evaluate(test.select(members=list(fit.names)))["loss"] for fit in _greedy(train, best)],
        random=[[*(held_out(order[:m]) for m in sizes(K)[:-1]), stacked] for order in orders],
        # A member that is not used can be left out without another fit.
        dropped=[held_out(np.delete(members, k)) if k in used and K > 1 else stacked for k in members],
    )


def _greedy(train: Problem, first: int) -> Iterator[Stacking]:
    """Stacks of 1, 2, … members: each time the one is added whose weight would lower the loss fastest."""
    form, score, K = train.form, train.score, train.table.K
    if Gradient().refuses(form, score) or not score.smooth:
        return
    loss, members = differentiated(train.table, form, score), [first]
    while (part := train.part(members=members)).possible:
        fit = part.solve()
        yield fit
        w = form.embed(dict(fit.params), np.array(members), K)["weights"]
        slope = np.nan_to_num(loss.gradient(w), nan=np.inf)
        level = w[members] @ slope[members]  # a member lowers the loss if its slope is below the stack's
        slope[members] = np.inf
        if len(members) == min(K, GREEDY) or slope.min() > level - FLAT:
            return
        members.append(int(slope.argmin()))


def _another(dropped: np.ndarray, shares: np.ndarray) -> tuple[float, float]:
    """What is lost without a member, on average over members, from losses (folds, K), and the standard error.

    The member hardest to replace is left out of the average: where a stack rests on one good member, what it adds
    says how good that one is, not that there would be another.
    """
    K = dropped.shape[1]
    if K == 1:
        return np.nan, np.nan
    with np.errstate(invalid="ignore"):  # a density of 0 somewhere: no finite spread
        others = np.delete(dropped, (shares @ dropped).argmax(), axis=1)
        gain, over_folds = _weighted(others.mean(1), shares)
        over_members = _se(shares @ others) if K > 2 else 0.0
    return gain, float(np.hypot(over_folds, over_members))


def _stretched(losses: list[float], length: int) -> list[float]:
    """A fold whose last member was added earlier than others' stays at what it had."""
    return losses + (losses[-1:] or [np.inf]) * (length - len(losses))


def _se(values: np.ndarray) -> np.ndarray:
    """Standard error of the mean over the first axis."""
    with np.errstate(invalid="ignore"):  # a density of 0 somewhere: no finite spread
        return values.std(0, ddof=1) / np.sqrt(len(values))


def _against(losses: np.ndarray, stacked: np.ndarray, shares: np.ndarray) -> tuple[float, float]:
    """Loss over folds, and the standard error of its difference from the stack's."""
    with np.errstate(invalid="ignore"):  # a density of 0 somewhere: no finite difference
        return float(shares @ losses), _weighted(losses - stacked, shares)[1]


def _weighted(values: np.ndarray, shares: np.ndarray) -> tuple[float, float]:
    """Mean over folds, and its standard error."""
    folds, mean = len(shares), shares @ values
    variance = shares**2 @ (values - mean) ** 2 * folds / (folds - 1)
    return float(mean), float(np.sqrt(variance))
