r"""Normal mass in an interval and draws from it, accurate when the interval lies far in a tail."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtri_exp

__all__ = ["log_mass", "sample"]

Array = NDArray[np.float64]


def log_mass(low: ArrayLike, high: ArrayLike) -> Array:
    r"""Evaluate :math:`\log[\Phi(b) - \Phi(a)]` for :math:`a < b`, of any size.

    An interval in the upper tail is mirrored into the lower one, where :math:`\log\Phi` keeps its digits.

    Example:
        >>> float(log_mass(40.0, 41.0))  # Φ(41) − Φ(40) itself is 0 in double precision
        -804.6...
    """
    low, high = _mirror(low, high)[:2]
    log_low, log_high = log_ndtr(low), log_ndtr(high)
    with np.errstate(invalid="ignore"):  # both −inf: a mass too small even for its logarithm
        log_ratio = np.where(np.isneginf(log_high), -np.inf, log_low - log_high)
    return log_high + np.log1p(-np.exp(np.minimum(log_ratio, -1e-300)))


def sample(mean: ArrayLike, sd: ArrayLike, low: ArrayLike, high: ArrayLike, rng: np.random.Generator) -> Array:
    r"""Draw from :math:`N(\mu, \sigma^2)` restricted to :math:`[a, b]`, one draw for each broadcast entry.

    Inversion in logarithms: :math:`\log\Phi(z) = \log[\Phi(\alpha) + u\,(\Phi(\beta) - \Phi(\alpha))]`.
    """
    mean, sd, low, high = np.broadcast_arrays(*(np.asarray(v, dtype=float) for v in (mean, sd, low, high)))
    alpha, beta, mirrored = _mirror((low - mean) / sd, (high - mean) / sd)
    u = rng.random(mean.shape)
    log_cdf = np.logaddexp(log_ndtr(alpha) + np.log1p(-u), log_ndtr(beta) + np.log(np.maximum(u, 1e-300)))
    z = np.clip(ndtri_exp(np.minimum(log_cdf, 0.0)), alpha, beta)
    return np.clip(mean + sd * np.where(mirrored, -z, z), low, high)


def _mirror(low: ArrayLike, high: ArrayLike) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Reflect the intervals whose middle is positive; the last array marks them."""
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    mirrored = low + high > 0
    return np.where(mirrored, -high, low), np.where(mirrored, -low, high), mirrored
