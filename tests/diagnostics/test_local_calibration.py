"""Posterior SBC near an observation, against conjugate normals."""

import numpy as np
import pytest
from scipy.stats import kstest, norm

import drystone as ds
from drystone.diagnostics import local_calibration

# θ ~ N(0, 10), y ~ N(0.9 θ, 0.9): the toy's simulator, with the posterior N(y, 1).
PRIOR, NOISE = 10**0.5, 0.9**0.5
CENTER, WIDTH = 1.3, 0.6


def log_ratio(theta):
    return (norm.logpdf(theta, CENTER, WIDTH) - norm.logpdf(theta, 0.0, PRIOR))[:, 0]


def simulations(n, seed):
    rng = np.random.default_rng(seed)
    theta = rng.normal(CENTER, WIDTH, (n, 1))
    return theta, rng.normal(0.9 * theta, NOISE)


def posterior_of(member):
    return ds.Stacking.uniform(["member"], parameters=["theta"]).posterior([member])


@pytest.fixture(scope="module")
def rows():
    return simulations(600, 3)


@pytest.mark.parametrize("draws", [3, 150])
def test_ranks_of_an_exact_posterior_are_uniform_with_any_number_of_draws(rows, draws):
    found = local_calibration(posterior_of(ds.toy.Gaussian(0, 1)), *rows, log_ratio=log_ratio, draws=draws, seed=1)
    assert kstest(found.ranks[:, 0], "uniform").pvalue > 0.01
    assert "calibrated near the observation" in str(found)


def test_ranks_without_the_weights_would_not_be(rows):
    found = local_calibration(
        posterior_of(ds.toy.Gaussian(0, 1)), *rows, log_ratio=lambda theta: np.zeros(len(theta))
    )
    assert found.p_value < 0.05


@pytest.mark.parametrize("member", [ds.toy.Gaussian(0.7, 1), ds.toy.Gaussian(0, 0.4)])
def test_a_posterior_that_is_wrong_there_is_told(rows, member):
    found = local_calibration(posterior_of(member), *rows, log_ratio=log_ratio, seed=1)
    assert found.p_value < 0.01
    assert "not calibrated" in str(found)


def test_the_log_score_is_that_of_the_posterior_with_the_proposal_as_prior(rows):
    theta, y = rows
    found = local_calibration(posterior_of(ds.toy.Gaussian(0, 1)), theta, y, log_ratio, draws=3000, seed=1)
    precision = 1 / WIDTH**2 + 0.9**2 / NOISE**2
    mean = (CENTER / WIDTH**2 + 0.9 * y / NOISE**2) / precision
    exact = norm.logpdf(theta, mean, precision**-0.5)[:, 0]
    assert found.log_score.mean() == pytest.approx(exact.mean(), abs=0.01)
    np.testing.assert_allclose(np.median(found.log_score - exact), 0, atol=0.02)
    few = local_calibration(posterior_of(ds.toy.Gaussian(0, 1)), theta, y, log_ratio, draws=5, seed=1)
    assert few.log_score.mean() < exact.mean()  # it errs low


def test_the_same_seed_gives_the_same_ranks(rows):
    posterior = posterior_of(ds.toy.Gaussian(0.1, 1))
    first, again, other = (
        local_calibration(posterior, *rows, log_ratio=log_ratio, seed=seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.ranks, again.ranks)
    assert (first.ranks != other.ranks).all()
