"""Tests for drystone.tasks.task and the contract that every task fulfils."""

import numpy as np
import pytest
import scipy.stats

import drystone as ds
from drystone.tasks import SIR, SLCP, Gaussian, GaussianMixture, LotkaVolterra, Task, TwoMoons, Uniform
from experiments.minisimbig import MiniSimBIG

TASKS = {
    "gaussian": Gaussian(prior_sd=3.0),
    "gaussian mixture": GaussianMixture(),
    "Lotka-Volterra": LotkaVolterra(),
    "small mini-SimBIG": MiniSimBIG(n=16),
    "SIR": SIR(),
    "SLCP": SLCP(),
    "two moons": TwoMoons(),
}
EXACT = {name: task for name, task in TASKS.items() if not isinstance(task, MiniSimBIG)}
every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())
every_exact_task = pytest.mark.parametrize("task", EXACT.values(), ids=EXACT.keys())


@pytest.fixture
def rng():
    return np.random.default_rng(12)


@every_task
def test_simulations_have_the_promised_shape_and_follow_the_generator(task, rng):
    theta = task.prior.sample(3, rng)
    y = task.simulate(theta, np.random.default_rng(1))
    assert theta.shape == (3, task.theta_dim)
    assert y.shape == (3, task.y_dim)
    assert np.isfinite(y).all()
    np.testing.assert_array_equal(y, task.simulate(theta, np.random.default_rng(1)))
    assert not np.array_equal(y, task.simulate(theta, np.random.default_rng(2)))


@every_task
def test_parameters_are_named(task):
    assert len(task.parameters) == task.theta_dim == task.prior.support.lower.size
    assert len(set(task.parameters)) == task.theta_dim


@every_task
def test_theta_of_a_wrong_shape_is_explained(task, rng):
    theta = task.prior.sample(task.theta_dim + 2, rng)
    with pytest.raises(ValueError, match=rf"`theta` must have shape \(N, {task.theta_dim}\)"):
        task.simulate(np.column_stack([theta, theta]), rng)
    with pytest.raises(ValueError, match=r"One row is written \[\[\.\.\.\]\]"):
        task.simulate(theta[0], rng)


@every_task
def test_theta_outside_the_support_is_refused_by_the_simulator(task, rng):
    theta = task.prior.sample(5, rng)
    theta[3] = task.prior.support.lower - 1
    if np.isneginf(theta[3]).all():
        assert isinstance(task, Gaussian)  # the only task without a wall
        return
    with pytest.raises(ValueError, match="outside the prior's support in 1 of 5 rows, first in row 3"):
        task.simulate(theta, rng)


@every_exact_task
def test_densities_outside_the_support_are_zero(task, rng):
    theta = task.prior.sample(4, rng)
    y = task.simulate(theta, rng)
    theta[2] = np.where(np.isfinite(task.prior.support.lower), task.prior.support.lower - 0.1, 1e3)
    inside = np.array([True, True, False, True])
    for log_p in (task.log_likelihood(theta, y), task.log_posterior(theta, y)):
        assert log_p.shape == (4,)
        assert np.isfinite(log_p[inside]).all()
        assert log_p[2] < -1e4  # the Gaussian has no wall, only a tail


@every_exact_task
def test_nan_is_refused(task, rng):
    theta = task.prior.sample(4, rng)
    y = task.simulate(theta, rng)
    y[1, 0] = np.nan
    with pytest.raises(ValueError, match="`y` has NaN in 1 of 4 rows, first in row 1"):
        task.log_likelihood(theta, y)
    theta[2, 0] = np.nan
    with pytest.raises(ValueError, match="`theta` has NaN in 1 of 4 rows, first in row 2"):
        task.simulate(theta, rng)


@every_exact_task
def test_rows_must_be_paired(task, rng):
    theta = task.prior.sample(4, rng)
    y = task.simulate(theta, rng)
    with pytest.raises(ValueError, match="paired rows; got 4 and 3"):
        task.log_posterior(theta, y[:3])


@every_exact_task
def test_the_log_posterior_is_a_function_of_theta_and_y_alone(task, rng):
    theta = task.prior.sample(2, rng)
    y = task.simulate(theta, rng)
    together = task.log_posterior(theta[[0, 1, 0]], y[[0, 1, 1]])
    np.testing.assert_allclose(task.log_posterior(theta[[0, 1]], y[[1, 1]]), together[[2, 1]])


