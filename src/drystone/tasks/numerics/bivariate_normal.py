r"""Probability of a rectangle under a correlated bivariate normal distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, owens_t

__all__ = ["rectangle"]

Array = NDArray[np.float64]


def rectangle(low: tuple[ArrayLike, ArrayLike], high: tuple[ArrayLike, ArrayLike], rho: ArrayLike) -> Array:
    r"""Evaluate :math:`P(a_1 < Z_1 < b_1,\, a_2 < Z_2 < b_2)` for standard normals with correlation ρ.

    The sum over corners of the distribution function, written with Owen's T (Owen 1956, eq. 2.1):

    .. math::
        \Phi_2(h, k; \rho) = \tfrac12[\Phi(h) + \Phi(k)] - T(h, \tfrac{k - \rho h}{h\sqrt{1-\rho^2}})
            - T(k, \tfrac{h - \rho k}{k\sqrt{1-\rho^2}}) - \tfrac12\,1[hk < 0]

    Absolute accuracy is that of double precision, so a probability below about 1e-15 has no digits.

    Args:
        low: Bounds :math:`a_1, a_2`, each broadcastable to (N,).
        high: Bounds :math:`b_1, b_2`.
        rho: Correlations in (-1, 1).

    Example:
        >>> float(rectangle((0.0, 0.0), (40.0, 40.0), 0.5))  # the quadrant: 1/4 + arcsin(ρ) / 2π
        0.33333...
    """
    (a1, a2), (b1, b2) = low, high
    corners = _cdf(b1, b2, rho) - _cdf(a1, b2, rho) - _cdf(b1, a2, rho) + _cdf(a1, a2, rho)
    return np.maximum(corners, 0.0)


def _cdf(h: ArrayLike, k: ArrayLike, rho: ArrayLike) -> Array:
    h, k, rho = (np.asarray(v, dtype=float) for v in (h, k, rho))
    # T(0, ·) needs the sign of the other coordinate only; a tiny number in place of 0 carries it.
    h, k = np.where(h == 0, 1e-300, h), np.where(k == 0, 1e-300, k)
    root = np.sqrt(1 - rho**2)
    with np.errstate(over="ignore"):
        first = owens_t(h, (k / h - rho) / root)
        second = owens_t(k, (h / k - rho) / root)
    return 0.5 * (ndtr(h) + ndtr(k)) - first - second - 0.5 * (h * k < 0)
