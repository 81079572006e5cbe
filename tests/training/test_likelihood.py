"""Likelihoods: densities of y in its own units, against closed forms."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cloudpickle
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import drystone as ds
from drystone.training.features import Features

SMALL = ds.Sweep(
    transforms=(2, 2), units=(12, 16), layers=(0, 1), bins=(4, 5), batch_size=(50, 50), activation="tanh",
    dropout=(0.0, 0.0), learning_rate=(3e-3, 4e-3), ema_decay=0.5,
)  # fmt: skip
PRIOR = ds.tasks.Normal([1.0, -2.0], [2.0, 0.5])
# y = A θ + b + L e: a linear Gaussian likelihood with correlated noise, in unequal units.
A = np.array([[1.0, 0.5], [0.0, 30.0], [-0.5, 1.0]])
B = np.array([5.0, -40.0, 0.0])
L = np.array([[0.5, 0.0, 0.0], [4.0, 6.0, 0.0], [0.1, 0.0, 0.3]])


def simulations(n, seed):
    rng = np.random.default_rng(seed)
    theta = PRIOR.sample(n, rng)
    return theta, theta @ A.T + B + rng.normal(size=(n, 3)) @ L.T


def gaussian(x, cov):
    """Return log N(x; 0, cov) of rows x (N, d)."""
    square = (x @ np.linalg.inv(cov) * x).sum(1)
    return -0.5 * (square + np.linalg.slogdet(2 * np.pi * cov)[1])


def exact(theta, y):
    return gaussian(y - theta @ A.T - B, L @ L.T)


def gap(difference, most):
    """Require that the mean of exact − learnt is below ``most``, and not below 0 beyond chance."""
    error = difference.std() / np.sqrt(len(difference))
    assert -3 * error < difference.mean() < most + 2 * error


@pytest.fixture(scope="module")
def linear():
    return ds.train(*simulations(2000, 0), target="likelihood", prior=PRIOR, members=2, sweep=SMALL, epochs=60)


def test_a_linear_gaussian_likelihood_is_learnt_in_the_units_of_y(linear):
    assert linear.names == ("nle-maf-000", "nle-nsf-001")
    theta, y = simulations(1000, 1)
    for log_q in linear.log_likelihood(theta, y):
        gap(exact(theta, y) - log_q, 0.1)
    assert all(member.normalized_in_y for member in linear)


def test_draws_of_a_likelihood_have_its_moments(linear):
    theta = np.repeat(PRIOR.mean[None], 4000, 0)
    y = linear[0].simulate(theta, seed=3)
    sd = np.sqrt(np.diag(L @ L.T))
    np.testing.assert_allclose((y.mean(0) - A @ PRIOR.mean - B) / sd, 0, atol=0.15)
    np.testing.assert_allclose(np.corrcoef(y.T)[0, 1], 0.555, atol=0.08)
    np.testing.assert_array_equal(y, linear[0].simulate(theta, seed=3))


def test_one_row_of_y_serves_all_rows_of_theta(linear):
    theta, y = simulations(20, 2)
    one = linear[1].log_likelihood(theta, y[:1])
    np.testing.assert_array_equal(one, linear[1].log_likelihood(theta, np.repeat(y[:1], 20, 0)))
    with_another = np.concatenate([np.repeat(y[:1], 19, 0), y[1:2]])
    np.testing.assert_allclose(one[:19], linear[1].log_likelihood(theta, with_another)[:19], rtol=1e-12)


def test_likelihoods_are_normalized_tabulated_and_stacked(linear):
    theta, y = simulations(40, 4)
    members = ds.normalize(linear, prior=PRIOR, draws=200)
    assert set(members) == set(linear.names)
    precision = np.linalg.inv(L @ L.T)
    cov = np.linalg.inv(A.T @ precision @ A + np.diag(PRIOR.sd**-2.0))
    mean = ((y - B) @ precision @ A + PRIOR.mean / PRIOR.sd**2) @ cov
    table = ds.tabulate(members, theta, y, draws=10)
    fit = ds.stack(table)
    stacked = logsumexp(table.log_q, axis=0, b=fit.weights[:, None])
    gap(gaussian(theta - mean, cov) - stacked, 0.2)


def test_files_give_the_same_bits_and_are_continued(linear, tmp_path):
    theta, y = simulations(2000, 0)
    options: dict[str, Any] = {"target": "likelihood", "prior": PRIOR, "sweep": SMALL, "directory": tmp_path}
    options["epochs"] = 60
    ds.train(theta, y, members=1, workers=1, **options)
    again = ds.train(theta, y, members=2, workers=2, **options)
    loaded = ds.Ensemble.load(tmp_path)
    assert loaded.names == again.names == linear.names
    for ensemble in (again, loaded):
        np.testing.assert_array_equal(ensemble.log_likelihood(theta, y), linear.log_likelihood(theta, y))
    np.testing.assert_array_equal(loaded[0].simulate(theta, 1), linear[0].simulate(theta, 1))
    assert json.loads((tmp_path / "nle-maf-000.json").read_text())["target"] == "likelihood"
    options["epochs"] = 61
    with pytest.raises(ds.StaleError):
        ds.train(theta, y, members=1, **options)


def test_an_executor_trains_the_same_bits(linear):
    theta, y = simulations(2000, 0)
    with ThreadPoolExecutor(2) as client:
        ensemble = ds.train(
            theta, y, target="likelihood", prior=PRIOR, members=2, sweep=SMALL, epochs=60, client=client
        )
    np.testing.assert_array_equal(ensemble.log_likelihood(theta, y), linear.log_likelihood(theta, y))


def test_torch_trains_likelihoods_too():
    pytest.importorskip("zuko")
    theta, y = simulations(1000, 0)
    options: dict[str, Any] = {"target": "likelihood", "prior": PRIOR, "sweep": SMALL, "epochs": 8}
    member = ds.train(theta, y, members=1, engine="torch", **options)[0]
    theta, y = simulations(500, 1)
    gap(exact(theta, y) - member.log_likelihood(theta, y), 0.7)


def test_members_travel_between_processes(linear):
    theta, y = simulations(10, 2)
    copy = cloudpickle.loads(cloudpickle.dumps(linear[0]))
    np.testing.assert_array_equal(copy.log_likelihood(theta, y), linear[0].log_likelihood(theta, y))


def test_a_likelihood_is_not_a_posterior_and_says_what_to_do(linear):
    theta, y = simulations(5, 0)
    with pytest.raises(ds.IntractableError, match=r"ds\.normalize"):
        linear.log_prob(theta, y)
    with pytest.raises(TypeError, match=r"ds\.normalize"):
        ds.tabulate(linear, theta, y)


def test_log_y_has_its_jacobian():
    """log y ~ N(θ, ½²): the log-normal density of y, not the normal one of its logarithm."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(3000, 1))
    y = np.exp(theta + 0.5 * rng.normal(size=(3000, 1)))
    options: dict[str, Any] = {"target": "likelihood", "members": 1, "sweep": SMALL, "log_y": True}
    member = ds.train(theta[:2000], y[:2000], epochs=40, **options)[0]
    theta, y = theta[2000:], y[2000:]
    gap(stats.lognorm.logpdf(y, 0.5, scale=np.exp(theta))[:, 0] - member.log_likelihood(theta, y), 0.05)
    grid = np.exp(np.linspace(-6, 6, 4001))[:, None]
    density = np.exp(member.log_likelihood(np.repeat(theta[:1], len(grid), 0), grid))
    assert np.trapezoid(density, grid[:, 0]) == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize("step", [1.0, 0.25])
