r"""Sample aggregation × mean score, exactly: ordinary least squares of the truth on the members' means.

.. math::
    \min_{w_0, W} \sum_n a_n \Big\|\theta_n - w_0 - \sum_k W_k \mu_{kn}\Big\|^2
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drystone.forms import Form, SampleAggregation
from drystone.scores import MeanScore, Score
from drystone.scores.units import unit
from drystone.solvers.solver import Solution, Solver, tolerance
from drystone.table import Table

__all__ = ["LeastSquares"]


@dataclass(frozen=True, repr=False)
class LeastSquares(Solver):
    """The solution of least norm, by singular values; its certificate is what the residual has left to explain."""

    solves: ClassVar = ((SampleAggregation, MeanScore),)
    certifies: ClassVar = True

    def solve(self, table: Table, form: Form, score: Score, tol: float, seed: int) -> Solution:
        """The optimal offset and matrices."""
        assert isinstance(form, SampleAggregation)
        assert isinstance(score, MeanScore)
        K, N, d = table.K, table.N, table.d
        scale = unit(score.scale, d).numpy()
        root = np.sqrt(table.row_weights)[:, None]
        offset, matrix, gap = np.zeros(d), np.zeros((K, d, d)), 0.0
        mean, theta = table.mean, table.theta
        if form.structure == "scalar":
            # All parameters at once: an intercept each, and one coefficient a member.
            X = (
                np.concatenate([np.repeat(np.eye(d)[None], N, 0), (mean / scale).transpose(1, 2, 0)], 2)
                * root[..., None]
            )
            beta, gap = _least_squares(X.reshape(N * d, -1), (theta / scale * root).ravel())
            offset, matrix = beta[:d] * scale, beta[d:, None, None] * np.eye(d)
        else:
            for j in range(d):
                regressors = (
                    mean[:, :, j].T if form.structure == "diagonal" else mean.transpose(1, 0, 2).reshape(N, -1)
                )
                beta, explained = _least_squares(
                    np.hstack([np.ones((N, 1)), regressors]) * root, theta[:, j] * root[:, 0]
                )
                offset[j] = beta[0]
                if form.structure == "diagonal":
                    matrix[:, j, j] = beta[1:]
                else:
                    matrix[:, j, :] = beta[1:].reshape(K, d)
                gap += explained / scale[j] ** 2
        spread = float((((theta - table.row_weights @ theta) / scale * root) ** 2).sum())
        note = ""
        free = 1 + {"scalar": K / d, "diagonal": K, "full": K * d}[form.structure]
        if 5 * free > N:
            note = f"N = {N} rows for {free:.0f} coefficients a parameter: likely to overfit."
        return Solution(
            {"offset": offset, "matrix": matrix}, gap, gap, gap <= tolerance(tol, score, spread), 1, note
        )


def _least_squares(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """β of least norm, and the squared length of what X still explains of the residual (0 but for rounding)."""
    U, sigma, Vt = np.linalg.svd(X, full_matrices=False)
    seen = sigma > 1e-12 * sigma.max(initial=0.0)
    U, sigma, Vt = U[:, seen], sigma[seen], Vt[seen]
    beta = Vt.T @ (U.T @ y / sigma)
    return beta, float(((U.T @ (y - X @ beta)) ** 2).sum())
