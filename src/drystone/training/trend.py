r"""The linear trend of data in θ, which a flow then need not learn.

.. math:: x = \frac{z - A c - b}{\sigma}

with the standardized data z, the network's input c for θ, and one regression per column of z. A network bends
everywhere, so a mean that is linear in θ costs it most of its simulations; a regression finds it from a few. A
column has a trend only if its mean is linear as far as the rows can tell: a network that must undo what a wrong
trend put in is worse off than one without any.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Trend"]

# Share by which a trend must lower the squared error of a column, and by which squares and products of the inputs
# may lower it further, both at rows left out of the regression: a mean that bends more is none of a line.
LEAST_GAIN, MOST_BEND = 0.01, 0.005
# A slope is 0 unless it is so many standard errors from it: the noise of a slope is for the network to undo.
STANDARD_ERRORS = 3.0
# Regressions have at most one coefficient for so many rows, and look at no more rows than are of use.
ROWS_PER_COEFFICIENT, MOST_ROWS = 10, 50_000
# The noise of a column may depend on θ: its logarithm is a regression, bounded by this on either side of the mean.
LOG_VARIANCE = 6.0
# Rounds of weights and slopes, of which the first keeps all slopes.
ROUNDS = 3
# Tails are heavy if a row is so many standard deviations from the trend. It is then brought to where splines end,
# because beyond that a flow is normal; but nothing becomes narrower than it was in z.
HEAVY, BOUND = 6.0, 5.0
# A column that is a function of θ up to rounding errors has no density about its trend.
LEAST_NOISE = 1e-6


@dataclass(frozen=True)
class Trend:
    """A linear regression of some columns of z on c, and the scale of what is left.

    Args:
        matrix: Slopes A, (p, d); 0 for columns without a trend.
        shift: Intercepts b, (p,); 0 for columns without a trend.
        scale: Standard deviations σ of what is left, or more if its tails are heavy, (p,); 1 for columns without a
            trend.

    Example:
        >>> rng = np.random.default_rng(1)
        >>> c = rng.normal(size=(1000, 2))
        >>> z = np.column_stack([3 * c[:, 0] + rng.normal(size=1000), c[:, 1] ** 2])
        >>> Trend.fit(z, c).matrix.round(1)
        array([[3., 0.],
               [0., 0.]])
    """

    matrix: NDArray[np.float64]
    shift: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def fit(
        cls, z: NDArray[np.floating], c: NDArray[np.floating], columns: NDArray[np.bool_] | None = None
    ) -> Trend | None:
        """Fit on training rows z (N, p) and c (N, d); None if no column has a trend.

        Args:
            z: Standardized data.
            c: Input of the network.
            columns: Mask of the columns of z that may have a trend, (p,); None for all.
        """
        stride = -(-len(z) // MOST_ROWS)  # not the first rows alone, which may be in some order
        z, c = (np.asarray(rows[::stride], np.float64) for rows in (z, c))
        matrix, shift, scale = np.zeros((z.shape[1], c.shape[1])), np.zeros(z.shape[1]), np.ones(z.shape[1])
        line, curve = _line(c), _curve(c)
        if curve is None:
            return None
        linear = _linear_columns(z, line, curve)
        for j in np.flatnonzero(linear if columns is None else linear & columns):
            coefficients = _regression(z[:, j], line, curve)
            left = z[:, j] - line @ coefficients
            noise, farthest = float(left.std()), float(np.abs(left).max())
            if noise > LEAST_NOISE and coefficients[1:].any():
                shift[j], matrix[j] = coefficients[0], coefficients[1:]
                scale[j] = noise if farthest < HEAVY * noise else max(noise, min(farthest / BOUND, 1.0))
        return cls(matrix, shift, scale) if matrix.any() else None

    def apply(self, z: NDArray[np.floating], c: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return x (N, p) for rows z (N, p), or one row for all, and c (N, d)."""
        return (z - self.shift - c @ self.matrix.T) / self.scale

    def invert(self, x: NDArray[np.floating], c: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return z for rows x and c."""
        return x * self.scale + self.shift + c @ self.matrix.T

    @property
    def log_det(self) -> float:
        r"""The log Jacobian :math:`\log|\det dx/dz|`, the same for every row."""
        return -float(np.log(self.scale).sum())


def _line(c: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.column_stack([np.ones(len(c)), c])


def _curve(c: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return an orthonormal basis of the line, squares and, if there are enough rows, products; None with few."""
    most, d = len(c) // ROWS_PER_COEFFICIENT, c.shape[1]
    pairs = [(i, j) for i in range(d) for j in range(i + 1)]
    if 1 + d + len(pairs) > most:
        pairs = [(i, i) for i in range(d)]
    if 1 + d + len(pairs) > most:
        return None
    return np.linalg.qr(np.column_stack([_line(c), *(c[:, i] * c[:, j] for i, j in pairs)]))[0]


def _linear_columns(
    z: NDArray[np.float64], line: NDArray[np.float64], curve: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return which columns of z have a mean that depends on c, and not otherwise than by a line, (p,)."""
    straight, _ = np.linalg.qr(line)  # its first column is constant
    constant, linear, bent = (_left_out_error(z, basis) for basis in (straight[:, :1], straight, curve))
    return (linear < (1 - LEAST_GAIN) * constant) & (bent > (1 - MOST_BEND) * linear)


def _left_out_error(z: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return the mean squared error of each column at rows left out one by one, (p,).

    .. math:: \frac1N \sum_n \left( \frac{z_n - \hat z_n}{1 - h_n} \right)^2

    with the leverages h, the diagonal of the projection q qᵀ on an orthonormal basis.
    """
    leverage = np.minimum((q**2).sum(1, keepdims=True), 0.99)
    return (((z - q @ (q.T @ z)) / (1 - leverage)) ** 2).mean(0)


def _regression(
    z: NDArray[np.float64], line: NDArray[np.float64], curve: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return intercept and slopes by weighted least squares, (1 + d,): those that are not noise.

    The weights are the reciprocals of a variance whose logarithm is a regression on squares and products, too.
    """
    kept, weights = np.ones(line.shape[1], bool), np.ones(len(z))
    for round_ in range(ROUNDS):
        slopes, residuals, errors = _weighted_fit(z, line[:, kept], weights)
        log_variance = np.log(residuals**2 + LEAST_NOISE**2 * z.var() + np.finfo(float).tiny)
        fitted = curve @ (curve.T @ log_variance)
        weights = np.exp(-np.clip(fitted - fitted.mean(), -LOG_VARIANCE, LOG_VARIANCE))
        if round_ > 0:
            far = np.abs(slopes) > STANDARD_ERRORS * errors
            far[0] = True
            kept[np.flatnonzero(kept)[~far]] = False
    coefficients = np.zeros(line.shape[1])
    coefficients[kept] = _weighted_fit(z, line[:, kept], weights)[0]
    return coefficients


def _weighted_fit(
    z: NDArray[np.float64], design: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return coefficients, residuals, and standard errors that hold whatever the variances are (White 1980)."""
    root = np.sqrt(weights)
    weighted = design * root[:, None]
    inverse = np.linalg.pinv(weighted.T @ weighted)
    coefficients = inverse @ (weighted.T @ (z * root))
    residuals = z - design @ coefficients
    noise = weighted * (residuals * root)[:, None]
    return coefficients, residuals, np.sqrt(np.diag(inverse @ (noise.T @ noise) @ inverse))
