r"""Sample aggregation × mean score, exactly: ordinary least squares of the truth on the members' means.

.. math::
    \min_{w_0, W} \sum_n a_n \Big\|\theta_n - w_0 - \sum_k W_k \mu_{kn}\Big\|^2
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drystone.forms import SampleAggregation
from drystone.scores import MeanScore
from drystone.scores.score import unit
from drystone.solvers.solver import Solution, Solver, Status, tolerance
from drystone.table import Table

__all__ = ["LeastSquares"]


@dataclass(frozen=True, repr=False)
class LeastSquares(Solver[SampleAggregation, MeanScore]):
    """The solution of least norm, by singular values; its certificate is what the residual has left to explain."""

    solves: ClassVar = ((SampleAggregation, MeanScore),)
    certifies: ClassVar = True

    def minimize(self, table: Table, form: SampleAggregation, score: MeanScore, tol: float, seed: int) -> Solution:
        """Return the optimal offset and matrices."""
        K, N, d = table.K, table.N, table.d
        a, root = table.row_weights, np.sqrt(table.row_weights)[:, None]
        # Centred, the intercept drops out; in units of the parameters' spread, nothing depends on units.
        centre, means = a @ table.theta, np.einsum("n,knj->kj", a, table.mean)
        spread = np.sqrt(a @ (table.theta - centre) ** 2)
        spread[spread == 0] = 1.0
        theta = (table.theta - centre) / spread * root
        mean = (table.mean - means[:, None]) / spread * root
        relative = spread / unit(score.scale, d).numpy()  # the spread in units of the score
        V, gap = np.zeros((K, d, d)), 0.0
        if form.structure == "scalar":
            X = (mean * relative).transpose(1, 2, 0).reshape(N * d, K)
            beta, gap = _least_squares(X, (theta * relative).ravel())
            V = beta[:, None, None] * np.eye(d)
        else:
            for j in range(d):
                full = form.structure == "full"
                X = mean.transpose(1, 0, 2).reshape(N, -1) if full else mean[:, :, j].T
                beta, left = _least_squares(X, theta[:, j])
                V[:, j, :] = beta.reshape(K, d) if full else beta[:, None] * np.eye(d)[j]
                gap += left * relative[j] ** 2
        matrix = V * spread[:, None] / spread
        offset = centre - np.einsum("kij,kj->i", matrix, means)
        free = {"scalar": K / d, "diagonal": K, "full": K * d}[form.structure]
        note = (
            f"N = {N} rows for {free:.0f} coefficients per parameter: likely to overfit." if 5 * free > N else ""
        )
        allowed = tolerance(tol, score, float((theta**2 * relative**2).sum()))
        gap = float(gap)
        status = Status.of(gap, allowed, certified=True, at_limit=False)
        return Solution({"offset": offset, "matrix": matrix}, gap, gap, status, 1, note)


def _least_squares(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Return β of least norm, and the squared length of the part of the residual in the span of X (rounding)."""
    U, sigma, Vt = np.linalg.svd(X, full_matrices=False)
    seen = sigma > 1e-12 * sigma.max(initial=0.0)
    beta = Vt[seen].T @ (U[:, seen].T @ y / sigma[seen])
    # Also the directions that were left out as noise; but not those that rounding made up between duplicates.
    rounding = max(X.shape) * np.finfo(float).eps * sigma.max(initial=0.0)
    explainable = U[:, seen | (sigma > rounding)]
    return beta, float(((explainable.T @ (y - X @ beta)) ** 2).sum())
