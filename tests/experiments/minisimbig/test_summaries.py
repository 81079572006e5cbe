"""Tests for the summaries of experiments.minisimbig: power spectrum, bispectrum, wavelets."""

import itertools

import numpy as np
import pytest
from experiments.minisimbig.bispectrum import Bispectrum
from experiments.minisimbig.grid import Grid
from experiments.minisimbig.power_spectrum import PowerSpectrum
from experiments.minisimbig.wavelets import Wavelets

GRID = Grid(16, 160.0)
EVERYWHERE = np.ones((16, 16, 16), np.float32)


@pytest.fixture
def field():
    return np.random.default_rng(0).standard_normal((16, 16, 16)).astype(np.float32)


def test_white_noise_has_the_power_of_a_cell_and_no_multipoles():
    rng = np.random.default_rng(1)
    spectrum = PowerSpectrum(GRID, EVERYWHERE)
    mean = np.mean(
        [spectrum(GRID.forward(rng.standard_normal((16, 16, 16), dtype=np.float32))) for _ in range(400)], 0
    )
    assert mean.shape == (3, 6)
    np.testing.assert_allclose(mean[0] / GRID.cell**3, 1, atol=0.05)
    np.testing.assert_allclose(mean[1:, 1:] / GRID.cell**3, 0, atol=0.2)


def test_waves_along_the_line_of_sight_have_the_multipoles_of_mu_one():
    z = np.cos(2 * np.pi * 3 * np.arange(16) / 16).astype(np.float32) * EVERYWHERE
    p0, p2, p4 = PowerSpectrum(GRID, EVERYWHERE)(GRID.forward(z))
    assert p2[2] / p0[2] == pytest.approx(5, rel=1e-4)
    assert p4[2] / p0[2] == pytest.approx(9, rel=1e-4)
    np.testing.assert_allclose(np.delete(p0, 2) / p0[2], 0, atol=1e-8)


def brute_force(field, shell, weight):
    """Sum over all closed triangles of full-grid modes of the product of three amplitudes."""
    n = 16
    index = np.fft.fftfreq(n, 1 / n)
    modes = np.fft.fftn(field)
    k = np.stack(np.meshgrid(index, index, index, indexing="ij"), -1).reshape(-1, 3)
    radius = np.linalg.norm(k, axis=1)
    members = [np.flatnonzero((radius >= s + 0.5) & (radius < s + 1.5)) for s in shell]
    flat, total = modes.ravel(), 0.0
    mu = np.divide(k[:, 2], radius, out=np.zeros(len(k)), where=radius > 0)
    for a, b in itertools.product(members[0], members[1]):
        third = tuple(int(v) for v in (-(k[a] + k[b])) % n)
        c = np.ravel_multi_index(third, (n, n, n))
        if shell[2] + 0.5 <= radius[c] < shell[2] + 1.5:
            total += (flat[a] * flat[b] * flat[c]).real * (1.5 * mu[a] ** 2 - 0.5 if weight else 1)
    return total / n**6  # Σ_x D D D = Σ_triangles F F F / n⁶


def test_the_bispectrum_is_the_sum_over_closed_triangles(field):
    bispectrum = Bispectrum(GRID, EVERYWHERE)
    sums = bispectrum._sums(GRID.forward(field))
    triangles = bispectrum.triangles.T.tolist()
    for shell in ([0, 0, 0], [1, 0, 0], [1, 1, 0], [2, 1, 0]):
        at = triangles.index(shell)
        assert sums[0, at] == pytest.approx(brute_force(field, shell, False), rel=1e-3, abs=1e-4)
        assert sums[1, at] == pytest.approx(brute_force(field, shell, True), rel=1e-3, abs=1e-4)


def test_triangles_close_and_are_listed_once():
    triangles = (Bispectrum(GRID, EVERYWHERE).triangles + 1).T.tolist()
    every = itertools.product(range(1, 6), repeat=3)
    expected = {(i, j, k) for i, j, k in every if i >= j >= k and i <= j + k}
    assert {tuple(t) for t in triangles} == expected
    assert len(triangles) == len(expected)


def test_the_reduced_bispectrum_of_a_squared_field_is_positive_and_of_its_negative_the_opposite(field):
    bispectrum, spectrum = Bispectrum(GRID, EVERYWHERE), PowerSpectrum(GRID, EVERYWHERE)
    modes = GRID.forward(field**2 - 1)
    q = bispectrum(modes, spectrum(modes)[0])
    assert q.shape == (2, bispectrum.triangles.shape[1])
    assert np.median(q[0]) > 0
    np.testing.assert_allclose(bispectrum(-modes, spectrum(modes)[0]), -q, rtol=1e-5)


def test_wavelet_spectra_do_not_depend_on_the_amplitude_and_moments_do(field):
    wavelets = Wavelets(GRID)
    one, three = (wavelets(GRID.forward(factor * field)).reshape(10, 3 + 16) for factor in (1, 3))
    np.testing.assert_allclose(three[:, 3:], one[:, 3:], atol=1e-4)
    powers = np.tile([0.5, 1, 2], (10, 1))
    np.testing.assert_allclose(three[:, :3] - one[:, :3], np.log(3) * powers, atol=1e-4)


def test_a_wavelet_sees_waves_of_its_scale_and_orientation(field):
    z = np.cos(2 * np.pi * 3 * np.arange(16) / 16).astype(np.float32) * EVERYWHERE
    size = Wavelets(GRID)(GRID.forward(z + 1e-4 * field)).reshape(5, 2, 19)[:, :, 1]
    # Scales 2.8, 3.5, 4.4, ...: three waves in the box are nearest to the first; along the line of sight only.
    assert np.unravel_index(size.argmax(), size.shape) == (0, 1)
    assert size[0, 1] - size[0, 0] > 5
