"""Bispectrum of the observed field, over all triangles of shells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from experiments.minisimbig.grid import Complex, Grid, Real
from experiments.minisimbig.power_spectrum import legendre_2

__all__ = ["Bispectrum"]

Array = NDArray[np.float64]

# Cells whose products are formed together: few enough to stay in the cache, else memory bounds this step.
CHUNK = 8192


class Bispectrum:
    r"""Monopole and quadrupole on the longest side, reduced by the power spectrum.

    With :math:`D_i(x)` the field restricted to the modes of shell i,

    .. math::
        B_{ijk} = \frac{V_\mathrm{cell}^2}{\sum W^3}\,\frac{\sum_x D_i D_j D_k}{N_{ijk}}, \qquad
        Q_{ijk} = \frac{B_{ijk}}{P_iP_j + P_jP_k + P_kP_i}, \qquad i \ge j \ge k,\; i \le j + k

    :math:`N_{ijk}`, the number of triangles, is the same sum for unit modes. The quadrupole has
    :math:`L_2(\mu)\,D` in place of :math:`D_i`, without a factor 5.

    Args:
        grid: The box.
        selection: The survey's W, shape (n, n, n).
    """

    def __init__(self, grid: Grid, selection: Real) -> None:
        self.grid = grid
        self.shells = grid.n // 3
        radius = grid.radius.ravel()
        self.members = [
            np.flatnonzero((radius >= i - 0.5) & (radius < i + 0.5)) for i in range(1, self.shells + 1)
        ]
        self.legendre = legendre_2(grid.mu).ravel()
        # Indices from 0, so that shell 1 is 0 and i <= j + k reads i <= j + k + 1; in the order j, k, i.
        self.triangles = np.array(
            [
                (i, j, k)
                for j in range(self.shells)
                for k in range(j + 1)
                for i in range(j, min(self.shells, j + k + 2))
            ]
        ).T
        counts = self._sums(np.ones(grid.squared.shape, np.complex64))[0]
        self.normalisation = grid.cell**6 / float((selection.astype(float) ** 3).sum()) / counts

    def __call__(self, modes: Complex, power: Array) -> Array:
        """Measure both multipoles of Q, shape (2, triangles), given the power of each shell."""
        p_i, p_j, p_k = power[self.triangles]
        return self._sums(modes) * self.normalisation / (p_i * p_j + p_j * p_k + p_k * p_i)

    def _sums(self, modes: Complex) -> Array:
        """Sum D_i D_j D_k and (L₂D)_i D_j D_k over the cells, for every triangle; shape (2, triangles)."""
        plain, tilted = self._shell_fields(modes.ravel())
        sums = np.zeros((2, self.shells, self.shells, self.shells))  # multipole, j, k, i
        for start in range(0, plain.shape[1], CHUNK):
            d = np.ascontiguousarray(plain[:, start : start + CHUNK])
            t = np.ascontiguousarray(tilted[:, start : start + CHUNK])
            for j in range(self.shells):
                products = d[: j + 1] * d[j]
                longest = slice(j, min(self.shells, 2 * j + 2))
                sums[0, j, : j + 1, longest] += products @ d[longest].T
                sums[1, j, : j + 1, longest] += products @ t[longest].T
        i, j, k = self.triangles
        return sums[:, j, k, i]

    def _shell_fields(self, modes: Complex) -> Real:
        """Return fields of the modes of each shell, plain and times L₂(μ); shape (2, shells, n³)."""
        fields = np.empty((2, self.shells, self.grid.n**3), np.float32)
        only = np.zeros(modes.size, np.complex64)
        for shell, member in enumerate(self.members):
            for multipole, weight in enumerate((1, self.legendre[member])):
                only[member] = modes[member] * weight
                fields[multipole, shell] = self.grid.backward(only.reshape(self.grid.squared.shape)).ravel()
            only[member] = 0
        return fields
