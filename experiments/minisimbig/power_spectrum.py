"""Power spectrum multipoles of the observed field."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from experiments.minisimbig.grid import Complex, Grid, Real

__all__ = ["PowerSpectrum", "legendre_2"]

Array = NDArray[np.float64]


def legendre_2(mu: Real) -> Real:
    r"""Evaluate the Legendre polynomial :math:`L_2(\mu) = (3\mu^2 - 1)/2`."""
    return 1.5 * mu**2 - 0.5


class PowerSpectrum:
    r"""Monopole, quadrupole and hexadecapole in shells :math:`|n| \in [i - \frac12, i + \frac12)`.

    The shot noise is kept.

    .. math::
        P_\ell(i) = (2\ell + 1)\,\frac{V_\mathrm{cell}}{\sum W^2}\,
            \langle |F_k|^2\,L_\ell(\mu)\rangle_{k \in i}

    Args:
        grid: The box.
        selection: The survey's W, shape (n, n, n).
    """

    def __init__(self, grid: Grid, selection: Real) -> None:
        self.shells = grid.n // 2 - 2
        shell = np.floor(grid.radius + 0.5).astype(np.int64).ravel()
        self.shell = np.where(shell > self.shells, 0, shell)
        mu, modes = grid.mu, grid.multiplicity
        l4 = (35 * mu**4 - 30 * mu**2 + 3) / 8
        self.weights = [w.ravel() for w in (modes, 5 * modes * legendre_2(mu), 9 * modes * l4)]
        self.normalisation = grid.cell**3 / float((selection**2).sum()) / self._sums(modes.ravel())

    def __call__(self, modes: Complex) -> Array:
        """Measure the three multipoles, shape (3, shells)."""
        power = (np.abs(modes) ** 2).ravel()
        return np.array([self._sums(w * power) for w in self.weights]) * self.normalisation

    def _sums(self, values: Real) -> Array:
        return np.bincount(self.shell, values, self.shells + 1)[1:].astype(float)
