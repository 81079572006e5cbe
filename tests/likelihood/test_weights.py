"""What follows from weighted points, against closed forms."""

import numpy as np
from scipy.stats import expon, kstest

from drystone.likelihood.weights import moved_apart, resampled, weighted_quantiles


def test_draws_that_are_moved_apart_keep_their_distribution_at_an_edge():
    rng = np.random.default_rng(0)
    draws = rng.exponential(size=(20_000, 1))

    def log_density(theta):
        return np.where(theta[:, 0] < 0, -np.inf, -theta[:, 0])

    moved = moved_apart(draws, log_density, lambda: 0.7 * rng.normal(size=draws.shape), rng)
    assert kstest(moved[:, 0], expon.cdf).pvalue > 1e-3
    assert (moved != draws).mean() > 0.99


def test_points_are_resampled_as_often_as_their_weights_say():
    w = np.array([0.5, 0.0, 0.125, 0.375])
    counts = np.bincount(resampled(w, 80, np.random.default_rng(1)), minlength=4)
    np.testing.assert_array_equal(counts, [40, 0, 10, 30])


def test_quantiles_of_equal_weights_are_those_of_their_midpoints():
    points = np.array([[3.0, -1.0], [1.0, -2.0], [2.0, -3.0], [4.0, -4.0]])
    levels = np.array([0.125, 0.5, 0.875])
    np.testing.assert_allclose(
        weighted_quantiles(points, np.full(4, 0.25), levels), [[1.0, -4.0], [2.5, -2.5], [4.0, -1.0]]
    )
