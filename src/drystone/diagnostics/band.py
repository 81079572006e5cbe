r"""Simultaneous bands for the ECDF of N uniform numbers (Säilynoja, Bürkner & Vehtari 2022).

At each z the count N F̂(z) is binomial. The band joins the central intervals of these binomials at one level 1 − γ,
the largest γ for which the whole curve stays inside with the probability ``level``:

.. math::
    P(l_i \le N \hat F(z_i) \le u_i \text{ for all } i) \ge \text{level}, \qquad
    l_i, u_i = \text{Binomial}(N, z_i) \text{ quantiles at } \gamma/2,\; 1 - \gamma/2

The probability is exact, not simulated. Uniform numbers are the points of a Poisson process of rate N given that
there are N of them, so the counts have independent Poisson increments, and one convolution per grid point carries
their distribution along, cut to the band (Moscovich & Nadler 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.signal import convolve
from scipy.stats import binom, poisson

from drystone._arrays import frozen

__all__ = ["Band", "ecdf_band"]

# Points of a default grid: a finer one changes the band by less than the width of a line.
POINTS = 100
# Halvings of γ's bracket: to a millionth of it.
HALVINGS = 20


@dataclass(frozen=True, eq=False)
class Band:
    """Where the whole ECDF of uniform numbers stays with a given probability.

    Attributes:
        grid: points z in (0, 1), (G,).
        lower: lower ends, as values of the ECDF, (G,).
        upper: upper ends, (G,).
        level: the nominal probability.
        probability: the exact one, a little higher, because counts are integers.
        rows: N.

    Example:
        >>> import drystone as ds
        >>> band = ds.diagnostics.ecdf_band(200)
        >>> band.holds(band.grid[:, None]), band.holds(band.grid[:, None] ** 2)
        (array([ True]), array([False]))
    """

    grid: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    level: float
    probability: float
    rows: int

    def holds(self, ecdf: np.ndarray) -> np.ndarray:
        """Return whether curves (..., G, d) stay inside, (..., d); an undefined one does not."""
        slack = 1e-9  # an ECDF summed from row weights may miss k/N by rounding
        inside = (self.lower[:, None] - slack <= ecdf) & (ecdf <= self.upper[:, None] + slack)
        return np.asarray(inside.all(-2))


def ecdf_band(N: int, level: float = 0.95, grid: Sequence[float] | np.ndarray | None = None) -> Band:
    r"""Compute the band of the ECDF of N independent uniform numbers.

    Args:
        N: number of uniform numbers.
        level: probability that the whole curve stays inside.
        grid: increasing points in (0, 1) at which the curve is evaluated; None for a hundred equidistant ones.
            Ranks among S draws take S + 1 values: evaluate them at multiples of 1/(S + 1), as
            :func:`~drystone.diagnostics.rank_ecdf` does, or steps of the discrete uniform count as deviations.

    Example:
        >>> band = ecdf_band(1000)
        >>> print(f"{band.grid[49]:.1f} ± {band.upper[49] - 0.5:.3f}, probability {band.probability:.3f}")
        0.5 ± 0.047, probability 0.950
    """
    if not 0 < level < 1:
        raise ValueError(f"`level` must be in (0, 1); got {level}. Did you mean 0.95 for a 95% band?")
    if N < 1:
        raise ValueError(f"`N` must be at least 1; got {N}.")
    z = np.arange(1, POINTS) / POINTS if grid is None else np.asarray(grid, float)
    if z.ndim != 1 or not len(z) or not (z[0] > 0 and z[-1] < 1 and (np.diff(z) > 0).all()):
        raise ValueError("`grid` must be increasing points in (0, 1).")
    return _band(int(N), level, tuple(z.tolist()))


@lru_cache(maxsize=64)
def _band(N: int, level: float, grid: tuple[float, ...]) -> Band:
    z = np.array(grid)

    def counts(gamma: float) -> tuple[np.ndarray, np.ndarray]:
        return binom.ppf(gamma / 2, N, z).astype(int), binom.isf(gamma / 2, N, z).astype(int)

    # Between Bonferroni's γ, which is surely small enough, and the pointwise one, which is surely not too small.
    low, high = (1 - level) / len(z), 1 - level
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _inside(N, z, *counts(middle)) >= level else (low, middle)
    lower, upper = counts(low)
    # Frozen, because the cache returns the same arrays again.
    return Band(frozen(z), frozen(lower / N), frozen(upper / N), level, _inside(N, z, lower, upper), N)


def _inside(N: int, z: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
    """Return P(lower ≤ N F̂(z) ≤ upper at every z)."""
    state, first, before = np.ones(1), 0, 0.0  # P(count = first, first + 1, …, and inside so far)
    for point, least, most in zip(z, lower, upper, strict=True):
        step = poisson.pmf(np.arange(most - first + 1), N * (point - before))
        state = convolve(state, step)[least - first : most - first + 1]
        first, before = least, point
    rest = poisson.pmf(N - np.arange(first, first + len(state)), N * (1 - before))
    return float(state @ rest / poisson.pmf(N, N))
