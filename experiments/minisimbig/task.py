"""The task: fourteen parameters in, thousands of clustering summaries out."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from drystone.simulation.prior import Uniform
from drystone.tasks.task import Task
from experiments.minisimbig.bispectrum import Bispectrum
from experiments.minisimbig.cosmology import Cosmology
from experiments.minisimbig.field import Lagrangian
from experiments.minisimbig.galaxies import Occupation, draw_galaxies
from experiments.minisimbig.grid import Grid
from experiments.minisimbig.power_spectrum import PowerSpectrum
from experiments.minisimbig.survey import Survey
from experiments.minisimbig.wavelets import Wavelets

__all__ = ["FIDUCIAL", "PRIOR", "MiniSimBIG"]

Array = NDArray[np.float64]

REDSHIFT = 0.5
# Name: lower, upper, fiducial value. The first five are the fields of Cosmology, the others of Occupation.
PRIOR = {
    "Omega_m": (0.1, 0.5, 0.3),
    "Omega_b": (0.03, 0.07, 0.05),
    "h": (0.5, 0.9, 0.7),
    "n_s": (0.8, 1.2, 0.96),
    "sigma_8": (0.6, 1.0, 0.8),
    "logMmin": (12.7, 13.6, 13.1),
    "sigma_logM": (0.1, 0.6, 0.35),
    "logM0": (13.0, 14.2, 13.5),
    "logM1": (13.4, 14.6, 14.0),
    "alpha": (0.5, 1.3, 0.9),
    "A_bias": (-0.5, 0.5, 0.0),
    "eta_conc": (0.2, 2.0, 1.0),
    "eta_cen": (0.0, 0.7, 0.2),
    "eta_sat": (0.2, 2.0, 1.0),
}
LOWER, UPPER, FIDUCIAL = np.array(list(PRIOR.values())).T


class MiniSimBIG(Task):
    """A galaxy survey with the shape of SimBIG (Hahn et al. 2023), small enough for a laptop.

    Linear power spectrum, Gaussian field, second-order displacements, haloes, halo occupation, redshift
    space, Alcock–Paczynski distortion, survey mask; then 3,677 summaries: number of galaxies, power spectrum
    multipoles, bispectrum, wavelet statistics. It stands in for the statistical shape of SimBIG's task (14
    parameters, thousands of noisy and partly useless summaries), not for its cosmological constraints.

    The likelihood is intractable. Standardised summaries are heavy-tailed: clip them at ±6.

    Args:
        n: Cells per side, even; 64 gives 3,677 summaries in about 0.3 s, 32 gives 903 in a tenth of that.
        box: Side of the box in Mpc/h; 10 Mpc/h per cell by default.
    """

    name = "minisimbig"
    parameters = tuple(PRIOR)
    prior = Uniform(LOWER, UPPER)
    rows_per_block = 16

    def __init__(self, n: int = 64, box: float | None = None) -> None:
        if n < 16 or n % 2:
            raise ValueError(f"`n` must be even and at least 16; got {n}.")
        self.n, self.box = n, 10.0 * n if box is None else float(box)
        shells = n // 3
        triangles = sum(min(shells, j + k + 2) - j for j in range(shells) for k in range(j + 1))
        wavelets = 2 * (round(3 * np.log2(n)) - 7) * (3 + 4 * (n // 4))
        self.y_dim = 1 + 3 * (n // 2 - 2) + 2 * triangles + wavelets

    def simulate(self, theta: Array, rng: np.random.Generator) -> NDArray[np.float32]:
        """Simulate row by row, each with a stream of its own: no row depends on its neighbours."""
        model = _model(self.n, self.box)
        streams = rng.spawn(len(theta))
        rows = [model(row, stream) for row, stream in zip(theta, streams, strict=True)]
        return np.array(rows, dtype=np.float32).reshape(len(theta), self.y_dim)


class _Model:
    """The parts that all simulations of one box share."""

    def __init__(self, n: int, box: float) -> None:
        self.grid = Grid(n, box)
        self.lagrangian = Lagrangian(self.grid)
        self.survey = Survey(self.grid)
        self.power_spectrum = PowerSpectrum(self.grid, self.survey.selection)
        self.bispectrum = Bispectrum(self.grid, self.survey.selection)
        self.wavelets = Wavelets(self.grid)

    def __call__(self, theta: Array, rng: np.random.Generator) -> NDArray[np.float32]:
        cosmology, occupation = Cosmology(*theta[:5]), Occupation(*theta[5:])
        galaxies = draw_galaxies(self.lagrangian, cosmology, occupation, REDSHIFT, rng)
        field, count = self.survey.observe(galaxies, cosmology, REDSHIFT, rng)
        return self.summaries(field, count)

    def summaries(self, field: NDArray[np.float32], count: int) -> NDArray[np.float32]:
        """Return log N, log P₀, P₂/P₀, P₄/P₀, both multipoles of Q, and the wavelet statistics."""
        modes = self.grid.forward(field)
        p0, p2, p4 = self.power_spectrum(modes)
        q0, q2 = self.bispectrum(modes, p0)
        log_count = np.log([max(count, 1)])
        parts = (log_count, np.log(p0), p2 / p0, p4 / p0, q0, q2, self.wavelets(modes))
        return np.concatenate(parts).astype(np.float32)


# Not kept on the task, which then stays small when it is sent to a worker; each process builds its own, once.
@functools.lru_cache(maxsize=2)
def _model(n: int, box: float) -> _Model:
    return _Model(n, box)
