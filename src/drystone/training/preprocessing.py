r"""Transforms of θ and y to a scale that suits networks, fitted on the training rows and applied to any."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from drystone.training.warp import LogY, Warp

__all__ = ["DataTransform", "Scaling"]

# Rows of y transformed at a time.
CHUNK = 8192


@dataclass(frozen=True)
class Scaling:
    r"""The columnwise map :math:`z = (x - \mu) / \sigma`, with :math:`\sigma = 1` for a constant column.

    Example:
        >>> scaling = Scaling.fit(np.array([[1.0, 7.0], [3.0, 7.0]]))
        >>> scaling.apply(np.array([[4.0, 8.0]]))
        array([[2., 1.]])
    """

    shift: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def fit(cls, x: NDArray[np.floating]) -> Scaling:
        """Return the scaling that gives the rows of x mean 0 and standard deviation 1."""
        shift, scale = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
        # A constant column of large numbers has a standard deviation of rounding errors, not of zero.
        constant = scale <= 1e-12 * np.maximum(np.abs(shift), np.finfo(np.float64).tiny)
        return cls(shift, np.where(constant, 1.0, scale))

    def apply(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return z for rows x."""
        return (x - self.shift) / self.scale

    def invert(self, z: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return x for rows z."""
        return z * self.scale + self.shift

    @property
    def log_det(self) -> float:
        r"""The log Jacobian :math:`\sum_i \log |dz_i / dx_i|`, the same for every row."""
        return -float(np.log(self.scale).sum())


@dataclass(frozen=True)
class DataTransform:
    r"""A transform of y for networks: a warp of some columns, standardization, clipping and PCA.

    .. math:: v = \mathrm{clip}\left(\frac{l(y) - \mu}{\sigma}, \pm b\right), \qquad c = (v - \bar v) P

    The columns of P are the leading principal axes divided by the standard deviation along them. Heavy-tailed
    simulators yield single rows hundreds of standard deviations from the mean; clipping limits their influence.

    Args:
        warp: The columnwise map l.
        scaling: Standardizes the columns; if y has more dimensions, all its entries alike.
        clip: The bound b.
        mean: :math:`\bar v`, or ``None`` without PCA.
        axes: P, (c, components), or ``None`` without PCA.
    """

    warp: Warp
    scaling: Scaling
    clip: float
    mean: NDArray[np.float64] | None = None
    axes: NDArray[np.float64] | None = None

    @classmethod
    def fit(
        cls,
        y: NDArray[np.floating],
        *,
        log: LogY = False,
        clip: float = 6.0,
        components: int | None = None,
    ) -> DataTransform:
        """Fit on training rows y (N, c), or (N, …) for structured data, which are scaled as a whole."""
        if clip <= 0:
            raise ValueError(f"`clip_y` must be positive; got {clip}. Use None not to clip.")
        structured = y.ndim > 2
        if structured and (components is not None or not isinstance(log, bool | str)):
            raise ValueError(f"PCA and logs of single columns need `y` of shape (N, c); got {y.shape}.")
        warp = Warp.fit(y, log)
        v = warp.apply(y)
        scaling = Scaling.fit(v.reshape(-1, 1) if structured else v)
        if structured:
            scaling = Scaling(scaling.shift[0], scaling.scale[0])
        fitted = cls(warp, scaling, float(clip))
        if components is None:
            return fitted
        v = fitted(y).astype(np.float64)
        if not 1 <= components <= min(v.shape):
            raise ValueError(f"`components` must be between 1 and {min(v.shape)}; got {components}.")
        mean = v.mean(axis=0)
        c = v.shape[1]
        variances, axes = eigh((v - mean).T @ (v - mean) / len(v), subset_by_index=[c - components, c - 1])
        deviations, axes = np.sqrt(np.maximum(variances[::-1], 0.0)), axes.T[::-1]
        rank = int((deviations > 1e-6 * deviations[0]).sum())
        if rank < components:
            raise ValueError(f"`components` is {components} but `y` has only rank {rank}; use {rank}.")
        # The sign of an axis is arbitrary; a positive largest entry makes the result reproducible.
        signs = np.sign(axes[np.arange(components), np.abs(axes).argmax(axis=1)])
        return cls(warp, scaling, float(clip), mean, (axes * signs[:, None] / deviations[:, None]).T)

    def __call__(self, y: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return the network's input for rows y, float32."""
        columns = self.warp.log
        if columns.ndim == 1 and (y.ndim != 2 or y.shape[1] != columns.size):
            raise ValueError(f"`y` must have shape (N, {columns.size}); got {y.shape}.")
        # By chunks of rows, because the arithmetic is in double precision and y may be most of the memory.
        chunks = [self._rows(y[start : start + CHUNK]) for start in range(0, len(y), CHUNK)]
        return np.concatenate(chunks) if chunks else self._rows(y)

    def _rows(self, y: NDArray[np.floating]) -> NDArray[np.float32]:
        v = np.clip(self.scaling.apply(self.warp.apply(y)), -self.clip, self.clip)
        if self.mean is not None and self.axes is not None:
            v = (v - self.mean) @ self.axes
        return v.astype(np.float32)
