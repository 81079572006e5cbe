"""Tests for the tasks with differential equations, SIR and Lotka–Volterra, and their solver."""

import numpy as np
import pytest
import scipy.stats
from scipy.integrate import solve_ivp

from drystone.tasks import SIR, LotkaVolterra
from drystone.tasks.numerics.runge_kutta import runge_kutta


def test_the_solver_is_of_fourth_order():
    def error(step):
        path = runge_kutta(lambda x, v: (v, -x), (np.array([1.0]), np.array([0.5])), [0.0, 2.9], step)
        assert path[0, 0, 0] == 1.0
        return abs(path[0, 0, 1] - (np.cos(2.9) + 0.5 * np.sin(2.9)))

    assert error(0.1) / error(0.05) == pytest.approx(16, rel=0.1)


def test_one_solution_does_not_depend_on_its_neighbours():
    theta = SIR().prior.sample(7, np.random.default_rng(0))
    np.testing.assert_array_equal(SIR().path(theta)[2:3], SIR().path(theta[2:3]))


def test_epidemics_agree_with_an_adaptive_solver():
    theta = SIR().prior.sample(4, np.random.default_rng(1))
    for (beta, gamma), path in zip(theta, SIR().path(theta), strict=True):

        def derivative(t, state, beta=beta, gamma=gamma):
            s, i = state
            return [-beta * s * i, beta * s * i - gamma * i]

        exact = solve_ivp(
            derivative, (0, 153), [1 - 1e-6, 1e-6], "DOP853", 17.0 * np.arange(10), rtol=1e-11, atol=1e-15
        )
        np.testing.assert_allclose(path, exact.y[1], atol=1e-5, rtol=1e-4)


def test_populations_agree_with_an_adaptive_solver():
    task = LotkaVolterra()
    theta = task.prior.sample(4, np.random.default_rng(2))
    for (alpha, beta, gamma, delta), path in zip(theta, task.path(theta), strict=True):

        def derivative(t, state, a=alpha, b=beta, c=gamma, d=delta):
            return [a - b * np.exp(state[1]), d * np.exp(state[0]) - c]

        exact = solve_ivp(
            derivative, (0, 19), [np.log(30), 0], "DOP853", 2.1 * np.arange(10), rtol=1e-10, atol=1e-10
        )
        np.testing.assert_allclose(path, exact.y.ravel(), atol=1e-3)


def test_counts_are_binomial_about_the_path():
    task = SIR()
    theta = np.tile([0.5, 0.15], (3000, 1))
    y = task.simulate(theta, np.random.default_rng(3))
    p = task.path(theta[:1])[0]
    np.testing.assert_allclose(y.mean(0), 1000 * p, atol=4 * np.sqrt(1000 * p * (1 - p) / 3000).max())
    expected = scipy.stats.binom.logpmf(y[:5], 1000, p).sum(-1)
    np.testing.assert_allclose(task.log_likelihood(theta[:5], y[:5]), expected)


def test_the_first_count_is_nearly_constant():
    y = SIR().simulate(SIR().prior.sample(2000, np.random.default_rng(4)), np.random.default_rng(5))
    assert (y[:, 0] == 0).mean() > 0.99
    assert (y[:, 1:].std(0) > 1).all()


def test_populations_are_log_normal_about_the_path_prey_first():
    task = LotkaVolterra()
    theta = np.tile([0.7, 0.1, 0.9, 0.1], (500, 1))
    y = task.simulate(theta, np.random.default_rng(6))
    assert np.exp(np.log(y[:, [0, 10]]).mean(0)) == pytest.approx([30, 1], rel=0.03)
    np.testing.assert_allclose(np.log(y).std(0), 0.1, rtol=0.2)
    expected = scipy.stats.lognorm.logpdf(y[:4], 0.1, scale=np.exp(task.path(theta[:4]))).sum(-1)
    np.testing.assert_allclose(task.log_likelihood(theta[:4], y[:4]), expected)


# An ordinary epidemic; one that never took off, whose posterior is as wide as the prior; one that is over so soon
# that its contact rate is known up to two values.
@pytest.mark.parametrize(
    "y",
    [
        (0, 1, 63, 320, 87, 14, 1, 0, 0, 0),
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        pytest.param((0, 359, 67, 7, 1, 0, 0, 0, 0, 0), marks=pytest.mark.slow),
    ],
)
def test_the_sir_posterior_integrates_to_one(y):
    task = SIR()
    y = np.array([y], dtype=float)
    draws = np.log(task.sample_posterior(y[0], 2000, np.random.default_rng(8)))
    # A plain rectangle in log θ, unlike the tilted axes by which the evidence is computed.
    low, high = draws.min(0) - draws.std(0), draws.max(0) + draws.std(0)
    axes = [a + (b - a) * (np.arange(150) + 0.5) / 150 for a, b in zip(low, high, strict=True)]
    log_theta = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    log_p = task.log_posterior(np.exp(log_theta), np.tile(y, (len(log_theta), 1))) + log_theta.sum(-1)
    assert np.exp(log_p).sum() * np.prod((high - low) / 150) == pytest.approx(1, abs=1e-3)


def test_the_lotka_volterra_evidence_agrees_with_a_laplace_approximation():
    # With noise of 0.1 the posterior of log θ is nearly Gaussian, and Laplace errs by about a tenth of a nat.
    task = LotkaVolterra()
    theta = np.array([[0.7, 0.1, 0.9, 0.1]])
    y = task.simulate(theta, np.random.default_rng(9))
    draws = np.log(task.sample_posterior(y[0], 3000, np.random.default_rng(10)))
    mode = draws.mean(0)
    log_joint = task.log_likelihood(np.exp(mode)[None], y) + task.log_prior.log_prob(mode[None])
    laplace = log_joint + 0.5 * np.linalg.slogdet(2 * np.pi * np.cov(draws.T))[1]
    np.testing.assert_allclose(task.log_evidence(y), laplace, atol=0.3)
