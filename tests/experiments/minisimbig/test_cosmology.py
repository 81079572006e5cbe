"""Tests for experiments.minisimbig.cosmology and haloes."""

import numpy as np
import pytest
from experiments.minisimbig.cosmology import Cosmology, top_hat, variance
from experiments.minisimbig.haloes import mass_function
from scipy.integrate import quad

FIDUCIAL = Cosmology(0.3, 0.05, 0.7, 0.96, 0.8)


def test_the_transfer_function_is_one_on_large_scales_and_falls_below():
    transfer = FIDUCIAL.transfer(np.array([1e-4, 1e-2, 1e-1, 1.0, 10.0]))
    assert transfer[0] == pytest.approx(1, abs=5e-3)
    assert (np.diff(transfer) < 0).all()
    # On small scales T ∝ ln k / k², to which the exponent of -2 is only slowly reached.
    slope = np.diff(np.log(transfer[-2:]))[0] / np.log(10)
    assert -2 < slope < -1.7


def test_the_transfer_function_has_baryon_wiggles_of_the_acoustic_scale():
    k = np.linspace(0.03, 0.35, 4000)
    log_t = np.log(FIDUCIAL.transfer(k))
    wiggle = log_t - np.polyval(np.polyfit(np.log(k), log_t, 6), np.log(k))
    spectrum = np.abs(np.fft.rfft(wiggle * np.hanning(k.size), 2**16))
    length = 2 * np.pi * np.fft.rfftfreq(2**16, k[1] - k[0])
    strong = length > 60
    # The sound horizon, 147 Mpc at these parameters, in Mpc/h.
    assert length[strong][spectrum[strong].argmax()] == pytest.approx(147 * 0.7, rel=0.08)


def test_the_power_spectrum_has_the_amplitude_sigma_8_and_grows():
    k, power = FIDUCIAL.linear_power(0.0)
    assert np.sqrt(variance(k, power, np.array([8.0]))) == pytest.approx(0.8)
    _, early = FIDUCIAL.linear_power(0.5)
    np.testing.assert_allclose(early / power, FIDUCIAL.growth(0.5) ** 2)


def test_growth_solves_its_integral_and_is_the_scale_factor_without_dark_energy():
    def integral(a, omega_m):
        hubble = np.sqrt(omega_m / a**3 + 1 - omega_m)
        return hubble * quad(lambda x: (x * np.sqrt(omega_m / x**3 + 1 - omega_m)) ** -3, 0, a)[0]

    for omega_m in (0.12, 0.3, 0.48):
        cosmology = FIDUCIAL._replace(omega_m=omega_m)
        assert cosmology.growth(0.5) == pytest.approx(integral(1 / 1.5, omega_m) / integral(1, omega_m), rel=1e-6)
    assert FIDUCIAL._replace(omega_m=1 - 1e-12).growth(0.5) == pytest.approx(1 / 1.5)


def test_growth_rates_agree_with_the_derivative_of_growth():
    step = 1e-4
    slope = np.log(FIDUCIAL.growth(0.5 + step) / FIDUCIAL.growth(0.5 - step)) / (2 * step) * -1.5
    assert FIDUCIAL.growth_rates(0.5)[0] == pytest.approx(slope, rel=0.01)


def test_distance_agrees_with_quadrature():
    expected = quad(lambda z: 2997.92458 / np.sqrt(0.3 * (1 + z) ** 3 + 0.7), 0, 0.5)[0]
    assert FIDUCIAL.distance(0.5) == pytest.approx(expected)


def test_the_window_is_smooth_where_its_series_takes_over():
    x = np.array([0.00999, 0.01001, 1.3])
    exact = 3 * (np.sin(x) - x * np.cos(x)) / x**3
    np.testing.assert_allclose(top_hat(x), exact, rtol=1e-7)


def test_haloes_are_fewer_and_more_biased_the_heavier():
    number, bias = mass_function(FIDUCIAL, 0.5)
    assert number.shape == bias.shape == (15,)
    assert (np.diff(number) < 0).all()
    assert (np.diff(bias) > 0).all()
    # Haloes above 1e13 Msun/h at z = 0.5: a few in ten thousand cubic Mpc/h.
    assert 2e-4 < number[3:].sum() < 8e-4
