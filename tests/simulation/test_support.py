"""The bijection between a prior's support and the real line."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from drystone.simulation.prior import Normal
from drystone.simulation.support import Support

INF = np.inf
# A column of each kind: free, bounded below, bounded above, a box.
LOWER, UPPER = np.array([-INF, 2.0, -INF, -1.0]), np.array([INF, INF, 3.0, 4.0])


@pytest.fixture(params=[0.0, 20.0], ids=["logarithms", "linear in the middle"])
def support(request):
    return Support(LOWER, UPPER, linear=request.param)


@pytest.fixture
def theta():
    rng = np.random.default_rng(0)
    e = rng.exponential(size=(30, 4))
    return np.column_stack([rng.normal(size=30), 2 + e[:, 1], 3 - e[:, 2], rng.uniform(-1, 4, 30)])


def test_there_and_back_is_the_identity(support, theta):
    np.testing.assert_allclose(support.to_theta(support.to_real(theta)[0]), theta, rtol=1e-12)


def test_the_middle_of_a_box_is_mapped_almost_linearly():
    theta = np.linspace(0.2, 0.8, 13)[:, None]
    slope = np.gradient(Support([0.0], [1.0], linear=20.0).to_real(theta)[0][:, 0], theta[:, 0])
    assert slope.max() / slope.min() < 1.1


def test_only_a_box_has_a_linear_term():
    assert Support([0.0], [INF], linear=20.0).linear == 0.0
    with pytest.raises(ValueError, match="must not be negative"):
        Support([0.0], [1.0], linear=-1.0)


def test_an_infinite_linear_term_leaves_a_box_as_it_is():
    support = Support([0.0, 0.0, -INF], [2.0, INF, INF], linear=INF)
    theta = np.array([[0.5, 3.0, -1.0]])
    x, log_det = support.to_real(theta)
    np.testing.assert_allclose(x, [[0.5, np.log(3), -1.0]])
    np.testing.assert_allclose(log_det, -np.log(3))
    np.testing.assert_allclose(support.to_theta(x), theta)
    assert support.to_theta(np.array([[7.0, 0.0, 0.0]]))[0, 0] == 7.0  # what lies outside the box stays there


def test_small_positive_parameters_are_told_apart():
    rates = np.array([[1e-12], [3e-12], [0.0]])
    x, log_det = Support.of((0, np.inf), 1).to_real(rates)
    assert x[1] - x[0] == pytest.approx(np.log(3))
    np.testing.assert_allclose(log_det, -x[:, 0])
    assert np.isfinite(x).all()


def test_every_real_vector_lands_in_the_support(support):
    x = np.random.default_rng(1).normal(size=(100, 4)) * 1000
    with np.errstate(over="ignore"):
        assert support.contains(support.to_theta(x)).all()


def test_the_jacobian_is_the_slope(support, theta):
    h = 1e-6
    slopes = [
        (support.to_real(theta + h * e)[0] - support.to_real(theta - h * e)[0]) @ e / (2 * h) for e in np.eye(4)
    ]
    np.testing.assert_allclose(support.to_real(theta)[1], np.log(slopes).sum(axis=0), atol=1e-5)


def test_the_ends_are_inside_and_finite(support):
    theta = np.array([[0.0, 2.0, 3.0, -1.0], [0.0, 2.5, 2.5, 4.0]])
    assert support.contains(theta).all()
    x, log_det = support.to_real(theta)
    assert np.isfinite(x).all()
    assert np.isfinite(log_det).all()


def test_beyond_the_ends_is_outside(support):
    assert not support.contains(np.array([[0.0, 1.9, 0.0, 0.0], [0.0, 3.0, 3.1, 0.0]])).any()


PRIORS = {
    "a pair": ([0.0, 1.0], [2.0, 3.0]),
    "bounds": SimpleNamespace(lower=np.array([0.0, 1.0]), upper=np.array([2.0, 3.0])),
    "a support with bounds": SimpleNamespace(support=SimpleNamespace(lower=[0.0, 1.0], upper=[2.0, 3.0])),
    "torch": torch.distributions.Independent(
        torch.distributions.Uniform(torch.tensor([0.0, 1.0]), torch.tensor([2.0, 3.0])), 1
    ),
}


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_bounds_are_found_on_a_prior(prior):
    support = Support.of(prior, 2)
    np.testing.assert_array_equal(support.lower, [0, 1])
    np.testing.assert_array_equal(support.upper, [2, 3])


def test_no_prior_is_the_whole_space():
    support = Support.of(None, 3)
    assert not support.bounded
    theta = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_array_equal(support.to_real(theta)[0], theta)


def test_bad_bounds_are_named():
    with pytest.raises(ValueError, match=r"`lower` must be below `upper` in every coordinate; it is not in \[1\]"):
        Support(np.array([0.0, 2.0]), np.array([1.0, 2.0]))
    with pytest.raises(TypeError, match=r"`prior` must be a .* pair, have `lower` and `upper`.*; got int"):
        Support.of(3, 2)
    with pytest.raises(ValueError, match="shape"):
        Support.of(([0.0, 0.0], [1.0, 1.0]), 3)


D = torch.distributions
TWO = torch.ones(2)
SUPPORTS = {
    "Gamma": (D.Gamma(TWO, TWO), [0, 0], [INF, INF]),
    "LogNormal": (D.Independent(D.LogNormal(TWO, TWO), 1), [0, 0], [INF, INF]),
    "Normal": (D.Normal(TWO, TWO), [-INF, -INF], [INF, INF]),
    "MultivariateNormal": (D.MultivariateNormal(TWO, torch.eye(2)), [-INF, -INF], [INF, INF]),
    "Pareto": (D.Pareto(2 * TWO, TWO), [2, 2], [INF, INF]),
    "Beta": (D.Independent(D.Beta(TWO, TWO), 1), [0, 0], [1, 1]),
    "mixture": (D.MixtureSameFamily(D.Categorical(TWO), D.MultivariateNormal(TWO, torch.eye(2).expand(2, 2, 2))),
                [-INF, -INF], [INF, INF]),
    "torch's, one by one": ([D.Gamma(TWO[:1], TWO[:1]), D.Uniform(-TWO[:1], TWO[:1])], [0, -1], [INF, 1]),
    "SciPy's gamma": (stats.gamma([2.0, 3.0], loc=1.0), [1, 1], [INF, INF]),
    "SciPy's normal": (stats.multivariate_normal([0.0, 0.0]), [-INF, -INF], [INF, INF]),
    "SciPy's, one by one": ([stats.norm(0, 1), stats.uniform(-1, 3)], [-INF, -1], [INF, 2]),
    "three kinds": ((Normal([0.0], [1.0]), stats.expon()), [-INF, 0], [INF, INF]),
    "only a density": (SimpleNamespace(log_prob=None, sample=None), [-INF, -INF], [INF, INF]),
}  # fmt: skip


@pytest.mark.parametrize(("prior", "lower", "upper"), SUPPORTS.values(), ids=SUPPORTS)
def test_the_support_of_any_prior_is_found(prior, lower, upper):
    support = Support.of(prior, 2)
    np.testing.assert_array_equal([support.lower, support.upper], [lower, upper])


def test_supports_of_sbis_products_are_found():
    sbi = pytest.importorskip("sbi.utils")
    parts = [D.Gamma(TWO[:1], TWO[:1]), sbi.BoxUniform(-TWO, TWO), D.Normal(TWO[:1], TWO[:1])]
    support = Support.of(sbi.MultipleIndependent(parts), 4)
    np.testing.assert_array_equal([support.lower, support.upper], [[0, -1, -1, -INF], [INF, 1, 1, INF]])


def test_supports_that_are_no_box_are_named():
    with pytest.raises(TypeError, match=r"that of Dirichlet is Simplex\(\)"):
        Support.of(D.Dirichlet(torch.ones(3)), 3)
    with pytest.raises(TypeError, match="that of Poisson"):
        Support.of(D.Poisson(TWO), 2)
