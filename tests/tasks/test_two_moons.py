"""Tests for drystone.tasks.two_moons."""

import numpy as np
import pytest
import scipy.stats

from drystone.tasks import TwoMoons


def grid(low, high, n=1500):
    """Midpoints of a rectangle, and the area of a cell."""
    axes = [a + (b - a) * (np.arange(n) + 0.5) / n for a, b in zip(low, high, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2), np.prod(np.subtract(high, low)) / n**2


# Crescents inside the box; cut by a wall; y₁ above 0.25, where half of the noise is impossible; in a corner.
@pytest.mark.parametrize("y", [(-0.3, 0.2), (-0.6, 0.55), (0.28, -0.03), (-1.1, 0.05), (0.3, 0.7)])
def test_the_posterior_integrates_to_one(y):
    # One crescent, in coordinates along its axis of symmetry; the density jumps at its tips, z₀ = 0.25 − y₁.
    tips = max(0.25 - y[0], 0.0)
    z, area = grid((tips, y[1] - 0.16), (0.41 - y[0], y[1] + 0.16))
    theta = np.stack([z[:, 0] - z[:, 1], z[:, 0] + z[:, 1]], -1) / np.sqrt(2)
    rows = np.tile(y, (len(theta), 1))
    for crescent in (theta, -theta[:, ::-1]):
        assert np.exp(TwoMoons().log_posterior(crescent, rows)).sum() * area == pytest.approx(0.5, abs=5e-4)


def test_the_likelihood_integrates_to_one_over_the_data():
    theta, shift = np.array([0.3, -0.7]), np.array([0.4, 1.0]) / np.sqrt(2)
    y, area = grid((0.25 - shift[0], -0.2 - shift[1]), (0.45 - shift[0], 0.2 - shift[1]))
    log_p = TwoMoons().log_likelihood(np.tile(theta, (len(y), 1)), y)
    assert np.exp(log_p).sum() * area == pytest.approx(1, abs=1e-3)


def test_the_simulator_draws_radius_and_angle_as_written():
    theta = np.tile([0.3, -0.7], (5000, 1))
    y = TwoMoons().simulate(theta, np.random.default_rng(0))
    u, v = y[:, 0] + 0.4 / np.sqrt(2) - 0.25, y[:, 1] + 1.0 / np.sqrt(2)
    assert scipy.stats.kstest(np.hypot(u, v), scipy.stats.norm(0.1, 0.01).cdf).pvalue > 1e-3
    assert scipy.stats.kstest(np.arctan2(v, u), scipy.stats.uniform(-np.pi / 2, np.pi).cdf).pvalue > 1e-3


def test_both_crescents_are_drawn_equally_often():
    draws = TwoMoons().sample_posterior(np.array([-0.3, 0.2]), 4000, np.random.default_rng(1))
    assert abs((draws.sum(1) > 0).mean() - 0.5) < 4 * 0.5 / np.sqrt(4000)


def test_data_that_no_parameter_explains_are_refused():
    with pytest.raises(ValueError, match="cannot come from task 'two_moons' in 1 of 2 rows"):
        TwoMoons().log_evidence(np.array([[-0.3, 0.2], [0.9, 0.0]]))
    with pytest.raises(ValueError, match="has no posterior"):
        TwoMoons().sample_posterior(np.array([0.9, 0.0]), 10, np.random.default_rng(0))
