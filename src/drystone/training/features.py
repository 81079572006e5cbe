r"""The map from data y to the features of a flow that is a density of y."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drystone.training.preprocessing import Scaling
from drystone.training.warp import DISTINCT, LogY, Warp

__all__ = ["Features"]

# A column is one of counts if values repeat and all lie on a lattice, to this share of its step: float32 cannot
# hold every multiple of 0.001.
OFF_LATTICE = 1e-3
# Values nearer to one another than this share of the column's width differ by rounding errors.
ROUNDING = 1e-6
# Share of the rows with one and the same value from which a column off any lattice has a point mass.
POINT_MASS = 0.01
# A square root is taken no nearer to 0 than this share of the step.
NEAREST_TO_0 = 1e-6
# Points per cell at which the density of counts is averaged: enough for posteriors, and few for evidences.
POINTS = 4


@dataclass(frozen=True)
class Features:
    r"""The map :math:`z = (l(y + hu) - \mu) / \sigma`, a bijection but for the constant columns, which have no z.

    Counts have step h and are spread evenly over their cell by :math:`u \in (0, 1)` (dequantization); h is 0
    elsewhere. l is a warp of some columns, and :math:`\mathrm{sign}(x) \sqrt{|x|}` of other counts that are not
    negative: the square root of Poisson counts has the same noise at all sizes. y is never clipped: that would be
    no bijection.

    Args:
        constant: Values of the constant columns, NaN for the others; (c,).
        step: Steps h, 0 for continuous columns; (c,).
        origin: A value of each column of counts, 0 for the others; (c,).
        warp: The columnwise map l.
        scaling: Standardizes the columns that vary.

    Example:
        >>> features = Features.fit(np.array([[1.0, 7.0], [3.0, 7.0]]))
        >>> features.apply(np.array([[4.0, 7.0]]))
        (array([[2.]]), array([0.]))
    """

    constant: NDArray[np.float64]
    step: NDArray[np.float64]
    origin: NDArray[np.float64]
    warp: Warp
    scaling: Scaling

    @classmethod
    def fit(cls, y: NDArray[np.floating], *, log: LogY = False, u: NDArray[np.float64] | float = 0.5) -> Features:
        """Fit on training rows y (N, c), with u (N, c) for the counts."""
        y = np.asarray(y, np.float64)
        low, high = y.min(axis=0), y.max(axis=0)
        # Up to rounding errors, as in `Scaling`.
        constant = np.where(high - low <= 1e-12 * np.maximum(np.abs(low), np.abs(high)), y[0], np.nan)
        if not np.isnan(constant).any():
            raise ValueError("every column of `y` is constant: there is nothing for a likelihood to describe.")
        step = np.array([_step(y[:, j], j) if np.isnan(constant[j]) else 0.0 for j in range(y.shape[1])])
        varying = np.isnan(constant)
        origin = np.where(step > 0, low, 0.0)
        x = np.where(varying, y + step * u, 1.0)
        warp = Warp.fit(x, log, root=(step > 0) & (low >= 0))
        return cls(constant, step, origin, warp, Scaling.fit(warp.apply(x)[:, varying]))

    @property
    def varying(self) -> NDArray[np.bool_]:
        """Mask of the columns that have a feature, (c,)."""
        return np.isnan(self.constant)

    @property
    def points(self) -> NDArray[np.float64]:
        r"""Points u in the cells of counts, (n, c): evenly spread, the same for every row; one without counts.

        :math:`u_{ij} = \mathrm{frac}(\tfrac12 + i / g^j)` with :math:`g^{m+1} = g + 1` for m columns of counts
        (Roberts' generalization of the golden ratio).
        """
        counts = np.flatnonzero(self.step)
        u = np.full((POINTS if counts.size else 1, self.step.size), 0.5)
        g = 2.0
        for _ in range(50):
            g = (1 + g) ** (1 / (counts.size + 1))
        u[:, counts] = (0.5 + np.arange(len(u))[:, None] / g ** np.arange(1, counts.size + 1)) % 1.0
        return u

    def apply(
        self, y: NDArray[np.floating], u: NDArray[np.float64] | float = 0.5
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Return z (N, p) and :math:`\log|\det dz/dy| + \sum \log h` (N,): counts have the mass of their cell.

        Args:
            y: Rows, (N, c).
            u: Points in the cells of the counts, (N, c) or (c,).
        """
        if y.ndim != 2 or y.shape[1] != self.step.size:
            raise ValueError(f"`y` must have shape (N, {self.step.size}); got {y.shape}.")
        x = y + self.step * u
        # The root's slope is infinite at 0, where no count of the lattice comes but an observation off it may.
        edge = NEAREST_TO_0 * self.step
        x = np.where(self.warp.root & (np.abs(x) < edge), edge, x)
        # A constant column has no feature and no slope: at 1, no warp has one either.
        v = self.warp.apply(np.where(self.varying, x, 1.0))
        log_slope = self.warp.log_slope(v).sum(axis=1) + np.log(self.step[self.step > 0]).sum()
        return self.scaling.apply(v[:, self.varying]), self.scaling.log_det + log_slope

    def invert(self, z: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return y (N, c) for rows z (N, p): counts are at the lower end of their cell."""
        v = np.zeros((len(z), self.step.size))
        v[:, self.varying] = self.scaling.invert(z)
        y = np.where(self.varying, self.warp.invert(v), self.constant)
        counts = self.step > 0
        origin, step = self.origin[counts], self.step[counts]
        y[:, counts] = origin + step * np.floor((y[:, counts] - origin) / step)
        return y


def _step(column: NDArray[np.float64], j: int) -> float:
    """Return the step of a column of counts, 0 for a continuous one; raise if it is neither."""
    values, rows = np.unique(column, return_counts=True)
    if len(values) > DISTINCT * len(column):
        return 0.0
    width, gaps = values[-1] - values[0], np.diff(values)
    step = gaps[gaps > ROUNDING * width].min()
    step = width / round(width / step)  # one gap alone has a large rounding error
    multiples = (values - values[0]) / step
    if (np.abs(multiples - np.round(multiples)) < OFF_LATTICE).all():
        return float(step)
    share = rows.max() / len(column)
    if share > POINT_MASS:
        raise ValueError(
            f"column {j} of `y` is {values[rows.argmax()]:g} in {share:.1%} of the rows and continuous otherwise, "
            "so that it has no density for a likelihood to learn. Leave the column out, add noise to it, or train "
            "posteriors (target='posterior')."
        )
    return 0.0