def test_counts_have_probabilities(step):
    """Poisson counts, in units of one or of a quarter: the masses of all counts sum to one."""
    rng = np.random.default_rng(0)
    theta = rng.uniform(0.5, 12, (4000, 1))
    y = step * rng.poisson(theta)
    options: dict[str, Any] = {"target": "likelihood", "members": 1, "sweep": SMALL, "prior": ([0.5], [12.0])}
    member = ds.train(theta[:3000], y[:3000], epochs=60, family="nsf", **options)[0]
    assert member.features.step == pytest.approx(step)
    theta, y = theta[3000:], y[3000:]
    gap(stats.poisson.logpmf(np.rint(y / step), theta)[:, 0] - member.log_likelihood(theta, y), 0.06)
    counts = step * np.arange(-8, 60)[:, None]
    mass = np.exp(member.log_likelihood(np.full((len(counts), 1), 6.0), counts)).sum()
    assert mass == pytest.approx(1, abs=0.05)
    drawn = member.simulate(np.full((2000, 1), 6.0), seed=0) / step
    np.testing.assert_allclose(drawn, np.rint(drawn), atol=1e-9)
    assert drawn.mean() == pytest.approx(6.0, abs=0.3)


def test_constant_columns_are_left_out_and_come_back_in_draws():
    theta, y = simulations(600, 0)
    options: dict[str, Any] = {"target": "likelihood", "members": 1, "sweep": SMALL, "epochs": 3}
    whole = ds.train(theta, y, **options)[0]
    padded = np.insert(y, 1, 7.0, axis=1)
    with pytest.warns(UserWarning, match=r"columns \[1\] of `y` are constant"):
        member = ds.train(theta, padded, **options)[0]
    np.testing.assert_array_equal(member.log_likelihood(theta, padded), whole.log_likelihood(theta, y))
    assert (member.simulate(theta, seed=0)[:, 1] == 7.0).all()


def test_features_far_from_all_others_are_not_clipped():
    y = np.random.default_rng(0).normal(size=(200, 1))
    features = Features.fit(y)
    far = np.array([[1e4]])
    np.testing.assert_allclose(features.invert(features.apply(far)[0]), far)


