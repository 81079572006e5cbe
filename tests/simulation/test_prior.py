"""Tests for drystone.simulation.prior."""

import json
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

from drystone.simulation.prior import as_prior, describe_prior, described_prior
from drystone.tasks import LogNormal, Normal, Support, Uniform

PRIORS = {
    "uniform": (Uniform([-1.0, 2.0], [0.5, 7.0]), scipy.stats.uniform([-1.0, 2.0], [1.5, 5.0])),
    "normal": (Normal([0.3, -2.0], [0.7, 3.0]), scipy.stats.norm([0.3, -2.0], [0.7, 3.0])),
    "log-normal": (
        LogNormal([0.3, -2.0], [0.7, 0.4]),
        scipy.stats.lognorm([0.7, 0.4], scale=np.exp([0.3, -2.0])),
    ),
}


@pytest.mark.parametrize("width", [1e-4, 1e4])
def test_many_parameters_have_a_finite_density(width):
    prior = Uniform(np.zeros(100), np.full(100, width))
    np.testing.assert_allclose(prior.log_prob(np.full((1, 100), width / 2)), -100 * np.log(width))


@pytest.mark.parametrize(("prior", "reference"), PRIORS.values(), ids=PRIORS.keys())
def test_the_density_agrees_with_scipy_inside_and_outside_the_support(prior, reference):
    theta = np.array([[-3.0, 4.0], [0.2, 2.5], [0.4, 0.3], [0.4, -1.3], [-0.7, 6.5]])
    np.testing.assert_allclose(prior.log_prob(theta), reference.logpdf(theta).sum(-1))


@pytest.mark.parametrize(("prior", "reference"), PRIORS.values(), ids=PRIORS.keys())
def test_draws_follow_the_density_and_lie_in_the_support(prior, reference):
    theta = prior.sample(4000, np.random.default_rng(0))
    assert theta.shape == (4000, 2)
    assert prior.support.contains(theta).all()
    # The distribution function turns each margin into a uniform one.
    assert all(scipy.stats.kstest(margin, "uniform").pvalue > 1e-3 for margin in reference.cdf(theta).T)


def test_the_support_says_which_coordinates_are_bounded():
    support = LogNormal([0.0, 1.0], [1.0, 1.0]).support
    np.testing.assert_array_equal([support.lower, support.upper], [[0, 0], [np.inf, np.inf]])
    support = Uniform([-1.0, 2.0], [0.5, 7.0]).support
    np.testing.assert_array_equal([support.lower, support.upper], [[-1, 2], [0.5, 7]])


def test_the_support_cannot_be_changed_from_outside():
    lower = np.array([0.0, 1.0])
    support = Support(lower, [2.0, 3.0])
    lower[0] = 1.5
    assert support.contains([[0.5, 2.0]]).all()
    with pytest.raises(ValueError, match="read-only"):
        support.lower[0] = 1.5


BAD = {
    "unequal lengths": (Uniform, [0.0, 1.0], [2.0], r"both have shape \(d,\); got \(2,\) and \(1,\)"),
    "crossed bounds": (Uniform, [0.0, 1.0], [2.0, 0.5], "`lower` must be below `upper`"),
    "infinite uniform": (Uniform, [0.0], [np.inf], "must be finite"),
    "NaN": (Normal, [np.nan], [1.0], "without NaN"),
    "negative sd": (LogNormal, [0.0, 0.0], [1.0, -1.0], "`sd` must be positive"),
}


@pytest.mark.parametrize(("kind", "first", "second", "message"), BAD.values(), ids=BAD.keys())
def test_bad_arguments_are_explained(kind, first, second, message):
    with pytest.raises(ValueError, match=message):
        kind(first, second)


