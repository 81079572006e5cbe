"""Tests for experiments.minisimbig: field, haloes, galaxies and survey."""

import numpy as np
import pytest
from experiments.minisimbig.cosmology import Cosmology
from experiments.minisimbig.field import Lagrangian, Matter
from experiments.minisimbig.galaxies import Occupation, _occupy, _orbits, draw_galaxies
from experiments.minisimbig.grid import Grid
from experiments.minisimbig.haloes import Haloes, draw_haloes
from experiments.minisimbig.survey import Survey

from experiments.minisimbig import FIDUCIAL

COSMOLOGY, OCCUPATION = Cosmology(*FIDUCIAL[:5]), Occupation(*FIDUCIAL[5:])
GRID = Grid(32, 320.0)


def shells(field, grid):
    """Mean power of a field in shells of integer radius."""
    power = np.abs(grid.forward(field.reshape((grid.n,) * 3))) ** 2 * grid.multiplicity
    shell = np.round(grid.radius).astype(int).ravel()
    return np.bincount(shell, power.ravel()) / np.bincount(shell, grid.multiplicity.ravel())


def test_transforms_are_inverse_and_count_every_mode():
    field = np.random.default_rng(0).standard_normal((32,) * 3, dtype=np.float32)
    np.testing.assert_allclose(GRID.backward(GRID.forward(field)), field, atol=1e-5)
    assert GRID.multiplicity.sum() == 32**3


def test_the_displaced_field_has_the_linear_spectrum_in_its_divergence():
    # ∇·ψ = −δ to first order; the second order adds a few per cent on these scales.
    k, power = COSMOLOGY.linear_power(0.5)
    ratio = []
    for seed in range(6):
        matter = Lagrangian(GRID).draw(COSMOLOGY, 0.5, np.random.default_rng(seed))
        psi = [GRID.forward(component.reshape((32,) * 3)) for component in matter.displacement]
        x, y, z = GRID.axes
        divergence = np.complex64(1j * GRID.k_fundamental) * (x * psi[0] + y * psi[1] + z * psi[2])
        measured = shells(GRID.backward(divergence), GRID)[3:12]
        expected = np.exp(np.interp(np.log(np.arange(3, 12) * GRID.k_fundamental), np.log(k), np.log(power)))
        ratio.append(measured * GRID.cell**3 / 32**3 / expected)
    np.testing.assert_allclose(np.mean(ratio, 0), 1, atol=0.15)


def test_velocities_are_displacements_times_the_growth_rate():
    matter = Lagrangian(GRID).draw(COSMOLOGY, 0.5, np.random.default_rng(1))
    slope = np.polyfit(matter.displacement[2], matter.velocity, 1)[0]
    assert slope == pytest.approx(COSMOLOGY.growth_rates(0.5)[0], rel=0.03)


def test_haloes_follow_the_density_with_their_bias():
    rng = np.random.default_rng(2)
    density = 0.3 * rng.standard_normal(GRID.n**3).astype(np.float32)
    number, bias = np.array([0.01, 0.02]), np.array([2.5, 1.0])
    haloes = draw_haloes(GRID, density, number, bias, np.array([True, True]), rng)
    heavy = haloes.log_mass > 12.6
    assert heavy.sum() == pytest.approx(0.02 * 320**3, rel=0.01)
    # The mean of a Gaussian δ under the weight exp(bδ) is b times its variance.
    assert density[haloes.cell[~heavy]].mean() == pytest.approx(1.5 * density.var(), rel=0.02)
    assert density[haloes.cell[heavy]].mean() == pytest.approx(0, abs=0.002)


