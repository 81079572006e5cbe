"""Galaxies: how haloes are occupied, and where their galaxies are seen in redshift space."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from experiments.minisimbig.cosmology import CRITICAL_DENSITY, Cosmology
from experiments.minisimbig.field import Lagrangian, Matter
from experiments.minisimbig.grid import Grid
from experiments.minisimbig.haloes import EDGES, Haloes, draw_haloes, mass_function

__all__ = ["Occupation", "draw_galaxies"]

Array = NDArray[np.float64]

GRAVITY = 4.30091e-9  # G in Mpc (km/s)² / Msun
OVERDENSITY = 200.0  # of a halo inside its radius, in units of the mean density
EMPTY = 1e-3  # bins of mass where fewer haloes than this have a central galaxy are not drawn


class Occupation(NamedTuple):
    """The nine parameters of the halo occupation; masses are log10 of Msun/h."""

    log_m_min: float
    sigma_log_m: float
    log_m_0: float
    log_m_1: float
    alpha: float
    assembly_bias: float
    concentration: float
    central_velocity: float
    satellite_velocity: float

    def centrals(self, log_mass: Array) -> Array:
        r"""Evaluate :math:`N_c = \frac12[1 + \mathrm{erf}((\log M - \log M_\min)/\sigma_{\log M})]`."""
        return 0.5 * (1 + erf((log_mass - self.log_m_min) / self.sigma_log_m))

    def satellites(self, log_mass: Array) -> Array:
        r"""Evaluate :math:`N_s = N_c\,[(M - M_0)/M_1]^\alpha`, zero below :math:`M_0`."""
        # Most haloes lie below M₀, and powers are dear.
        above = log_mass > self.log_m_0
        excess = (10 ** log_mass[above] - 10**self.log_m_0) / 10**self.log_m_1
        satellites = np.zeros(log_mass.size)
        satellites[above] = self.centrals(log_mass[above]) * excess**self.alpha
        return satellites


def draw_galaxies(
    lagrangian: Lagrangian, cosmology: Cosmology, occupation: Occupation, z: float, rng: np.random.Generator
) -> Array:
    """Draw a catalogue of galaxies in redshift space; positions (3, G) in [0, L), line of sight last."""
    matter = lagrangian.draw(cosmology, z, rng)
    number, bias = mass_function(cosmology, z)
    wanted = occupation.centrals(EDGES[1:]) > EMPTY
    haloes = draw_haloes(lagrangian.grid, matter.density, number, bias, wanted, rng)
    host, centrals = _occupy(haloes, matter, occupation, rng)
    return _positions(lagrangian.grid, matter, haloes, host, centrals, cosmology, occupation, z, rng)


def _occupy(
    haloes: Haloes, matter: Matter, occupation: Occupation, rng: np.random.Generator
) -> tuple[NDArray[np.int64], int]:
    r"""Draw the host halo of every galaxy, centrals first, and the number of centrals.

    Assembly bias moves galaxies between haloes of one mass according to the sign :math:`e = \pm1` of their
    environment's density about its median, and conserves the mean occupation:

    .. math::
        P_c = N_c + A\,e\,\min(N_c, 1 - N_c), \qquad N_s \to N_s\,(1 + A\,e).
    """
    environment = matter.environment[haloes.cell]
    e = np.sign(environment - np.median(environment))
    n_c = occupation.centrals(haloes.log_mass)
    p_c = n_c + occupation.assembly_bias * e * np.minimum(n_c, 1 - n_c)
    has_central = rng.random(e.size) < p_c
    satellites = rng.poisson(occupation.satellites(haloes.log_mass) * (1 + occupation.assembly_bias * e))
    host = np.concatenate([np.flatnonzero(has_central), np.repeat(np.arange(e.size), satellites)])
    return host, int(has_central.sum())


def _positions(
    grid: Grid,
    matter: Matter,
    haloes: Haloes,
    host: NDArray[np.int64],
    centrals: int,
    cosmology: Cosmology,
    occupation: Occupation,
    z: float,
    rng: np.random.Generator,
) -> Array:
    r"""Place the galaxies: Lagrangian cell, jitter in it, displacement, velocity, orbit in the halo.

    .. math::
        s_z = x_z + u_z + \eta\,\sigma_v\,\frac{1+z}{100\,E(z)}\,N(0, 1), \qquad
        \sigma_v^2 = \frac{G M (1+z)}{2\,r_{200}}
    """
    cell, mass = haloes.cell[host], 10 ** haloes.log_mass[host]
    # One jitter for each halo, shared by its galaxies.
    jitter = (rng.random((3, haloes.cell.size), dtype=np.float32) * np.float32(grid.cell))[:, host]
    corner = np.stack(np.unravel_index(cell, (grid.n,) * 3)) * grid.cell
    position = corner + jitter + matter.displacement[:, cell]

    radius = (3 * mass / (4 * np.pi * OVERDENSITY * CRITICAL_DENSITY * cosmology.omega_m)) ** (1 / 3)
    sigma = np.sqrt(GRAVITY * mass * (1 + z) / (2 * radius)) * (1 + z) / (100 * cosmology.expansion(z))
    eta = np.where(np.arange(host.size) < centrals, occupation.central_velocity, occupation.satellite_velocity)
    position[2] += matter.velocity[cell] + eta * sigma * rng.standard_normal(host.size)
    position[:, centrals:] += _orbits(mass[centrals:], radius[centrals:], occupation.concentration, z, rng)
    return position % grid.box


def _orbits(mass: Array, radius: Array, concentration: float, z: float, rng: np.random.Generator) -> Array:
    r"""Draw satellites about their haloes' centres from Navarro–Frenk–White profiles; shape (3, G).

    The mass inside x scale radii is :math:`m(x) = \ln(1+x) - x/(1+x)`; the radius is its inverse at a uniform
    share of :math:`m(c)`, :math:`c = \eta_c \cdot 7\,(M/10^{13})^{-0.1}(1+z)^{-0.7}`.
    """
    c = concentration * 7.0 * (mass / 1e13) ** -0.1 / (1 + z) ** 0.7
    x = np.geomspace(1e-3, 40, 200)
    share = rng.random(mass.size) * (np.log1p(c) - c / (1 + c))
    r = np.interp(share, np.log1p(x) - x / (1 + x), x) / c * radius
    cos, phi = 2 * rng.random(mass.size) - 1, 2 * np.pi * rng.random(mass.size)
    sin = np.sqrt(1 - cos**2)
    return r * np.stack([sin * np.cos(phi), sin * np.sin(phi), cos])