@pytest.mark.parametrize(
    ("column", "step", "origin"),
    [
        (np.random.default_rng(0).normal(size=500), 0.0, 0.0),
        (np.random.default_rng(0).normal(size=500).astype(np.float32), 0.0, 0.0),
        (np.random.default_rng(0).poisson(30, 500), 1.0, None),
        ((np.random.default_rng(0).binomial(1000, 0.3, 500) / 1000).astype(np.float32), 1e-3, None),
        (np.random.default_rng(0).choice([-1.0, 1.0], 500), 2.0, -1.0),
        (np.round(np.random.default_rng(0).normal(size=500), 1), 0.1, None),
        (np.random.default_rng(0).integers(2**30, size=500), 0.0, 0.0),
    ],
)
def test_counts_are_told_from_continuous_columns(column, step, origin):
    features = Features.fit(np.column_stack([column, np.arange(len(column))]).astype(column.dtype))
    assert features.step[0] == pytest.approx(step, rel=1e-5)
    assert origin is None or features.origin[0] == origin
    y = np.column_stack([column, np.arange(len(column))]).astype(float)
    np.testing.assert_allclose(features.invert(features.apply(y)[0]), y, rtol=1e-5, atol=1e-5)


def test_counts_are_modelled_by_their_square_root_with_its_jacobian():
    rng = np.random.default_rng(0)
    lam = np.repeat([4.0, 400.0], 2000)
    columns = [rng.poisson(lam), rng.poisson(lam) - 300, rng.poisson(lam), rng.normal(size=4000)]
    y = np.stack([column.astype(float) for column in columns], axis=1)
    features = Features.fit(y, log=[2], u=rng.random(y.shape))
    # The others are negative, a logarithm, and real.
    np.testing.assert_array_equal(features.warp.root, [True, False, False, False])
    z, _ = features.apply(y, rng.random(y.shape))
    few, many = z[:2000, 0].std(), z[2000:, 0].std()
    assert few == pytest.approx(many, rel=0.2)
    # Between the cells, and below all counts seen, the map goes on.
    at, width = np.array([[-3.0, 5.0, 3.0, 0.1], [250.0, -7.0, 80.0, -0.4]]), 1e-5
    moved = (features.apply(at + width)[0] - features.apply(at - width)[0]) / (2 * width)
    np.testing.assert_allclose(np.log(moved).sum(1), features.apply(at)[1], rtol=1e-6)
    np.testing.assert_allclose(features.invert(features.apply(at)[0]), at, atol=1e-9)


def test_an_observation_between_counts_has_a_finite_density():
    """At y = −½ the middle of the cell is 0, where the slope of the root is infinite."""
    features = Features.fit(np.arange(40.0)[:, None].repeat(3, 0))
    z, log_det = features.apply(np.array([[-0.5], [-0.5 + 1e-12], [0.0]]))
    assert np.isfinite(z).all()
    assert np.isfinite(log_det).all()
    assert z[0] == pytest.approx(z[1])


def test_a_point_mass_in_a_continuous_column_is_refused():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(300, 1))
    y = np.maximum(theta + rng.normal(size=(300, 2)), 0)
    with pytest.raises(ValueError, match=r"column 0 of `y` is 0 in .*% of the rows"):
        ds.train(theta, y, target="likelihood", members=1)
    with pytest.raises(ValueError, match="every column of `y` is constant"):
        ds.train(theta, np.ones((300, 2)), target="likelihood", members=1)


def test_arguments_that_reduce_y_are_refused():
    theta, y = simulations(100, 0)
    with pytest.raises(ValueError, match="`components` and `embedding` reduce y"):
        ds.train(theta, y, target="likelihood", components=2)
    with pytest.raises(ValueError, match="`target` must be"):
        ds.train(theta, y, target="ratio")  # pyright: ignore[reportArgumentType]


def test_likelihoods_are_zero_outside_the_prior():
    theta, y = simulations(200, 0)
    theta = np.abs(theta)
    member = ds.train(theta, y, target="likelihood", members=1, sweep=SMALL, epochs=1, prior=(0.0, np.inf))[0]
    outside = member.log_likelihood(np.array([[1.0, -0.1], [1.0, 0.1]]), y[:2])
    assert outside[0] == -np.inf
    assert np.isfinite(outside[1])
    with pytest.raises(ValueError, match="must lie in the prior's support"):
        member.simulate([[1.0, -0.1]])


def test_snapshots_of_likelihoods():
    theta, y = simulations(300, 0)
    options: dict[str, Any] = {"target": "likelihood", "members": 1, "sweep": SMALL}
    early = ds.train(theta, y, epochs=6, snapshots=(2,), **options).snapshot(2)
    short = ds.train(theta, y, epochs=2, patience=None, snapshots=(2,), **options).snapshot(2)
    np.testing.assert_array_equal(early.log_likelihood(theta, y), short.log_likelihood(theta, y))
