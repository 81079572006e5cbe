"""Tests for drystone.tasks.gaussian."""

import numpy as np
import pytest
import scipy.stats

from drystone.tasks import Gaussian


@pytest.mark.parametrize("prior_sd", [0.6, 2.0, 100.0])
def test_the_posterior_is_conjugate(prior_sd):
    task = Gaussian(prior_sd)
    shrinkage = prior_sd**2 / (1 + prior_sd**2)
    theta, y = np.array([[0.4], [-1.7], [2.2]]), np.array([[0.9], [-3.1], [5.3]])
    expected = scipy.stats.norm.logpdf(theta, shrinkage * y, np.sqrt(shrinkage))[:, 0]
    np.testing.assert_allclose(task.log_posterior(theta, y), expected)
    draws = task.sample_posterior(y[1], 3000, np.random.default_rng(0))
    assert (
        scipy.stats.kstest(draws[:, 0], scipy.stats.norm(shrinkage * -3.1, np.sqrt(shrinkage)).cdf).pvalue > 1e-3
    )


def test_with_the_default_prior_the_posterior_is_that_of_the_paper():
    theta, y = np.array([[0.4], [-1.7]]), np.array([[0.9], [-3.1]])
    expected = scipy.stats.norm.logpdf(theta, y, 1)[:, 0]
    np.testing.assert_allclose(Gaussian().log_posterior(theta, y), expected, atol=1e-3)
