"""Distilled posteriors against closed forms."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import drystone as ds
from drystone.adapters import from_likelihood, from_ratio

# θ ~ N(1, 2²), y | θ ~ N(θ, 1): the posterior is N(0.2 + 0.8 y, 0.8).
PRIOR = ds.tasks.Normal([1.0], [2.0])
ONE = ds.Configuration(
    "maf", transforms=2, units=16, layers=1, activation="tanh", learning_rate=3e-3, batch_size=100
)


def member(shift=0.0, log_likelihood=None):
    def simulate(theta, seed):
        return theta + shift + np.random.default_rng(seed).normal(size=theta.shape)

    return from_likelihood(log_likelihood or (lambda theta, y: stats.norm.logpdf(y, theta)[:, 0]), simulate)


def exact(theta, y):
    return stats.norm.logpdf(theta, 0.2 + 0.8 * y, np.sqrt(0.8))[:, 0]


def fresh(n=1000):
    rng = np.random.default_rng(5)
    theta = PRIOR.sample(n, rng)
    return theta, theta + rng.normal(size=(n, 1))


def test_the_posterior_of_a_linear_gaussian_likelihood_is_learnt():
    ensemble = ds.distill({"exact": member()}, prior=PRIOR, n=8000, sweep=[ONE], epochs=40)
    assert ensemble.names == ("distilled-maf-000",)
    theta, y = fresh()
    gap = exact(theta, y) - ensemble[0].log_prob(theta, y)
    assert -3 * gap.std() / np.sqrt(1000) < gap.mean() < 0.03
    draws = ensemble[0].sample(4000, y[:3], seed=0)
    np.testing.assert_allclose(draws.mean(0), 0.2 + 0.8 * y[:3], atol=0.15)


def test_trained_likelihoods_are_distilled_with_the_real_simulations(tmp_path):
    theta, y = fresh(2000)
    likelihoods = ds.train(theta, y, target="likelihood", prior=PRIOR, sweep=[ONE] * 2, epochs=30)
    settings: dict[str, Any] = {"prior": PRIOR, "n": 6000, "theta": theta, "y": y, "sweep": [ONE], "epochs": 20}
    ensemble = ds.distill(likelihoods, directory=tmp_path, **settings)
    rng = np.random.default_rng(6)
    theta, y = PRIOR.sample(1000, rng), rng.normal(size=(1000, 1))
    y += theta
    assert (exact(theta, y) - ensemble[0].log_prob(theta, y)).mean() < 0.1
    files = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("[!.]*")}
    again = ds.distill(likelihoods, directory=tmp_path, **settings)
    assert files == {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("[!.]*")}
    np.testing.assert_array_equal(again[0].log_prob(theta, y), ensemble[0].log_prob(theta, y))
    settings["seed"] = 1
    with pytest.raises(ds.StaleError):
        ds.distill(likelihoods, directory=tmp_path, **settings)


@pytest.mark.parametrize("weights", [[3.0, 0.0], {"exact": 1.0}])
def test_weights_choose_the_likelihood(weights):
    pair = {"exact": member(), "wrong": from_ratio(lambda theta, y: -y[:, 0])}
    settings: dict[str, Any] = {"prior": PRIOR, "n": 500, "sweep": [ONE], "epochs": 2}
    ensemble = ds.distill(pair, weights=weights, **settings)
    alone = ds.distill({"exact": member()}, **settings)
    theta, y = fresh(20)
    np.testing.assert_array_equal(ensemble[0].log_prob(theta, y), alone[0].log_prob(theta, y))


def test_a_mixture_has_its_shares():
    pair = {"low": member(-30.0), "high": member(30.0)}
    ensemble = ds.distill(pair, weights=[0.25, 0.75], prior=PRIOR, n=4000, sweep=[ONE], epochs=1)
    # The mean of y in the network's input: −30 and 30 in the shares of the weights, about the prior's mean.
    assert ensemble[0].data_transform.scaling.shift[0] == pytest.approx(1 + 15, abs=2.5)


def test_what_cannot_be_distilled_is_named():
    with pytest.raises(ds.IntractableError, match=r"likelihood 'r' has no `simulate\(theta, seed\)`"):
        ds.distill({"r": from_ratio(lambda theta, y: -y[:, 0])}, prior=PRIOR)
    with pytest.raises(ValueError, match="`weights` must be 1 non-negative numbers"):
        ds.distill({"a": member()}, prior=PRIOR, weights=[-1.0])
    with pytest.raises(ValueError, match="likelihood in `weights`"):
        ds.distill({"a": member()}, prior=PRIOR, weights={"b": 1.0})
    with pytest.raises(ValueError, match="`theta` and `y` must be given together"):
        ds.distill({"a": member()}, prior=PRIOR, theta=np.ones((3, 1)))
    with pytest.raises(ValueError, match=r"`y` must have shape \(N, 1\)"):
        ds.distill({"a": member()}, prior=PRIOR, theta=np.ones((3, 1)), y=np.ones((3, 2)), n=10)
