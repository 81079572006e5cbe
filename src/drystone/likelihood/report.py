r"""How well a likelihood member is normalized at each y."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drystone._defaults import ERROR
from drystone.estimate import UNRELIABLE_PARETO

__all__ = ["NormalizationReport", "pareto_shape", "width_in_words"]

# Above this share of rows whose log density may err low by more than the default error, the proposal is to blame.
OFTEN = 0.1
# Weights have a tail if the largest is so many times the mean.
FAR = 5.0


@dataclass(frozen=True, eq=False)
class NormalizationReport:
    """What stands behind the normalization at each row of y.

    Attributes:
        effective: effective number of points 1 / Σ w², (N,).
        shape: Pareto shape k̂ of the largest weights, (N,); above 0.7 the normalization is not to be relied on.
        points: number of points, (N,).
        width: naive − conservative log density of the true parameters, (N,): between the two lies the exact one,
            on average. None if the parameters were not given.
    """

    effective: np.ndarray
    shape: np.ndarray
    points: np.ndarray
    width: np.ndarray | None = None

    def __str__(self) -> str:
        worst = int(np.argmin(self.effective))
        words = (
            f"{len(self.points)} rows: effective number of points {np.median(self.effective):.0f} (median), "
            f"{self.effective[worst]:.1f} at the worst row ({worst}); Pareto shape above {UNRELIABLE_PARETO} at "
            f"{int((self.shape > UNRELIABLE_PARETO).sum())} rows."
        )
        return words if self.width is None else f"{words} {width_in_words(self.width)}"

    __repr__ = __str__


def width_in_words(width: np.ndarray) -> str:
    """Return by how much log densities (...) err low for want of points, and in how many rows that is much."""
    wide = width > ERROR
    words = (
        f"The log density errs low by at most {np.mean(width):.2g} nats on average, by more than {ERROR} in "
        f"{wide.mean():.1%} of the rows."
    )
    if wide.mean() > OFTEN:
        words += " The points miss what is true there: give ds.normalize a better `proposal`, or more `draws`."
    return words


def pareto_shape(log_w: np.ndarray) -> float:
    r"""Return k̂ of a generalized Pareto distribution fitted to the largest weights (Vehtari et al. 2024).

    The largest min(M/5, 3√M) weights, in excess of the next one; the fit is Zhang & Stephens' (2009) average over
    the profile likelihood. NaN for fewer than five exceedances, or if every weight is 0. At most 0, as of bounded
    weights, if none is far above the mean: of nearly equal weights the fit would say anything.
    """
    tail = int(min(len(log_w) / 5, 3 * np.sqrt(len(log_w))))
    if tail < 5 or log_w.max() == -np.inf:
        return float("nan")
    w = np.sort(np.exp(log_w - log_w.max()))
    excess = w[-tail:] - w[-tail - 1]
    excess = excess[excess > 0]
    if len(excess) < 5:
        return float("nan")
    n = len(excess)
    grid = 30 + int(np.sqrt(n))
    quarter = excess[int(n / 4 + 0.5) - 1]
    b = (1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3 * quarter) + 1 / excess[-1]
    shapes = np.log1p(-b[:, None] * excess).mean(1)
    profile = n * (np.log(-b / shapes) - shapes - 1)
    weights = np.exp(profile - profile.max())
    b_mean = float(b @ weights / weights.sum())
    shape = float(np.log1p(-b_mean * excess).mean())
    # A weak prior centered at ½ keeps small tails from extreme values.
    shape = (n * shape + 5) / (n + 10)
    return min(shape, 0.0) if w[-1] < FAR * w.mean() else shape
