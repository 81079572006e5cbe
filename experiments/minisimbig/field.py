"""The matter: a Gaussian density field, displaced by second-order Lagrangian perturbation theory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.minisimbig.cosmology import Cosmology
from experiments.minisimbig.grid import Complex, Grid, Real

__all__ = ["Lagrangian", "Matter"]

BIAS_SCALE = 5.0  # Mpc/h, Gaussian smoothing of the density that haloes follow
ENVIRONMENT_SCALE = 20.0  # and of the one that assembly bias follows


@dataclass(frozen=True, eq=False)
class Matter:
    """The field at each Lagrangian cell, flattened to (n³,).

    Attributes:
        displacement: Displacement ψ from the Lagrangian to the present position, shape (3, n³), in Mpc/h.
        velocity: Line-of-sight velocity in units of aH: the shift to redshift space, in Mpc/h.
        density: Linear density smoothed on the scale of haloes.
        environment: Linear density smoothed on the scale of their environment.
    """

    displacement: Real
    velocity: Real
    density: Real
    environment: Real


class Lagrangian:
    r"""Draws the matter field of a box.

    White noise :math:`\epsilon` becomes the linear density and the second-order source,

    .. math::
        \delta(k) = \sqrt{P(k)/V_\mathrm{cell}}\;\epsilon(k), \qquad
        S = \sum_{i<j} \phi_{ii}\phi_{jj} - \phi_{ij}^2, \quad \phi_{ij}(k) = \frac{k_i k_j}{k^2}\,\delta(k),

    and these the displacement and the line-of-sight velocity

    .. math::
        \psi(k) = \frac{ik}{k^2}\,[\delta + \tfrac37 S](k), \qquad
        u_z(k) = \frac{ik_z}{k^2}\,[f_1\delta + f_2\,\tfrac37 S](k).
    """

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        squared = np.maximum(grid.squared, 1)
        # An odd derivative of a real field vanishes at the Nyquist frequency.
        odd = (np.where(np.abs(axis) == grid.n // 2, 0, axis) for axis in grid.axes)
        self.inverse_gradient = [(1j * a / squared / grid.k_fundamental).astype(np.complex64) for a in odd]
        x, y, z = grid.axes
        pairs = ((x, x), (y, y), (z, z), (x, y), (x, z), (y, z))
        self.tidal = [(a * b / squared).astype(np.float32) for a, b in pairs]
        k2 = grid.squared * np.float32(grid.k_fundamental**2)
        self.smooth, self.smooth_more = (np.exp(-0.5 * k2 * r**2) for r in (BIAS_SCALE, ENVIRONMENT_SCALE))

    def draw(self, cosmology: Cosmology, z: float, rng: np.random.Generator) -> Matter:
        """Draw the field of a cosmology at redshift z."""
        delta = self.grid.forward(rng.standard_normal((self.grid.n,) * 3, dtype=np.float32))
        delta *= self._amplitude(*cosmology.linear_power(z))[self.grid.squared]
        source = self._source(delta)
        f1, f2 = cosmology.growth_rates(z)
        total = delta + source
        return Matter(
            displacement=np.stack([self._field(g * total) for g in self.inverse_gradient]),
            velocity=self._field(self.inverse_gradient[2] * (np.float32(f1) * delta + np.float32(f2) * source)),
            density=self._field(delta * self.smooth),
            environment=self._field(delta * self.smooth_more),
        )

    def _field(self, modes: Complex) -> Real:
        return self.grid.backward(modes).ravel()

    def _amplitude(self, k: NDArray[np.float64], power: NDArray[np.float64]) -> Real:
        """Return the square root of the spectrum for each value of the integer |n|², zero for the mean."""
        squared = np.arange(1, 3 * (self.grid.n // 2) ** 2 + 1)
        log_k = np.log(np.sqrt(squared) * self.grid.k_fundamental)
        spectrum = np.exp(np.interp(log_k, np.log(k), np.log(power)))
        return np.concatenate([[0.0], np.sqrt(spectrum / self.grid.cell**3)]).astype(np.float32)

    def _source(self, delta: Complex) -> Complex:
        """Return the modes of (3/7) S."""
        xx, yy, zz, xy, xz, yz = (self.grid.backward(t * delta) for t in self.tidal)
        source = xx * yy + xx * zz + yy * zz - xy**2 - xz**2 - yz**2
        return self.grid.forward(source) * np.float32(3 / 7)
