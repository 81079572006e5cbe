"""The survey: what the observer sees of the galaxies, as a field on the grid."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from experiments.minisimbig.cosmology import Cosmology
from experiments.minisimbig.grid import Grid, Real

__all__ = ["Survey"]

Array = NDArray[np.float64]
ASSUMED_OMEGA_M = 0.3  # the observer turns redshifts into distances with it
FULL_BOX = 640.0  # lengths of the mask are given for this box and scale with it
HOLES, HOLE_RADIUS, HOLE_SEED = 24, 16.0, 20


class Survey:
    r"""A fixed selection W in [0, 1]: a footprint with veto holes times a radial profile.

    The footprint is a super-ellipse :math:`(x/295)^4 + (y/270)^4 < 1` without one corner and without 24 discs
    of radius 16; the profile is :math:`\min(1, 1.1\,e^{-\frac12((z+30)/180)^2})` for :math:`|z| < 265`.
    Lengths are in Mpc/h from the centre of the box.
    """

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        scale = grid.box / FULL_BOX
        centre = ((np.arange(grid.n) + 0.5) * grid.cell - grid.box / 2) / scale
        x, y = centre[:, None], centre[None, :]
        footprint = (x / 295) ** 4 + (y / 270) ** 4 < 1
        footprint &= ~((x > 120) & (y > 140))
        for hole in np.random.default_rng(HOLE_SEED).uniform(-280, 280, (HOLES, 2)):
            footprint &= np.hypot(x - hole[0], y - hole[1]) > HOLE_RADIUS
        profile = np.minimum(1, 1.1 * np.exp(-0.5 * ((centre + 30) / 180) ** 2)) * (np.abs(centre) < 265)
        self.selection = (footprint[:, :, None] * profile).astype(np.float32)

    def observe(
        self, position: Array, cosmology: Cosmology, z: float, rng: np.random.Generator
    ) -> tuple[Real, int]:
        r"""Select galaxies and form the field :math:`F = n_g/\alpha - W`, with :math:`\alpha = N_g/\sum W`.

        Args:
            position: Galaxies in the box, shape (3, G).
            cosmology: The true cosmology.
            z: Redshift.
            rng: Random numbers.

        Returns:
            The field (n, n, n), and the number :math:`N_g` of galaxies seen.
        """
        cells = self._distorted(position, cosmology, z) / self.grid.cell
        cells = cells[:, ((cells >= 0) & (cells < self.grid.n)).all(0)]
        x, y, zed = cells.astype(np.int64)
        seen = cells[:, rng.random(x.size, dtype=np.float32) < self.selection[x, y, zed]]
        count = seen.shape[1]
        alpha = max(count, 1) / self.selection.sum()
        return self._painted(seen) / np.float32(alpha) - self.selection, count

    def _distorted(self, position: Array, cosmology: Cosmology, z: float) -> Array:
        r"""Stretch about the centre by the Alcock–Paczynski factors.

        Transverse lengths by :math:`D_C^\mathrm{assumed}/D_C`, radial ones by :math:`E/E^\mathrm{assumed}`.
        """
        assumed = cosmology._replace(omega_m=ASSUMED_OMEGA_M)
        transverse = assumed.distance(z) / cosmology.distance(z)
        radial = cosmology.expansion(z) / assumed.expansion(z)
        centre = self.grid.box / 2
        return (position - centre) * np.array([[transverse], [transverse], [radial]]) + centre

    def _painted(self, cells: Array) -> Real:
        """Share each galaxy among the eight nearest cells by cloud-in-cell weights; shape (n, n, n)."""
        n = self.grid.n
        low = np.floor(cells - 0.5).astype(np.int64)
        share = (cells - 0.5 - low).astype(np.float32)
        # Index and weight of the lower and the upper neighbour along each axis.
        (x0, y0, z0), (x1, y1, z1) = low % n, (low + 1) % n
        (u0, v0, w0), (u1, v1, w1) = 1 - share, share
        index, weight = [], []
        for x, u in ((x0, u0), (x1, u1)):
            for y, v in ((y0, v0), (y1, v1)):
                index += [(x * n + y) * n + z0, (x * n + y) * n + z1]
                weight += [u * v * w0, u * v * w1]
        counts = np.bincount(np.concatenate(index), np.concatenate(weight), n**3)
        return counts.astype(np.float32).reshape(n, n, n)
