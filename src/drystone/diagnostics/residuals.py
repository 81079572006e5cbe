r"""How far data are from what members' estimates predict of them: residuals of a regression on simulations.

The whitened data z(y) are regressed on the members' posterior means s(y), averaged, by local linear regression
over the nearest rows of a cloud. The statistic is the mean square of the whitened residual, relative to that of
the neighbours, each of which is predicted without itself:

.. math:: T(y) = \frac{\| L (z(y) - \hat z(s(y))) \|^2}{\text{mean of the same at the neighbours of } s(y)}

Data whose estimates are ordinary but which no such parameters would give stand out: data of twenty entries are far
from their neighbours in any case, and need not be far from what their parameters predict.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree

from drystone.table.inputs import spread_or_one

__all__ = ["Residuals"]

# Rows that a prediction rests on, times one more than the number of estimates.
NEIGHBORS = 10
# Ridge of the regression per row, and share of the diagonal that keeps the residuals' covariance regular.
RIDGE, REGULAR = 0.01, 0.01
# Least variance of a residual of whitened data: less is rounding, by which float32 data differ from float64 ones.
LEAST = 1e-8


class Residuals:
    """A cloud of rows with estimates and whitened data, and how far other rows are from what it predicts.

    Args:
        estimates: s, (n, f); those that are not finite count as the mean of the others.
        data: z, (n, q).
    """

    def __init__(self, estimates: np.ndarray, data: np.ndarray) -> None:
        n, f = estimates.shape
        finite = (
            estimates[np.isfinite(estimates).all(1)] if np.isfinite(estimates).all(1).any() else np.zeros((1, f))
        )
        self.center, self.scale = finite.mean(0), spread_or_one(finite)
        self.estimates, self.data = self._scaled(estimates), data
        self.tree, self.k = KDTree(self.estimates), max(1, min(NEIGHBORS * (f + 1), n - 1))
        near = np.atleast_2d(self.tree.query(self.estimates, self.k + 1)[1])
        others = np.stack([places[places != row][: self.k] for row, places in enumerate(near)])
        residuals = data - self._predicted(self.estimates, others)
        covariance = np.atleast_2d(np.cov(residuals, rowvar=False))
        covariance = covariance + np.diag(REGULAR * np.diag(covariance) + LEAST)
        self.whitening = np.linalg.inv(np.linalg.cholesky(covariance)).T
        self.own = self._mean_square(residuals)

    def distance(self, estimates: np.ndarray, data: np.ndarray) -> np.ndarray:
        """Return the mean square of the whitened residual over that of the neighbours, (n,).

        Args:
            estimates: (n, f).
            data: whitened, (n, q).
        """
        scaled = self._scaled(estimates)
        near = self.tree.query(scaled, self.k)[1].reshape(len(scaled), self.k)
        return self._mean_square(data - self._predicted(scaled, near)) / self.own[near].mean(1)

    def _scaled(self, estimates: np.ndarray) -> np.ndarray:
        return (np.where(np.isfinite(estimates), estimates, self.center) - self.center) / self.scale

    def _mean_square(self, residuals: np.ndarray) -> np.ndarray:
        return ((residuals @ self.whitening) ** 2).mean(1)

    def _predicted(self, scaled: np.ndarray, near: np.ndarray) -> np.ndarray:
        """Return local linear predictions (n, q) at estimates (n, f) from rows ``near`` (n, k) of the cloud."""
        apart = self.estimates[near] - scaled[:, None]  # (n, k, f)
        design = np.concatenate([np.ones((*near.shape, 1)), apart], -1)
        ridge = RIDGE * near.shape[1] * np.eye(design.shape[-1])
        normal = design.swapaxes(1, 2) @ design + ridge
        return np.linalg.solve(normal, design.swapaxes(1, 2) @ self.data[near])[:, 0]
