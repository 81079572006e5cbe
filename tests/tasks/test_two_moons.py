"""Tests for drystone.tasks.two_moons."""

import numpy as np
import pytest
import scipy.stats

from drystone.tasks import TwoMoons


# Crescents inside the box; cut by a wall; y₁ above 0.25, where half of the noise is impossible; in a corner.
@pytest.mark.parametrize("y", [(-0.3, 0.2), (-0.6, 0.55), (0.28, -0.03), (-1.1, 0.05), (0.3, 0.7)])
def test_the_posterior_integrates_to_one(y):
    # Midpoints of one crescent in (z₀, z₁), from the line through its tips to its outer edge or the wall.
    middle = (np.arange(1000) + 0.5) / 1000
    z1 = y[1] - 0.16 + 0.32 * middle
    low, high = max(0.25 - y[0], 0.0), np.minimum(0.41 - y[0], np.sqrt(2) - np.abs(z1))
    keep = high > low
    z1, width = z1[keep], (high - low)[keep]
    z0 = low + width * middle[:, None]
    theta = np.stack([(z0 - z1).ravel(), (z0 + z1).ravel()], -1) / np.sqrt(2)
    area = np.broadcast_to(width * 0.32 / 1000**2, z0.shape).ravel()
    rows = np.tile(y, (len(theta), 1))
    for crescent in (theta, -theta[:, ::-1]):
        mass = (np.exp(TwoMoons().log_posterior(crescent, rows)) * area).sum()
        assert mass == pytest.approx(0.5, abs=5e-4)


def test_the_likelihood_integrates_to_one_over_the_data():
    theta, shift = np.array([0.3, -0.7]), np.array([0.4, 1.0]) / np.sqrt(2)
    middle = (np.arange(1000) + 0.5) / 1000
    y = np.stack(np.meshgrid(0.25 - shift[0] + 0.2 * middle, -0.2 - shift[1] + 0.4 * middle), -1).reshape(-1, 2)
    log_p = TwoMoons().log_likelihood(np.tile(theta, (len(y), 1)), y)
    assert np.exp(log_p).mean() * 0.2 * 0.4 == pytest.approx(1, abs=1e-3)


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
        TwoMoons().log_evidence(np.array([[-0.3, 0.2], [-0.9, 0.45]]))
    with pytest.raises(ValueError, match="has no posterior"):
        TwoMoons().sample_posterior(np.array([0.9, 0.0]), 10, np.random.default_rng(0))
