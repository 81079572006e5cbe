"""Dark matter haloes: how many of each mass, and where."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.minisimbig.cosmology import CRITICAL_DENSITY, Cosmology, variance
from experiments.minisimbig.grid import Grid, Real

__all__ = ["Haloes", "draw_haloes", "mass_function"]

Array = NDArray[np.float64]

BIN = 0.2  # dex
EDGES = np.arange(12.4, 15.4 + BIN / 2, BIN)  # log10 of masses in Msun/h
COLLAPSE = 1.686  # linear density of a collapsing sphere
SHETH_TORMEN_A, SHETH_TORMEN_P, SHETH_TORMEN_NORM = 0.707, 0.3, 0.3222


@dataclass(frozen=True, eq=False)
class Haloes:
    """A catalogue of H haloes.

    Attributes:
        cell: Lagrangian cell of each halo, an index into the flattened grid, shape (H,).
        log_mass: log10 of its mass in Msun/h, shape (H,).
    """

    cell: NDArray[np.int64]
    log_mass: Array


def mass_function(cosmology: Cosmology, z: float) -> tuple[Array, Array]:
    r"""Number density and bias of haloes after Sheth & Tormen (1999), in the 15 bins of mass.

    .. math::
        \frac{dn}{d\ln M} &= \frac{\bar\rho}{M}\,\Bigl|\frac{d\ln\sigma}{d\ln M}\Bigr|\,
            A\sqrt{\frac{2\nu}{\pi}}\,(1 + \nu^{-p})\,e^{-\nu/2}, \qquad \nu = a\,\delta_c^2/\sigma^2(M) \\
        b &= 1 + \frac{\nu - 1}{\delta_c} + \frac{2p/\delta_c}{1 + \nu^p}

    Returns:
        Number of haloes in each bin per (Mpc/h)³, and the bias, both (15,).
    """
    k, power = cosmology.linear_power(z)
    density = CRITICAL_DENSITY * cosmology.omega_m
    mass = 10 ** ((EDGES[1:] + EDGES[:-1]) / 2)
    # σ(M) on a coarse table: it is smooth, and each entry is an integral over k.
    log_m = np.log(np.geomspace(mass[0] / 2, mass[-1] * 2, 40))
    log_sigma = 0.5 * np.log(variance(k, power, (3 * np.exp(log_m) / (4 * np.pi * density)) ** (1 / 3)))
    sigma = np.exp(np.interp(np.log(mass), log_m, log_sigma))
    slope = np.interp(np.log(mass), log_m, np.gradient(log_sigma, log_m))

    p = SHETH_TORMEN_P
    nu = SHETH_TORMEN_A * (COLLAPSE / sigma) ** 2
    multiplicity = SHETH_TORMEN_NORM * np.sqrt(2 * nu / np.pi) * (1 + nu**-p) * np.exp(-nu / 2)
    number = density / mass * multiplicity * np.abs(slope) * np.log(10) * np.diff(EDGES)
    bias = 1 + (nu - 1) / COLLAPSE + 2 * p / COLLAPSE / (1 + nu**p)
    return number, bias


def draw_haloes(
    grid: Grid,
    density: Real,
    number: Array,
    bias: Array,
    wanted: NDArray[np.bool_],
    rng: np.random.Generator,
) -> Haloes:
    r"""Draw a Poisson number of haloes in each bin, and a Lagrangian cell for each halo.

    Cells have weight :math:`e^{(b-1)\delta}`. For a Gaussian :math:`\delta` this gives exactly the Lagrangian
    bias :math:`b - 1` on large scales.

    Args:
        grid: The box.
        density: Smoothed linear density :math:`\delta`, shape (n³,).
        number: Haloes per (Mpc/h)³ in each bin.
        bias: Their Eulerian bias b.
        wanted: Which bins can hold galaxies at all; the others are not drawn.
        rng: Random numbers.
    """
    cells, log_masses = [], []
    for b in np.flatnonzero(wanted):
        count = rng.poisson(number[b] * grid.box**3)
        cumulative = np.cumsum(np.exp(np.float32(bias[b] - 1) * density), dtype=np.float64)
        # Sorted, so that the search walks through memory once.
        u = np.sort(rng.random(count)) * cumulative[-1]
        cells.append(np.minimum(np.searchsorted(cumulative, u), density.size - 1))
        log_masses.append(EDGES[b] + BIN * rng.random(count))
    return Haloes(np.concatenate(cells), np.concatenate(log_masses))
