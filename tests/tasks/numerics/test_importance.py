"""Tests for drystone.tasks.numerics.importance."""

from typing import Any

import numpy as np
import pytest
import scipy.stats

import drystone as ds
from drystone.tasks import Normal
from drystone.tasks.numerics.importance import Proposal, anneal, effective_size

# Typed loosely: its stubs take the covariance for an integer.
Gaussian: Any = scipy.stats.multivariate_normal
PRIOR = Normal([0.5, -1.0, 2.0], [1.0, 2.0, 0.5])


def start(log_likelihood, rng, n=2000):
    x = PRIOR.sample(n, rng)
    return x, log_likelihood(x)


def test_evidence_and_moments_of_a_narrow_tilted_gaussian_are_found():
    rng = np.random.default_rng(0)
    mix = np.array([[0.03, 0, 0], [0.05, 0.01, 0], [-0.01, 0.02, 0.02]])
    likelihood = Gaussian([1.4, 0.8, 1.1], mix @ mix.T)
    sample = anneal(PRIOR, likelihood.logpdf, start(likelihood.logpdf, rng), rng)
    # Product of Gaussians: precisions add; the evidence is the density of the observed mean under the sum.
    prior_cov = np.diag(PRIOR.sd**2)
    evidence = Gaussian(PRIOR.mean, prior_cov + likelihood.cov).logpdf(likelihood.mean)
    cov = np.linalg.inv(np.linalg.inv(prior_cov) + np.linalg.inv(likelihood.cov))
    mean = cov @ (np.linalg.solve(prior_cov, PRIOR.mean) + np.linalg.solve(likelihood.cov, likelihood.mean))
    assert sample.log_evidence == pytest.approx(evidence, abs=0.08)
    assert effective_size(sample.log_weights) > 1000
    found_mean, found_cov = sample.moments
    sd = np.sqrt(np.diag(cov))
    np.testing.assert_allclose((found_mean - mean) / sd, 0, atol=0.12)
    np.testing.assert_allclose(found_cov / np.outer(sd, sd), cov / np.outer(sd, sd), atol=0.15)


def test_rejection_draws_follow_the_posterior():
    rng = np.random.default_rng(1)

    def log_likelihood(x):
        return scipy.stats.norm.logpdf(x[:, 0], 1.7, 0.2)

    sample = anneal(PRIOR, log_likelihood, start(log_likelihood, rng), rng)
    draws = sample.sample(3000, rng)
    precision = 1 + 1 / 0.2**2
    exact = scipy.stats.norm((0.5 + 1.7 / 0.2**2) / precision, precision**-0.5)
    assert scipy.stats.kstest(draws[:, 0], exact.cdf).pvalue > 1e-3
    assert scipy.stats.kstest(draws[:, 1], scipy.stats.norm(-1, 2).cdf).pvalue > 1e-3
    # Any prefix is a sample too: the order carries no information.
    assert scipy.stats.kstest(draws[:500, 0], exact.cdf).pvalue > 1e-3


def test_a_narrow_mode_that_flattening_hides_is_found():
    # In four dimensions a needle of height 2000 beside a broad hill: flattened targets see the hill only.
    rng = np.random.default_rng(4)
    prior = Normal(np.zeros(4), np.ones(4))
    centre, width = np.array([1.1, -0.7, 0.9, -1.2]), 0.02

    def log_likelihood(x):
        near = -0.5 * ((x - centre) ** 2).sum(-1) / width**2
        broad = -2000 - 40 * ((x + centre) ** 2).sum(-1)
        return np.maximum(near, broad)

    x = prior.sample(4000, rng)
    sample = anneal(prior, log_likelihood, (x, log_likelihood(x)), rng)
    exact = 4 * np.log(width * np.sqrt(2 * np.pi)) + prior.log_prob(centre)
    assert sample.log_evidence == pytest.approx(exact, abs=0.1)


def test_two_modes_are_both_sampled():
    rng = np.random.default_rng(5)

    def log_likelihood(x):
        return np.logaddexp(*(-0.5 * ((x[:, 0] - m) / 0.03) ** 2 for m in (-0.4, 1.6)))

    sample = anneal(PRIOR, log_likelihood, start(log_likelihood, rng), rng)
    masses = 0.03 * np.sqrt(2 * np.pi) * scipy.stats.norm.pdf([-0.4, 1.6], 0.5, 1.0)
    assert sample.log_evidence == pytest.approx(np.log(masses.sum()), abs=0.1)
    draws = sample.sample(2000, rng)
    assert (draws[:, 0] > 0.6).mean() == pytest.approx(masses[1] / masses.sum(), abs=0.1)


def test_the_proposal_is_normalised():
    proposal = Proposal(Normal([0.3], [1.5]), np.array([-0.4]), np.array([[0.3]]))
    x = np.linspace(-60, 60, 240_001)
    assert np.trapezoid(np.exp(proposal.log_prob(x[:, None])), x) == pytest.approx(1, abs=1e-4)


def test_a_likelihood_that_is_nan_or_zero_in_places_gets_no_weight_there():
    rng = np.random.default_rng(2)

    def log_likelihood(x):
        value = np.where(x[:, 0] > 0.5, np.nan, 0.0)
        return np.where(x[:, 1] > -1, -np.inf, value)

    x = PRIOR.sample(2000, rng)
    sample = anneal(PRIOR, log_likelihood, (x, np.nan_to_num(log_likelihood(x), nan=-1e30, neginf=-1e30)), rng)
    # The quarter of the prior below both medians.
    assert sample.log_evidence == pytest.approx(np.log(0.25), abs=0.1)


def test_a_posterior_that_cannot_be_found_is_reported():
    rng = np.random.default_rng(3)
    spikes = PRIOR.sample(40, rng)

    def log_likelihood(x):
        # Forty needles, far apart: no single hill.
        distance2 = ((x[:, None] - spikes) ** 2).sum(-1).min(1)
        return -0.5 * distance2 / 1e-4**2

    with pytest.warns(ds.ConvergenceWarning, match="effective size"):
        anneal(PRIOR, log_likelihood, start(log_likelihood, rng), rng)