PRODUCTS = {
    "SciPy's gamma": scipy.stats.gamma([2.0, 3.0]),
    "one by one": [scipy.stats.norm(1, 2), Uniform([0.0], [3.0])],
    "torch and ours": [torch.distributions.Gamma(torch.tensor([2.0]), torch.tensor([1.0])), Normal([0.5], [1.0])],
    "SciPy's normal": scipy.stats.multivariate_normal([0.0, 1.0], [[1.0, 0.5], [0.5, 2.0]]),  # pyright: ignore
}
MARGINS: dict[str, Any] = {
    "SciPy's gamma": (scipy.stats.gamma(2.0), scipy.stats.gamma(3.0)),
    "one by one": (scipy.stats.norm(1, 2), scipy.stats.uniform(0, 3)),
    "torch and ours": (scipy.stats.gamma(2.0), scipy.stats.norm(0.5, 1)),
    "SciPy's normal": (scipy.stats.norm(0, 1), scipy.stats.norm(1, 2**0.5)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_other_libraries_and_products_of_priors_are_taken(name):
    prior = as_prior(PRODUCTS[name])
    theta = prior.sample(4000, np.random.default_rng(0))
    assert theta.shape == (4000, 2)
    assert prior.support.contains(theta).all()
    for margin, exact in zip(theta.T, MARGINS[name], strict=True):
        assert scipy.stats.kstest(exact.cdf(margin), "uniform").pvalue > 1e-3
    if name != "SciPy's normal":
        expected = sum(exact.logpdf(margin) for margin, exact in zip(theta.T, MARGINS[name], strict=True))
        np.testing.assert_allclose(prior.log_prob(theta), expected, rtol=1e-5, atol=1e-5)
    assert prior.log_prob(theta).shape == (4000,)


DATA = {
    "pair": ([-1.0, 0.0], [1.0, 2.0]),
    "uniform": Uniform([-1.0, 0.0], [1.0, 2.0]),
    "normal": Normal([0.0, 1.0], [1.0, 2.0]),
    "log-normal": LogNormal([0.0, 1.0], [1.0, 0.5]),
    "product": [Normal([0.0], [1.0]), Uniform([0.0, 1.0], [2.0, 3.0])],
    "torch": torch.distributions.Normal(torch.zeros(2), torch.ones(2)),
    "torch, independent": torch.distributions.Independent(
        torch.distributions.Uniform(torch.zeros(2), torch.ones(2)), 1
    ),
}


@pytest.mark.parametrize("name", DATA)
def test_a_prior_that_is_data_is_made_again_from_its_description(name):
    prior = as_prior(DATA[name])
    again = described_prior(json.loads(json.dumps(describe_prior(DATA[name]), allow_nan=False)))
    theta = prior.sample(50, np.random.default_rng(0)) * np.linspace(0.5, 1.5, 50)[:, None]
    np.testing.assert_allclose(again.log_prob(theta), prior.log_prob(theta), rtol=1e-6)
    np.testing.assert_array_equal(again.support.lower, prior.support.lower)


@pytest.mark.parametrize("name", DATA)
def test_no_draws_have_the_shape_of_draws(name):
    prior = as_prior(DATA[name])
    assert prior.sample(0, np.random.default_rng(0)).shape == (0, prior.support.lower.size)


class Tilted(Normal):
    """A class derived from one of ours, whose density is another."""

    def log_prob(self, theta):
        return super().log_prob(theta) + np.asarray(theta).sum(-1)


CODE = {
    "derived": Tilted([0.0], [1.0]),
    "torch": torch.distributions.Gamma(torch.ones(2), torch.ones(2)),
    "scipy": scipy.stats.norm(0.0, 1.0),
    "part": [Normal([0.0], [1.0]), scipy.stats.norm(0.0, 1.0)],
}


@pytest.mark.parametrize("name", CODE)
def test_a_prior_that_is_code_has_no_description(name):
    assert describe_prior(CODE[name]) is None


def test_the_description_of_an_unknown_prior_is_refused():
    with pytest.raises(ValueError, match=r"the prior 'Cauchy' is not one of Uniform, Normal, LogNormal, Indep"):
        described_prior({"distribution": "Cauchy", "loc": [0.0]})


def test_draws_that_are_rounded_up_to_a_bound_have_a_density():
    prior = as_prior(torch.distributions.Uniform(torch.tensor([1000.0, 0.0]), torch.tensor([1001.0, 1.0])))
    on_bounds = np.array([[1001.0, 0.5], [1000.0, 1.0], [1000.5, 1 - 1e-9], [1000.0, 0.0]])
    np.testing.assert_allclose(prior.log_prob(on_bounds), 0.0, atol=1e-6)
    assert (prior.log_prob(np.array([[1001.1, 0.5], [1000.5, 1 + 1e-6], [999.9, 0.5]])) == -np.inf).all()


def log_uniform(lower, upper):
    low, high = torch.tensor(lower).log(), torch.tensor(upper).log()
    return torch.distributions.TransformedDistribution(
        torch.distributions.Uniform(low, high), [torch.distributions.ExpTransform()]
    )


TRANSFORMED = {
    "log-uniform": (log_uniform([0.1, 1e-3], [10.0, 5.0]), [0.1, 1e-3], [10.0, 5.0]),
    "reflected log-normal": (
        torch.distributions.TransformedDistribution(
            torch.distributions.LogNormal(torch.zeros(2), torch.ones(2)),
            [torch.distributions.AffineTransform(5.0, -1.0)],
        ),
        [-np.inf, -np.inf],
        [5.0, 5.0],
    ),
    "von Mises": (torch.distributions.VonMises(torch.zeros(2), torch.ones(2)), [-np.pi] * 2, [np.pi] * 2),
    "Gumbel": (torch.distributions.Gumbel(torch.zeros(2), torch.ones(2)), [-np.inf] * 2, [np.inf] * 2),
}


@pytest.mark.parametrize(("distribution", "lower", "upper"), TRANSFORMED.values(), ids=TRANSFORMED)
@pytest.mark.parametrize("independent", [False, True])
def test_bounds_are_those_of_the_draws_where_a_distribution_of_torch_does_not_say_so(
    distribution, lower, upper, independent
):
    prior = as_prior(torch.distributions.Independent(distribution, 1) if independent else distribution)
    np.testing.assert_allclose(prior.support.lower, lower, rtol=1e-5)
    np.testing.assert_allclose(prior.support.upper, upper, rtol=1e-5)
    drawn = prior.sample(5000, np.random.default_rng(0))
    assert np.isfinite(prior.log_prob(drawn)).all()
    for bound, beyond in ((lower, -0.1), (upper, 0.1)):
        if np.isfinite(bound[0]):
            assert prior.log_prob([np.add(bound, beyond)]) == -np.inf


def test_the_density_of_a_log_uniform_prior_integrates_to_one():
    prior = as_prior(log_uniform([0.1], [10.0]))
    grid = np.linspace(0.05, 11.0, 100_001)[:, None]
    assert np.trapezoid(np.exp(prior.log_prob(grid)), grid[:, 0]) == pytest.approx(1, abs=1e-3)


def test_priors_of_double_precision_are_evaluated_in_it():
    mean, sd = 1234.56789, 1e-5
    loc, scale = torch.tensor([[mean], [sd]], dtype=torch.float64)
    double = as_prior(torch.distributions.Normal(loc, scale))
    theta = mean + sd * np.array([[0.0], [1.0], [3.0], [10.0]])
    np.testing.assert_allclose(double.log_prob(theta), Normal([mean], [sd]).log_prob(theta), rtol=1e-6)
