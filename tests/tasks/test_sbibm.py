"""Exact posteriors against the reference draws of sbibm (Lueckmann et al. 2021), observations 1 to 6."""

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import drystone as ds

FOLDER = os.environ.get("DRYSTONE_SBIBM_DATA")
pytestmark = pytest.mark.skipif(
    FOLDER is None, reason="needs sbibm's reference posteriors; set DRYSTONE_SBIBM_DATA to their folder"
)
# Enough draws for errors well below the tolerances.
DRAWS = {
    "two_moons": 50_000,
    "gaussian_mixture": 100_000,
    "sir": 10_000,
    "slcp": 20_000,
    "lotka_volterra": 12_000,
}


def load(name, observation):
    with np.load(Path(str(FOLDER)) / f"{name}.npz") as data:
        return data["observation"][observation].astype(float), data["reference_posterior"][observation].astype(
            float
        )


def cases():
    for name, n in DRAWS.items():
        for observation in range(6):
            marks = [pytest.mark.slow] if name == "lotka_volterra" else []
            yield pytest.param(name, n, observation, marks=marks)


@pytest.mark.parametrize(("name", "n", "observation"), list(cases()))
def test_moments_and_margins_agree_with_the_reference_posterior(name, n, observation):
    y, reference = load(name, observation)
    draws = ds.tasks.get(name).sample_posterior(y, n, np.random.default_rng(3 + observation))
    sd = draws.std(0)
    np.testing.assert_array_less(np.abs(draws.mean(0) - reference.mean(0)) / sd, 0.05)
    np.testing.assert_allclose(reference.std(0) / sd, 1, atol=0.04)
    # Sixty margins are tested in all, so that one p-value below 0.001 would not be a surprise.
    for ours, theirs in zip(draws.T, reference.T, strict=True):
        assert scipy.stats.kstest(ours, theirs).pvalue > 1e-4


@pytest.mark.parametrize("observation", range(6))
def test_weighted_draws_of_lotka_volterra_have_the_moments_of_the_reference_posterior(observation):
    # Independent draws take ten times longer; they are tested among the slow tests.
    task = ds.tasks.LotkaVolterra()
    y, reference = load("lotka_volterra", observation)
    proposal = task.importance_sample(y).proposal
    log_theta = proposal.sample(15_000, np.random.default_rng(observation))
    theta = np.exp(log_theta)
    with np.errstate(over="ignore", invalid="ignore"):  # proposals far outside the prior
        log_likelihood = np.nan_to_num(task.log_likelihood(theta, np.tile(y, (len(theta), 1))), nan=-np.inf)
    log_w = log_likelihood + task.log_prior.log_prob(log_theta) - proposal.log_prob(log_theta)
    w = np.exp(log_w - log_w.max())
    mean = w @ theta / w.sum()
    sd = np.sqrt(w @ (theta - mean) ** 2 / w.sum())
    np.testing.assert_array_less(np.abs(mean - reference.mean(0)) / sd, 0.05)
    np.testing.assert_allclose(reference.std(0) / sd, 1, atol=0.04)


@pytest.mark.parametrize("name", ["two_moons", "gaussian_mixture", "sir", "slcp", "lotka_volterra"])
def test_reference_draws_have_the_log_density_of_our_own_draws(name):
    # The mean of log p(θ|y) under the posterior is its negative entropy, so that it tests the density.
    task = ds.tasks.get(name)
    y, reference = load(name, 0)
    reference = reference[:2000]
    reference = reference[task.prior.support.contains(reference)]
    rows = np.tile(y, (len(reference), 1))
    ours = task.log_posterior(task.sample_posterior(y, len(reference), np.random.default_rng(1)), rows)
    theirs = task.log_posterior(reference, rows)
    error = np.hypot(ours.std(), theirs.std()) / np.sqrt(len(reference))
    assert abs(ours.mean() - theirs.mean()) < 4 * error
