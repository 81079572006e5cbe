"""The periodic box and its Fourier modes."""

from __future__ import annotations

import numpy as np
import scipy.fft
from numpy.typing import NDArray

__all__ = ["Complex", "Grid", "Real"]

# Single precision; spelled loosely, because to a type checker products of such arrays may be wider.
Real = NDArray[np.floating]
Complex = NDArray[np.complexfloating]


class Grid:
    r"""A cube of n³ cells with the modes of its real Fourier transform, in single precision.

    Modes are numbered by integers :math:`(n_x, n_y, n_z)` with :math:`k = k_f\,n`, :math:`k_f = 2\pi/L`. Only
    :math:`n_z \ge 0` is stored; the line of sight is the third axis.

    Args:
        n: Cells a side, even.
        box: Side L of the cube, in Mpc/h.

    Attributes:
        cell: Side of a cell.
        k_fundamental: The wave number :math:`k_f`.
        axes: The three integer coordinates, broadcastable to the shape (n, n, n/2 + 1).
        squared: :math:`n_x^2 + n_y^2 + n_z^2` as integers.
        radius: Its square root.
        mu: Cosine :math:`\mu = n_z/|n|` of the angle to the line of sight; 0 for the zero mode.
        multiplicity: How many modes of the full transform each stored one stands for, 1 or 2.
    """

    def __init__(self, n: int, box: float) -> None:
        self.n, self.box = n, box
        self.cell, self.k_fundamental = box / n, 2 * np.pi / box
        index = np.fft.fftfreq(n, 1 / n).astype(np.float32)
        half = np.abs(index[: n // 2 + 1])
        self.axes = (index[:, None, None], index[None, :, None], half[None, None, :])
        x, y, z = self.axes
        squared = x**2 + y**2 + z**2
        self.squared = squared.astype(np.int32)
        self.radius = np.sqrt(squared)
        self.mu = (z / np.maximum(self.radius, 1)).astype(np.float32)
        self.multiplicity = np.where((z == 0) | (z == n // 2), 1.0, 2.0) * np.ones_like(squared)

    def forward(self, field: Real) -> Complex:
        """Transform a field (n, n, n) into modes (n, n, n/2 + 1)."""
        return scipy.fft.rfftn(field, workers=1)  # pyright: ignore[reportReturnType]

    def backward(self, modes: Complex) -> Real:
        """Transform modes (n, n, n/2 + 1) into a field (n, n, n)."""
        return scipy.fft.irfftn(modes, s=(self.n,) * 3, workers=1)  # pyright: ignore[reportReturnType]
