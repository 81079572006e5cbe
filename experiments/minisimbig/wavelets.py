"""Statistics of wavelet moduli of the observed field, in the place of a scattering transform."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from experiments.minisimbig.grid import Complex, Grid, Real

__all__ = ["Wavelets"]

Array = NDArray[np.float64]

FIRST, WIDTH = 2.8, 0.2  # smallest wave number in units of k_f; width of a wavelet in its logarithm
WEDGES = 4  # of |μ|


class Wavelets:
    r"""Moments and spectra of :math:`U = |F * \psi|`, in logarithms.

    The filters have scales a third of an octave apart and two orientations, across and along the line of
    sight:

    .. math::
        \psi(k) = e^{-\frac12(\ln(k/k_j)/0.2)^2} \times (1 - \mu^2 \text{ or } \mu^2), \qquad
        k_j = 2.8 \cdot 2^{j/3}\,k_f

    Of each: :math:`\langle U^{1/2}\rangle, \langle U\rangle, \langle U^2\rangle`, and the power of U over
    :math:`\langle U\rangle^2` in bands of width :math:`2k_f` and four wedges of :math:`|\mu|`.
    """

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        radius, mu = grid.radius, grid.mu
        self.filters = []
        for j in range(round(3 * np.log2(grid.n)) - 7):
            scale = FIRST * 2 ** (j / 3)
            radial = np.exp(-0.5 * (np.log(np.maximum(radius, 1e-3) / scale) / WIDTH) ** 2) * (radius > 0)
            self.filters += [(radial * angular).astype(np.float32) for angular in (1 - mu**2, mu**2)]
        bands = grid.n // 4
        band = np.floor((radius - 0.5) / 2).astype(np.int64)
        wedge = np.minimum((WEDGES * mu).astype(np.int64), WEDGES - 1)
        # Bin 0 collects the modes that belong to none.
        self.bin = np.where((radius > 0.5) & (band < bands), 1 + WEDGES * band + wedge, 0).ravel()
        self.bins = WEDGES * bands
        self.modes_in_bin = self._sums(np.ones(radius.shape))

    def __call__(self, modes: Complex) -> Array:
        """Measure all statistics, filter by filter, shape (filters · (3 + bins),)."""
        return np.concatenate([self._of_filter(modes * psi) for psi in self.filters])

    def _of_filter(self, modes: Complex) -> Array:
        u = np.abs(self.grid.backward(modes))
        mean = u.mean(dtype=np.float64)
        moments = [np.sqrt(u).mean(dtype=np.float64), mean, np.square(u).mean(dtype=np.float64)]
        transform = self.grid.forward(u)
        power = self._sums(transform.real**2 + transform.imag**2) / self.modes_in_bin
        return np.log(np.concatenate([moments, power / (u.size * mean**2)]))

    def _sums(self, power: Real) -> Array:
        weight = (power * self.grid.multiplicity).ravel()
        return np.bincount(self.bin, weight, 1 + self.bins)[1:].astype(float)
