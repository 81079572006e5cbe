r"""Columnwise maps of y that draw in heavy tails, chosen as Box and Cox chose their exponent.

A column whose values span orders of magnitude is of little use to a network once it is standardized: a few rows
take up the whole range, and all others are squeezed together. Among y itself, its logarithm, and a map :math:`l`
that is linear in the middle and logarithmic far out on either side (or, of counts, the square root), the one is
taken under which the column is most like a normal one: the mean log density of the best normal of :math:`l(y)`, as
a density of y, is

.. math:: \mathcal L(l) = \frac1N \sum_n \log l'(y_n) - \log \mathrm{sd}(l(y)) + \mathrm{const}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["LogY", "Warp"]

LogY = bool | Sequence[int] | Literal["auto"]
"""Columns of y that are warped: none, all, those listed, or those whose tails are heavy."""

# Nats by which a column must be more like a normal one to be warped about its median and, where it is positive, by
# a logarithm. For less, networks were better off with the column as it is: docs/training.md has what was compared.
GAIN, GAIN_OF_LOG = 1.0, 0.4
# The same for the square root of counts.
GAIN_OF_ROOT = 1.4
# Standard deviation of a normal over its median absolute deviation.
NORMAL = 1.4826
# Width of the linear part of a logarithm in units of the least value, so that it is one to 0.3 %.
LINEAR_PART = 0.1
# A column is continuous if a larger share of its values is distinct; fewer different values are categories.
DISTINCT, FEWEST_COUNTS = 0.9, 10
# Entries of structured data that are looked at.
MOST_ENTRIES = 1_000_000


@dataclass(frozen=True)
class Warp:
    r"""The columnwise map l(y): y, log y, sign(y) √|y|, or :math:`\mathrm{asinh}((y - m) / s)`.

    Args:
        log: Mask of the columns of which the logarithm is taken, (c,); () for structured data, all entries alike.
        root: Mask of the columns of which the square root is taken.
        center: The centers m, 0 for columns without asinh.
        width: The widths s, infinite for columns without asinh.

    Example:
        >>> warp = Warp.fit(np.exp(np.linspace(0.0, 9.0, 100))[:, None], "auto")
        >>> bool(np.isfinite(warp.width[0]))
        True
    """

    log: NDArray[np.bool_]
    root: NDArray[np.bool_]
    center: NDArray[np.float64]
    width: NDArray[np.float64]

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> Warp:
        """Return the map that leaves y as it is."""
        return cls(np.zeros(shape, bool), np.zeros(shape, bool), np.zeros(shape), np.full(shape, np.inf))

    @classmethod
    def fit(cls, y: NDArray[np.floating], log: LogY = False, root: NDArray[np.bool_] | None = None) -> Warp:
        """Return the map for training rows y (N, c), or (N, …) for structured data, which are warped as a whole.

        Args:
            y: Training rows.
            log: Columns to take the logarithm of; ``"auto"`` chooses columns, and asinh or a root for them.
            root: Mask of the columns to take the square root of instead, (c,); None to choose them, too.
        """
        shape = y.shape[1:] if y.ndim == 2 else ()
        warp = cls.none(shape)
        if isinstance(log, str):
            if log != "auto":
                raise ValueError(f"`log_y` must be True, False, 'auto' or a list of columns; got {log!r}.")
            some = y[:: -(-y.size // MOST_ENTRIES)]  # rows at a stride: many entries tell no more
            columns = [np.asarray(column, np.float64) for column in (y.T if shape else [some[np.isfinite(some)]])]
            chosen = zip(*map(_chosen, columns), strict=True)
            warp = cls(warp.log, *(np.reshape(values, shape) for values in chosen))
        else:
            warp.log[() if isinstance(log, bool) else list(log)] = log is not False
        if root is None:
            return warp
        root = root & ~warp.log
        return cls(warp.log, root, np.where(root, 0.0, warp.center), np.where(root, np.inf, warp.width))

    @property
    def asinh(self) -> NDArray[np.bool_]:
        """Mask of the columns that are drawn in on both sides of their center."""
        return np.isfinite(self.width)

    def apply(self, y: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return l(y) for rows y."""
        y = np.asarray(y, np.float64)
        v = y.copy()
        # By masks of the shape of y: those of structured data are scalars, which would add an axis as an index.
        log, root, asinh = (np.broadcast_to(mask, y.shape) for mask in (self.log, self.root, self.asinh))
        if self.log.any():
            if (y[log] <= 0).any():
                rows = int((log & (y <= 0)).reshape(len(y), -1).any(axis=1).sum())
                raise ValueError(f"`log_y` needs positive `y`; {rows} of {len(y)} rows have values ≤ 0.")
            np.log(y, where=log, out=v)
        if self.root.any():
            v[root] = np.copysign(np.sqrt(np.abs(y[root])), y[root])
        if self.asinh.any():
            np.arcsinh((y - self.center) / self.width, where=asinh, out=v)
        return v

    def invert(self, v: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return y for rows v = l(y)."""
        y = np.where(self.root, v * np.abs(v), v)
        np.exp(v, where=np.broadcast_to(self.log, v.shape), out=y)
        sinh = np.sinh(v, where=np.broadcast_to(self.asinh, v.shape), out=np.zeros_like(y))
        return np.where(self.asinh, self.center + _finite(self.width) * sinh, y)

    def log_slope(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return log l'(y) at v = l(y), entry by entry."""
        slope = np.where(self.log, -v, 0.0)
        root = np.broadcast_to(self.root, v.shape)
        slope[root] = -np.log(2 * np.abs(v[root]))
        return np.where(self.asinh, -np.log(_finite(self.width)) - _log_cosh(v), slope)


def _finite(width: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isfinite(width), width, 1.0)


def _log_cosh(v: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.logaddexp(v, -v) - np.log(2)


def _chosen(y: NDArray[np.float64]) -> tuple[bool, float, float]:
    """Return whether the square root of a column is taken, and m and s of asinh: 0 and ∞ for none."""
    values, places, counts = np.unique(y, return_inverse=True, return_counts=True)
    if len(values) > DISTINCT * len(y):
        return False, *_center_and_width(y)
    root = values[0] >= 0 and len(values) >= FEWEST_COUNTS and _gain_of_root(values, places, counts) > GAIN_OF_ROOT
    return bool(root), 0.0, np.inf


def _gain_of_root(values: NDArray[np.float64], places: NDArray[np.intp], counts: NDArray[np.intp]) -> float:
    """Return by how much the root of counts is more like a normal column; equal ones fill the gap to the next."""
    gaps, within = np.append(np.diff(values), 1.0), np.empty(len(places))
    within[np.argsort(places, kind="stable")] = np.concatenate([(np.arange(n) + 0.5) / n for n in counts])
    x = values[places] + gaps[places] * within
    v = np.sqrt(x)
    return np.log(x.std()) - np.log(2 * v).mean() - np.log(v.std())


def _center_and_width(y: NDArray[np.float64]) -> tuple[float, float]:
    """Return m and s of the map under which a column is most like a normal one; 0 and ∞ to leave it as it is."""
    median, least = float(np.median(y)), float(y.min())
    candidates = [(GAIN, median, NORMAL * float(np.median(np.abs(y - median))))]
    if least > 0:
        candidates.append((GAIN_OF_LOG, 0.0, LINEAR_PART * least))
    best, chosen = 0.0, (0.0, np.inf)
    for needed, center, width in candidates:
        v = np.arcsinh((y - center) / width)
        gain = np.log(y.std()) - np.log(width) - _log_cosh(v).mean() - np.log(v.std())
        if gain > max(best, needed):
            best, chosen = gain, (center, width)
    return chosen