def test_assembly_bias_moves_galaxies_and_keeps_their_number():
    rng = np.random.default_rng(3)
    n = 100_000
    haloes = Haloes(np.arange(n), rng.uniform(12.6, 14.5, n))
    environment = rng.standard_normal(n).astype(np.float32)
    matter = Matter(np.zeros((3, n)), np.zeros(n), np.zeros(n), environment)
    counts = {}
    for strength in (0.0, 0.4):
        host, centrals = _occupy(haloes, matter, OCCUPATION._replace(assembly_bias=strength), rng)
        dense = environment[host] > np.median(environment)
        assert centrals == pytest.approx(OCCUPATION.centrals(haloes.log_mass).sum(), rel=0.02)
        assert host.size - centrals == pytest.approx(OCCUPATION.satellites(haloes.log_mass).sum(), rel=0.02)
        counts[strength] = dense[centrals:].mean()
    assert counts[0.0] == pytest.approx(0.5, abs=0.01)
    assert counts[0.4] == pytest.approx(0.7, abs=0.01)


def test_satellites_fill_their_halo_as_its_profile_says():
    rng = np.random.default_rng(4)
    mass = np.full(20_000, 1e14)
    r = np.linalg.norm(_orbits(mass, np.full(20_000, 1.5), 1.3, 0.5, rng), axis=0)
    assert r.max() < 1.5 * 1.01
    c = 1.3 * 7 * 10**-0.1 / 1.5**0.7
    inside = (np.log1p(c / 2) - c / 2 / (1 + c / 2)) / (np.log1p(c) - c / (1 + c))
    assert (r < 0.75).mean() == pytest.approx(inside, abs=0.015)


def test_galaxies_lie_in_the_box_in_their_expected_number():
    lagrangian = Lagrangian(GRID)
    position = draw_galaxies(lagrangian, COSMOLOGY, OCCUPATION, 0.5, np.random.default_rng(5))
    assert ((position >= 0) & (position <= GRID.box)).all()
    # 3.3e-4 galaxies per (Mpc/h)³ at the fiducial point.
    assert position.shape[1] == pytest.approx(3.3e-4 * 320**3, rel=0.15)


def test_the_mask_selects_two_fifths_of_the_box():
    survey = Survey(Grid(64, 640.0))
    assert survey.selection.min() == 0
    assert survey.selection.max() == 1
    assert survey.selection.mean() == pytest.approx(0.405, abs=0.002)


def test_painting_conserves_galaxies_and_their_centre():
    cells = np.random.default_rng(6).uniform(3, 28, (3, 500))
    painted = Survey(GRID)._painted(cells)
    assert painted.sum() == pytest.approx(500)
    centre = np.arange(32) + 0.5
    for axis in range(3):
        others = tuple({0, 1, 2} - {axis})
        assert (painted.sum(others) * centre).sum() / 500 == pytest.approx(cells[axis].mean(), rel=1e-5)


def test_galaxies_spread_like_the_mask_show_no_structure():
    survey = Survey(GRID)
    position = np.random.default_rng(7).uniform(0, 320, (3, 400_000))
    field, count = survey.observe(position, COSMOLOGY, 0.5, np.random.default_rng(8))
    assert count == pytest.approx(400_000 * survey.selection.mean(), rel=0.02)
    assert abs(field.mean()) < 1e-4
    assert field[survey.selection == 1].std() < 0.4


def test_a_wrong_assumed_cosmology_stretches_the_survey():
    survey = Survey(GRID)
    position = np.array([[100.0, 160.0], [160.0, 160.0], [100.0, 300.0]])
    np.testing.assert_allclose(survey._distorted(position, COSMOLOGY, 0.5), position)
    dense = COSMOLOGY._replace(omega_m=0.5)
    stretched = survey._distorted(position, dense, 0.5) - 160
    transverse = COSMOLOGY.distance(0.5) / dense.distance(0.5)
    radial = dense.expansion(0.5) / COSMOLOGY.expansion(0.5)
    np.testing.assert_allclose(stretched, (position - 160) * [[transverse], [transverse], [radial]], atol=1e-9)
    assert transverse > 1
    assert radial > 1
