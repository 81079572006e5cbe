r"""Rank calibration (Sec. 2.2, App. C.3): are the ranks of the truth uniform?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from drystone.forms.view import View
from drystone.scores.score import Score
from drystone.table import Statistic

__all__ = ["RankCvM", "RankMoments", "uniform_targets"]


@dataclass(frozen=True, repr=False)
class RankCvM(Score):
    r"""Cramér–von Mises distance of the stacked ranks to uniform.

    .. math::
        D = \int_0^1 (\hat F_r(t) - t)^2 dt = \sum_i a_{(i)} (r_{(i)} - u_i)^2 + \frac1{12} \sum_i a_{(i)}^3

    averaged over the d margins, with sorted ranks r_(i) and u_i the mid-points of the cumulated row weights
    ((2i − 1)/(2N) if they are equal). Exact, not a grid: it costs one sort. Exactly calibrated continuous ranks
    have E[D] = 1/(6N).

    Proper but not strictly: the prior itself has uniform ranks. Use it in a sum with :class:`LogScore`.

    Args:
        statistic: a quantity of interest f(θ, y) whose ranks are wanted instead of each parameter's:
            theta (..., N, d) and y (N, ...) as NumPy arrays to (..., N). Needs draws.

    Example:
        >>> import drystone as ds
        >>> table, ranks = ds.toy.table(200, seed=1), ds.RankCvM()
        >>> fit, hybrid = ds.stack(table), ds.stack(table, score=ds.LogScore() + 10 * ranks)
        >>> hybrid.terms["RankCvM()"] < fit.evaluate(table, ranks)["loss"], hybrid.terms["LogScore()"] > fit.loss
        (True, True)
    """

    calibration_only: ClassVar = True
    statistic: Statistic | None = None

    @property
    def needs(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Ranks; of a quantity of interest, draws."""
        return _ranks_of(self.statistic)

    def __call__(self, q: View) -> Tensor:
        """Return the distance, averaged over margins."""
        r, a = q.rank(self.statistic), q.row_weights
        u = torch.as_tensor(uniform_targets(r.detach().numpy().T, a.numpy()).T)
        return q.average((r - u) ** 2).mean() + (a**3).sum() / 12

    def on_samples(self, q: View, weightings: np.ndarray) -> np.ndarray:
        """Return the distance on each sample, (2B,); ranks are sorted once for all."""
        r = q.rank(self.statistic).numpy()
        order = np.argsort(r, 0)
        ordered = np.take_along_axis(r, order, 0)
        return np.array([_distance(ordered, a[order]) for a in weightings])


def _distance(r: np.ndarray, a: np.ndarray) -> float:
    """Return D from the sorted ranks of each margin, (N, d), and their row weights in the same order, (N, d)."""
    u = np.cumsum(a, 0) - a / 2
    return float((a * (r - u) ** 2 + a**3 / 12).sum(0).mean())


@dataclass(frozen=True, repr=False)
class RankMoments(Score):
    r"""First and log moments of the stacked ranks against those of a uniform variable (toy of Sec. 3).

    .. math::
        S = \left(\bar r - \tfrac12\right)^2 + \left(\overline{\log \tilde r} + 1\right)^2,
        \qquad \tilde r = \frac{S r + 1/2}{S + 1}

    averaged over margins, with r = Σ_k w_k r_k inside the logarithm (the paper prints the sum over k outside).
    Ranks lie on {0, 1, …, S}/S, so r̃ keeps the logarithm finite.

    Args:
        draws: S, how many draws are behind each rank. Read off the table if it has draws, else taken as 1000.
        statistic: a quantity of interest f(θ, y), as in :class:`RankCvM`. Needs draws.

    Example:
        >>> import drystone as ds
        >>> fit = ds.stack(ds.toy.table(200, seed=1), score=ds.LogScore() + 10 * ds.RankMoments())
        >>> {name: round(value, 2) for name, value in fit.terms.items()}
        {'LogScore()': 1.34, 'RankMoments()': 0.0}
    """

    calibration_only: ClassVar = True
    draws: int | None = None
    statistic: Statistic | None = None

    @property
    def needs(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Ranks; of a quantity of interest, draws."""
        return _ranks_of(self.statistic)

    def __call__(self, q: View) -> Tensor:
        """Return the two squares, averaged over margins."""
        r, S = q.rank(self.statistic), self.draws or q.S or 1000
        first = q.average(r) - 1 / 2
        logarithm = q.average(torch.log((S * r + 0.5) / (S + 1))) + 1
        return (first**2 + logarithm**2).mean()


def _ranks_of(statistic: Statistic | None) -> frozenset[str]:
    """Return what ranks need: draws, if they are not of the parameters."""
    return frozenset({"rank"} if statistic is None else {"draws"})


def uniform_targets(r: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Return where each rank of a margin would lie if the ranks were uniform: mid-points of cumulated weights.

    Args:
        r: ranks, (d, N).
        a: row weights, (N,).

    Returns:
        u, (d, N): for the i-th smallest rank of a margin, u_i = Σ_{l<i} a_(l) + a_(i)/2.
    """
    order = np.argsort(r, 1)
    ordered = a[order]
    u = np.empty_like(r)
    np.put_along_axis(u, order, np.cumsum(ordered, 1) - ordered / 2, 1)
    return u
