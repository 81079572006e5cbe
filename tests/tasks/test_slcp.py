"""Tests for drystone.tasks.slcp."""

from typing import Any

import numpy as np
import pytest
import scipy.stats

from drystone.tasks import SLCP

# Typed loosely: its stubs take the covariance for an integer.
Gaussian: Any = scipy.stats.multivariate_normal
THETA = np.array([0.7, -1.9, -1.2, 0.8, 0.6])


def test_the_likelihood_is_that_of_four_bivariate_normals():
    y = SLCP().simulate(THETA[None], np.random.default_rng(0))
    s1, s2, rho = 1.44, 0.64, np.tanh(0.6)
    cov = [[s1**2 + 1e-6, rho * s1 * s2], [rho * s1 * s2, s2**2 + 1e-6]]
    expected = Gaussian(THETA[:2], cov).logpdf(y.reshape(4, 2)).sum()
    np.testing.assert_allclose(SLCP().log_likelihood(THETA[None], y), [expected])


def test_the_simulator_has_the_mean_and_covariance_of_the_model():
    y = SLCP().simulate(np.tile(THETA, (20_000, 1)), np.random.default_rng(1)).reshape(-1, 2)
    s1, s2, rho = 1.44, 0.64, np.tanh(0.6)
    np.testing.assert_allclose(y.mean(0), THETA[:2], atol=0.02)
    np.testing.assert_allclose(np.cov(y.T), [[s1**2, rho * s1 * s2], [rho * s1 * s2, s2**2]], rtol=0.03)


def test_the_evidence_agrees_with_a_grid():
    # Spread points, so that a grid over the three shape parameters is enough; the mean by its own small grid.
    y = np.array([[2.0, -1.0, -1.5, 2.5, 0.5, 0.8, -2.8, -2.2]])
    shape = np.stack(np.meshgrid(*[(np.arange(36) + 0.5) / 36 * top for top in (3, 3, 6)], indexing="ij"), -1)
    shape = shape.reshape(-1, 3) - [0, 0, 3]
    axis, weight = np.polynomial.legendre.leggauss(12)
    total = 0.0
    for a, wa in zip(3 * axis, weight, strict=True):
        for b, wb in zip(3 * axis, weight, strict=True):
            theta = np.column_stack([np.full(len(shape), a), np.full(len(shape), b), shape])
            total += wa * wb * np.exp(SLCP().log_likelihood(theta, np.tile(y, (len(theta), 1)))).mean() / 4
    assert SLCP().log_evidence(y)[0] == pytest.approx(np.log(total), abs=0.06)


def test_draws_have_the_four_symmetric_modes_in_equal_shares():
    y = SLCP().simulate(THETA[None], np.random.default_rng(3))[0]
    draws = SLCP().sample_posterior(y, 4000, np.random.default_rng(4))
    share = np.bincount(2 * (draws[:, 2] > 0) + (draws[:, 3] > 0), minlength=4) / 4000
    np.testing.assert_allclose(share, 0.25, atol=4 * np.sqrt(0.25 * 0.75 / 4000))