@every_exact_task
def test_posterior_draws_have_their_shape_and_lie_in_the_support(task, rng):
    y = task.simulate(task.prior.sample(1, rng), rng)
    draws = task.sample_posterior(y[0], 57, rng)
    assert draws.shape == (57, task.theta_dim)
    assert task.prior.support.contains(draws).all()
    with pytest.raises(ValueError, match=rf"one data set of shape \({task.y_dim},\)"):
        task.sample_posterior(np.concatenate([y, y]), 57, rng)


@every_exact_task
def test_posterior_draws_of_two_calls_have_no_point_in_common(task, rng):
    y = task.simulate(task.prior.sample(1, rng), rng)[0]
    first, second = (task.sample_posterior(y, 200, rng) for _ in range(2))
    assert len(np.unique(np.concatenate([first, second])[:, -1])) == 400


@pytest.mark.parametrize("name", ["gaussian", "gaussian mixture", "two moons", "SLCP"])
def test_the_truth_has_a_uniform_rank_among_posterior_draws(name, rng):
    # Simulation-based calibration: it fails if the sampler and the simulator disagree anywhere.
    task, n, draws = TASKS[name], 100 if name == "SLCP" else 600, 40
    theta = task.prior.sample(n, rng)
    y = task.simulate(theta, rng)
    below = [(task.sample_posterior(row, draws, rng) < truth).sum(0) for row, truth in zip(y, theta, strict=True)]
    rank = (np.array(below) + rng.random((n, task.theta_dim))) / (draws + 1)
    assert all(scipy.stats.kstest(margin, "uniform").pvalue > 1e-3 for margin in rank.T)


def test_a_task_without_likelihood_says_so(rng):
    task = TASKS["small mini-SimBIG"]
    theta = task.prior.sample(2, rng)
    y = np.ones((2, task.y_dim))
    with pytest.raises(ds.IntractableError, match="'minisimbig' has no tractable likelihood"):
        task.log_likelihood(theta, y)
    with pytest.raises(ds.IntractableError, match="no tractable likelihood"):
        task.log_posterior(theta, y)
    with pytest.raises(ds.IntractableError, match="'minisimbig' cannot be sampled"):
        task.sample_posterior(y[0], 3, rng)


class Line(Task):
    """A user's own task."""

    name, parameters, y_dim = "line", ("slope", "offset"), 3
    prior = Uniform([-1.0, 0.0], [1.0, 2.0])

    def simulate(self, theta, rng):
        return theta[:, :1] * [1, 2, 3] + theta[:, 1:] + rng.normal(size=(len(theta), 3))


def test_a_users_own_task_gets_its_arguments_checked(rng):
    assert Line().simulate([[0.5, 1.0]], rng).shape == (1, 3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"`theta` must have shape \(N, 2\); got \(2, 3\)\. Is it transposed\?"):
        Line().simulate(np.ones((2, 3)), rng)
    with pytest.raises(ds.IntractableError, match="'line' has no tractable likelihood"):
        Line().ceiling(5, rng)


def test_a_simulator_of_the_wrong_width_is_explained(rng):
    class Wrong(Line):
        y_dim = 4

    with pytest.raises(
        ValueError, match=r"task 'line' must return shape \(N, y_dim\) = \(2, 4\); it returned \(2, 3\)"
    ):
        Wrong().simulate(np.array([[0.5, 1.0], [0.2, 0.3]]), rng)


def test_a_task_without_simulator_cannot_be_made():
    class Nothing(Task):
        name, parameters, y_dim = "nothing", (), 0

    with pytest.raises(TypeError, match="simulate"):
        Nothing()  # pyright: ignore[reportAbstractUsage]


def test_tasks_are_found_by_name():
    assert ds.tasks.names() == (
        "gaussian",
        "gaussian_mixture",
        "lotka_volterra",
        "sir",
        "slcp",
        "two_moons",
    )
    for name in ds.tasks.names():
        assert ds.tasks.get(name).name == name
    with pytest.raises(ValueError, match="unknown task 'twomoons'; known: gaussian, gaussian_mixture"):
        ds.tasks.get("twomoons")
