r"""Mixture × Cramér–von Mises rank calibration: convex–concave procedure.

The sorted ranks' targets u depend on w only through the order of the ranks, and D is the least over all orders:

.. math::
    D(w) = \min_\pi \frac1d \sum_{jn} a_n \Big(\sum_k w_k r_{kjn} - u_{\pi_j(n)}\Big)^2 + \text{const}

Sort, solve the least squares on the simplex for those targets, and sort again: every round lowers D, there are
finitely many orders, so it ends; at a stationary point, which need not be the best one, hence several starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from drystone.forms import Form, Mixture
from drystone.scores import RankCvM, Score
from drystone.scores.rank import uniform_targets
from drystone.solvers.newton import Quadratic, frank_wolfe_gap
from drystone.solvers.quadratic import minimise_quadratic
from drystone.solvers.solver import Solution, Solver
from drystone.solvers.starts import simplex_starts
from drystone.table import Table

__all__ = ["ConvexConcave"]


class RankDistance:
    """D(w) and its quadratic majorants, for ranks (K, N, d) with row weights a (N,)."""

    def __init__(self, rank: np.ndarray, a: np.ndarray) -> None:
        self.rank, self.a = rank, a
        root = np.sqrt(a / rank.shape[2])[:, None]
        scaled = (rank * root).reshape(len(rank), -1)
        self.gram = 2 * scaled @ scaled.T  # the majorants differ in their linear term only
        self.scaled, self.root = scaled, root

    def majorant(self, w: np.ndarray) -> Quadratic:
        """The quadratic with the order of the ranks at w held fixed: equal to D at w, above it elsewhere."""
        r = torch.as_tensor(np.tensordot(w, self.rank, 1))
        u = (uniform_targets(r, torch.as_tensor(self.a)).numpy() * self.root).ravel()
        return Quadratic(self.gram, -2 * self.scaled @ u, float(u @ u + (self.a**3).sum() / 12))

    def value(self, w: np.ndarray) -> float:
        """D(w)."""
        return self.majorant(w).value(w)


@dataclass(frozen=True, repr=False)
class ConvexConcave(Solver):
    """Rounds of sorting and simplex least squares, from several starts; the best is kept.

    Args:
        starts: how many.
        rounds: at most so many a start.
    """

    solves: ClassVar = ((Mixture, RankCvM),)
    starts: int = 6
    rounds: int = 200

    def solve(self, table: Table, form: Form, score: Score, tol: float, seed: int) -> Solution:
        """The best stationary point found."""
        assert isinstance(form, Mixture)
        assert isinstance(score, RankCvM)
        distance = RankDistance(
            table.rank if score.statistic is None else table.rank_of(score.statistic), table.row_weights
        )
        c = form.pseudocount(table)
        ends = [
            self._descend(distance, start, c, tol)
            for start in simplex_starts(table, distance.value, self.starts, seed)
        ]
        return min(ends, key=lambda end: distance.value(end.params["weights"]) - _log_prior(end, c))

    def _descend(self, distance: RankDistance, w: np.ndarray, c: float, tol: float) -> Solution:
        majorant, gap, taken = distance.majorant(w), np.inf, 0
        while gap > tol and taken < self.rounds:
            w = minimise_quadratic(majorant, c, tol / 10, w).params["weights"]
            majorant, taken = distance.majorant(w), taken + 1
            # D and its majorant touch at w, and so do their gradients: this is the stationarity of D itself.
            gap = frank_wolfe_gap(w, majorant.gradient(w) - (c / w if c > 0 else 0.0))
        return Solution({"weights": w}, None, gap, gap <= tol, taken)


def _log_prior(end: Solution, c: float) -> float:
    return c * float(np.log(end.params["weights"]).sum()) if c > 0 else 0.0
