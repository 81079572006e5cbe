"""Tests for drystone.tasks.numerics.truncated_normal, bivariate_normal and quadrature."""

import numpy as np
import pytest
import scipy.stats
from scipy.integrate import quad

import drystone as ds
from drystone.tasks.numerics import truncated_normal
from drystone.tasks.numerics.bivariate_normal import rectangle
from drystone.tasks.numerics.quadrature import log_integral


@pytest.mark.parametrize(("low", "high"), [(-1.3, 0.4), (2.0, 2.1), (-30.0, -29.5), (37.0, 50.0), (-np.inf, 1.2)])
def test_log_mass_agrees_with_the_integral_of_the_density(low, high):
    # Divided by the density at its highest point, so that the far tails do not underflow.
    peak = min(max(low, 0.0), high)
    integral = quad(lambda z: np.exp((peak**2 - z**2) / 2), max(low, -40), min(high, max(low, -40) + 50))[0]
    expected = np.log(integral) - peak**2 / 2 - 0.5 * np.log(2 * np.pi)
    assert truncated_normal.log_mass(low, high) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("mean", "sd"), [(0.3, 1.0), (14.0, 1.0), (-6.0, 0.4)])
def test_truncated_draws_follow_scipys_distribution(mean, sd):
    low, high = -3.0, 3.0
    draws = truncated_normal.sample(np.full(3000, mean), sd, low, high, np.random.default_rng(0))
    exact = scipy.stats.truncnorm((low - mean) / sd, (high - mean) / sd, mean, sd)
    assert ((draws >= low) & (draws <= high)).all()
    assert scipy.stats.kstest(draws, exact.cdf).pvalue > 1e-3


@pytest.mark.parametrize("rho", [-0.995, -0.4, 0.0, 0.7, 0.995])
@pytest.mark.parametrize(
    ("low", "high"), [((-1.0, -2.0), (0.5, 1.5)), ((0.3, 0.0), (4.0, 0.8)), ((-9.0, 1.0), (8.0, 9.0))]
)
def test_rectangles_agree_with_iterated_integration(rho, low, high):
    def inner(z):
        sd = np.sqrt(1 - rho**2)
        conditional = scipy.stats.norm(rho * z, sd)
        return scipy.stats.norm.pdf(z) * (conditional.cdf(high[1]) - conditional.cdf(low[1]))

    corners = [c / rho for c in (low[1], high[1]) if rho and low[0] < c / rho < high[0]]
    expected = quad(inner, low[0], high[0], points=[*corners, 0.5 * (low[0] + high[0])], epsabs=1e-12, limit=200)[
        0
    ]
    assert rectangle(low, high, rho) == pytest.approx(expected, abs=1e-10)


def test_the_integral_of_a_skewed_hill_is_exact():
    # A product of Gumbel densities, tilted: total mass 1.
    tilt = np.array([[1.0, 0.0], [0.8, 0.5]])

    def log_f(x):
        z = np.linalg.solve(tilt, x.T)
        return scipy.stats.gumbel_l.logpdf(z).sum(0) - np.log(0.5)

    mean, cov = tilt @ np.full(2, -np.euler_gamma), tilt @ tilt.T * np.pi**2 / 6
    cover = np.array([[-20.0, -3.0], [3.0, -3.0], [-20.0, -20.0], [3.0, 4.0]]) @ tilt.T
    assert log_integral(log_f, mean, cov, cover) == pytest.approx(0, abs=1e-4)


def test_an_integral_that_does_not_settle_is_reported():
    def rough(x):
        return 3 * np.sin(1e5 * x[:, 0] * x[:, 1])

    with pytest.warns(ds.ConvergenceWarning, match="still changed by"):
        log_integral(rough, np.zeros(2), np.eye(2), np.array([[-7.3, -7.1], [7.4, 7.9]]))
