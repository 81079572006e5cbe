r"""Mixture × Cramér–von Mises rank calibration: Gauss–Newton steps, then the convex–concave procedure.

The sorted ranks' targets u depend on w only through the order of the ranks, and D is the least over all orders:

.. math::
    D(w) = \min_\pi \frac1d \sum_{jn} a_n \Big(\sum_k w_k r_{kjn} - u_{\pi_j(n)}\Big)^2 + \text{const}

Sort, solve the least squares on the simplex for those targets, and sort again: every round lowers D, there are
finitely many orders, so it ends; at a stationary point, which need not be the best one, hence several starts.

That procedure holds targets fixed that really follow the ranks, so its steps are short. Seen as a smooth
function, D = ∫(F(t) − t)² dt has ∂F/∂w_k = −E[r_k | r = t] for nearly uniform ranks, so its curvature is not the
Gram matrix of the members' ranks but that of their averages among rows of like stacked rank: steps with that come
close quickly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drystone.forms import Mixture
from drystone.scores import RankCvM
from drystone.scores.rank import uniform_targets
from drystone.solvers.projected_gradient import simplex_starts
from drystone.solvers.quadratic import minimise_quadratic
from drystone.solvers.simplex.newton import Minimum, Quadratic, frank_wolfe_gap
from drystone.solvers.simplex.qp import simplex_qp
from drystone.solvers.solver import Solution, Solver, Status
from drystone.table import Table

__all__ = ["ConvexConcave"]


class RankDistance:
    """D and its quadratic majorants, for ranks (K, N, d) with row weights a (N,).

    Stacked ranks are held flat, margin after margin, each scaled by √ of its share in the mean: (d N,).
    """

    def __init__(self, rank: np.ndarray, a: np.ndarray) -> None:
        K, _, d = rank.shape
        self.a, self.d = a, d
        self.root = np.tile(np.sqrt(a / d), d)
        self.scaled = np.empty((K, d * len(a)))
        np.multiply(rank.transpose(0, 2, 1), self.root.reshape(d, -1), out=self.scaled.reshape(K, d, -1))
        self.gram = 2 * self.scaled @ self.scaled.T  # the majorants differ in their linear term only
        self.constant = float((a**3).sum()) / 12
        self.equal = bool((a == a[0]).all())
        self.margin = np.arange(d)[:, None]
        self.middle = (np.cumsum(a) - a / 2) * np.sqrt(
            a / d
        )  # the scaled targets in order, if rows weigh the same

    def ranks(self, w: np.ndarray) -> np.ndarray:
        """Return stacked ranks at w."""
        return w @ self.scaled

    def of_ranks(self, r: np.ndarray) -> float:
        """Return D of stacked ranks."""
        return float(((r - self._targets(r)) ** 2).sum()) + self.constant

    def value(self, w: np.ndarray) -> float:
        """Return D(w)."""
        return self.of_ranks(self.ranks(w))

    def majorant(self, r: np.ndarray) -> Quadratic:
        """Return the quadratic with the order of these ranks fixed: equal to D at their w, above it elsewhere."""
        u = self._targets(r)
        return Quadratic(self.gram, -2 * self.scaled @ u, float(u @ u) + self.constant)

    def curvature(self, r: np.ndarray) -> np.ndarray:
        """Return 2 Σ E[r_j | r] E[r_k | r], (K, K): averages over √N neighbors in the order of stacked ranks."""
        K, N = len(self.scaled), len(self.a)
        window = max(int(np.sqrt(N)), 1)
        total = np.zeros((K, K))
        for margin, ranks in zip(np.split(self.scaled, self.d, 1), np.split(r, self.d), strict=True):
            ordered = margin[:, ranks.argsort()[: N // window * window]]
            average = ordered.reshape(K, -1, window).sum(2) / np.sqrt(window)
            total += 2 * average @ average.T
        return total

    def _targets(self, r: np.ndarray) -> np.ndarray:
        """Return where each of the ranks would lie if they were uniform."""
        if self.equal:  # called so often that the general rule below would be half of the time
            u = np.empty((self.d, len(self.a)))
            u[self.margin, r.reshape(self.d, -1).argsort(1)] = self.middle
            return u.ravel()
        unscaled = np.divide(r, self.root, out=np.zeros_like(r), where=self.root > 0)
        return uniform_targets(unscaled.reshape(self.d, -1), self.a).ravel() * self.root


@dataclass(frozen=True, repr=False)
class ConvexConcave(Solver[Mixture, RankCvM]):
    """Gauss–Newton steps from several starts, and rounds of sorting and least squares from the best end.

    Args:
        starts: how many.
        rounds: at most so many.

    Example:
        >>> import drystone as ds, warnings
        >>> solver = ds.solvers.ConvexConcave(starts=2)
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")  # ranks alone are not a strict criterion
        ...     fit = ds.stack(ds.toy.table(200, seed=1), score=ds.RankCvM(), solver=solver)
        >>> fit.status.name, fit.loss < 1e-3
        ('CONVERGED', True)
    """

    solves: ClassVar = ((Mixture, RankCvM),)
    starts: int = 3
    rounds: int = 1000

    def minimize(self, table: Table, form: Mixture, score: RankCvM, tol: float, seed: int) -> Solution:
        """Return the best stationary point found."""
        ranks = table.rank if score.statistic is None else table.rank_of(score.statistic)
        distance, c = RankDistance(ranks, table.row_weights), form.pseudocount(table)
        best = int(np.argmin([distance.of_ranks(r) for r in distance.scaled]))
        starts = simplex_starts(table, best, self.starts, seed)
        if c > 0:  # off the boundary, where the prior's density is 0
            starts = [0.9 * start + 0.1 / table.K for start in starts]
        near = [_approach(distance, start, c) for start in starts]
        nearest = min(near, key=lambda w: distance.value(w) - _log_prior(w, c))
        end = _descend(distance, nearest, c, tol, self.rounds)
        status = Status.of(end.gap, tol, certified=False, at_limit=True)
        return Solution({"weights": end.weights}, None, end.gap, status, end.iterations)


def _approach(distance: RankDistance, w: np.ndarray, c: float, most: int = 50) -> np.ndarray:
    """Take Gauss–Newton steps, halved until D falls, until six of them gain less than a fiftieth."""
    r = distance.ranks(w)
    values = [distance.of_ranks(r) - _log_prior(w, c)]
    while len(values) <= most and (len(values) < 7 or values[-7] - values[-1] > abs(values[-1]) / 50):
        gradient = distance.majorant(r).gradient(w) - (c / w if c > 0 else 0.0)
        # A little of the Gram matrix, for directions that the averages do not see.
        H = distance.curvature(r) + 1e-3 * distance.gram + (np.diag(c / w**2) if c > 0 else 0.0)
        direction = simplex_qp(H, gradient - H @ w, w) - w
        change = distance.ranks(direction)
        for step in (1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64):
            with np.errstate(divide="ignore"):
                value = distance.of_ranks(r + step * change) - _log_prior(w + step * direction, c)
            if value < values[-1]:
                break
        else:
            break
        w, r = np.maximum(w + step * direction, 0.0), r + step * change
        values.append(value)
    return w / w.sum()


def _descend(distance: RankDistance, w: np.ndarray, c: float, tol: float, most: int) -> Minimum:
    """Repeat rounds until D is stationary; each goes further than its least squares as long as D falls.

    The ranks are linear in the step, so trying one costs a sort.
    """
    r, gap = distance.ranks(w), np.inf
    majorant = distance.majorant(r)
    for taken in range(most):
        # D and its majorant touch at w, and so do their gradients: this is the stationarity of D itself.
        gap = frank_wolfe_gap(w, majorant.gradient(w) - (c / w if c > 0 else 0.0))
        if gap <= tol:
            return Minimum(w, gap, taken)
        direction = minimise_quadratic(majorant, c, tol / 10, w).params["weights"] - w
        falling = direction < 0
        room = float((w[falling] / -direction[falling]).min(initial=np.inf)) * (0.99 if c > 0 else 1.0)
        change = distance.ranks(direction)
        reach, least = 1.0, np.inf
        for step in _doubling(room):
            value = distance.of_ranks(r + step * change) - _log_prior(w + step * direction, c)
            if value >= least:
                break
            reach, least = step, value
        w = np.maximum(w + reach * direction, 0.0)
        r = r + reach * change
        majorant = distance.majorant(r)
    return Minimum(w / w.sum(), gap, most)


def _doubling(room: float) -> Iterator[float]:
    """Return 1, 2, 4, … as long as there is room; 1 always."""
    step = 1.0
    yield step
    while 2 * step <= room:
        step *= 2
        yield step


def _log_prior(w: np.ndarray, c: float) -> float:
    return c * float(np.log(w).sum()) if c > 0 else 0.0
