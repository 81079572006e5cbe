r"""Integrals over the plane of functions that are smooth and vanish far away."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from drystone.errors import ConvergenceWarning

__all__ = ["log_integral"]

Array = NDArray[np.float64]

MARGIN = 0.2  # of the rectangle's sides, added on each side
FIRST_POINTS, LAST_POINTS = 48, 768  # a side; doubled until the logarithm changes by less than
TOLERANCE = 1e-4


def log_integral(log_f: Callable[[Array], Array], mean: Array, cov: Array, cover: Array) -> float:
    r"""Evaluate :math:`\log\int_{\mathbb R^2} f(x)\,dx` by the midpoint rule in the principal axes of f.

    .. math::
        \int f(x)\,dx \approx h_1 h_2\,|L| \sum_{ij} f(m + L z_{ij}), \qquad LL^\top = C

    on a grid of spacings :math:`h_1, h_2`. For smooth f that vanish at the edge the rule converges faster than
    any power of h: a Gaussian is exact to rounding at half a standard deviation. The spacing is halved until the
    result settles, which two narrow hills far apart may need.

    Args:
        log_f: Evaluates :math:`\log f` at points (M, 2); returns (M,).
        mean: Mean m of f, shape (2,).
        cov: Its covariance C, shape (2, 2).
        cover: Points (M, 2) that reach to where f is negligible; the grid covers them and a margin.

    Example:
        >>> import numpy as np
        >>> hill = lambda x: -0.5 * (x**2).sum(-1)
        >>> corners = np.array([[-6.0, -6.0], [6.0, 6.0]])
        >>> float(np.exp(log_integral(hill, np.zeros(2), np.eye(2), corners)))  # 2π
        6.28318...
    """
    cholesky = np.linalg.cholesky(cov)
    z = np.linalg.solve(cholesky, (cover - mean).T).T
    margin = MARGIN * np.ptp(z, 0)
    low, high = z.min(0) - margin, z.max(0) + margin

    def midpoint(points: int) -> float:
        h = (high - low) / points
        axes = low + h * (np.arange(points)[:, None] + 0.5)
        grid = np.stack(np.meshgrid(*axes.T, indexing="ij"), -1).reshape(-1, 2)
        area = h[0] * h[1] * cholesky[0, 0] * cholesky[1, 1]
        return float(logsumexp(log_f(mean + grid @ cholesky.T)) + np.log(area))

    points, value, change = FIRST_POINTS, midpoint(FIRST_POINTS), np.inf
    while points < LAST_POINTS and change > TOLERANCE:
        points, coarser = 2 * points, value
        value = midpoint(points)
        change = abs(value - coarser)
    if change > TOLERANCE:
        warnings.warn(
            f"an integral over the plane still changed by {change:.1e} nats on a grid of {points}² points.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return value
