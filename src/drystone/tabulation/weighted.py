r"""Statistics of weighted points, for members that are normalized by importance sampling.

.. math:: r = \sum_m w_m 1(\theta_m \le \theta), \qquad \mu = \sum_m w_m \theta_m, \qquad
    V = \sum_m w_m (\theta_m - \mu)(\theta_m - \mu)^\top

Resampling the points first would only add noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from drystone.likelihood.weights import weighted_quantiles
from drystone.table.statistics import Key, level_key

__all__ = ["of_weighted_points"]


def of_weighted_points(
    theta: np.ndarray, rows: Iterable[tuple[np.ndarray, np.ndarray]], levels: Sequence[float]
) -> dict[Key, np.ndarray]:
    """Return rank, mean, covariance and quantiles of the rows, by the table's keys.

    Args:
        theta: true parameters, (n, d).
        rows: for each of them points (m, d) and their weights (m,), which sum to one.
        levels: of the quantiles.
    """
    of_rows = [_of_row(truth, points, w, levels) for truth, (points, w) in zip(theta, rows, strict=True)]
    return {key: np.stack([row[key] for row in of_rows]) for key in of_rows[0]}


def _of_row(
    truth: np.ndarray, points: np.ndarray, w: np.ndarray, levels: Sequence[float]
) -> dict[Key, np.ndarray]:
    mean = w @ points
    centered = points - mean
    statistics: dict[Key, np.ndarray] = {
        "rank": np.minimum(w @ (points <= truth), 1.0),  # the weights sum to one but for rounding
        "mean": mean,
        "cov": (w[:, None] * centered).T @ centered,
    }
    return statistics | dict(zip(map(level_key, levels), weighted_quantiles(points, w, levels), strict=True))
