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
# Enough draws for errors well below the tolerances; Lotka–Volterra takes seconds for each observation.
DRAWS = {
    "two_moons": 50_000,
    "gaussian_mixture": 100_000,
    "sir": 10_000,
    "slcp": 20_000,
    "lotka_volterra": 12_000,
}


def cases():
    for name, n in DRAWS.items():
        for observation in range(6):
            quick = name != "lotka_volterra" or observation < 2
            yield pytest.param(name, n, observation, marks=[] if quick else [pytest.mark.slow])


@pytest.mark.parametrize(("name", "n", "observation"), list(cases()))
def test_moments_and_margins_agree_with_the_reference_posterior(name, n, observation):
    with np.load(Path(str(FOLDER)) / f"{name}.npz") as data:
        y = data["observation"][observation].astype(float)
        reference = data["reference_posterior"][observation].astype(float)
    draws = ds.tasks.get(name).sample_posterior(y, n, np.random.default_rng(3 + observation))
    sd = draws.std(0)
    np.testing.assert_array_less(np.abs(draws.mean(0) - reference.mean(0)) / sd, 0.05)
    np.testing.assert_allclose(reference.std(0) / sd, 1, atol=0.04)
    # Sixty margins are tested in all, so that one p-value below 0.001 would not be a surprise.
    for ours, theirs in zip(draws.T, reference.T, strict=True):
        assert scipy.stats.kstest(ours, theirs).pvalue > 1e-4


@pytest.mark.parametrize("name", ["two_moons", "gaussian_mixture", "sir", "slcp", "lotka_volterra"])
def test_reference_draws_have_the_log_density_of_our_own_draws(name):
    # The mean of log p(θ|y) under the posterior is its negative entropy, so that it tests the density.
    task = ds.tasks.get(name)
    with np.load(Path(str(FOLDER)) / f"{name}.npz") as data:
        y = data["observation"][0].astype(float)
        reference = data["reference_posterior"][0].astype(float)[:2000]
    reference = reference[task.prior.support.contains(reference)]
    rows = np.tile(y, (len(reference), 1))
    ours = task.log_posterior(task.sample_posterior(y, len(reference), np.random.default_rng(1)), rows)
    theirs = task.log_posterior(reference, rows)
    error = np.hypot(ours.std(), theirs.std()) / np.sqrt(len(reference))
    assert abs(ours.mean() - theirs.mean()) < 4 * error
