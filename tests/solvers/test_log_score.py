"""Mixture × log score: the certificate holds on every kind of problem, and is what it says it is."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp

import drystone as ds
from drystone.solvers import SQP, Multiplicative


def gaussian_problem(N, K, seed):
    """Members that are right about most rows and wrong about some, so that several carry weight."""
    rng = np.random.default_rng(seed)
    theta, shift, sd = rng.normal(size=N), 0.7 * rng.normal(size=(K, 1)), np.exp(0.5 * rng.normal(size=(K, 1)))
    return -(((theta - shift - 0.5 * rng.normal(size=(K, N))) / sd) ** 2) / 2 - np.log(sd)


def as_table(log_q, row_weights=None):
    return ds.Table(np.zeros((log_q.shape[1], 1)), log_q=log_q, row_weights=row_weights)


def near_duplicates(log_q, rng):
    return np.concatenate([log_q, log_q + 1e-9 * rng.normal(size=log_q.shape)])


def mostly_impossible(log_q, rng):
    K, N = log_q.shape
    gone = rng.random((K, N)) < 0.9
    gone[rng.integers(0, K, N), np.arange(N)] = False
    return np.where(gone, -np.inf, log_q)


def one_much_better(log_q, rng):
    return log_q + 20 * (np.arange(len(log_q)) == 2)[:, None]


KINDS = {
    "generic": lambda log_q, rng: log_q,
    "shifted by ±1000": lambda log_q, rng: log_q + rng.choice([-1000, 1000], size=log_q.shape[1]),
    "near duplicates": near_duplicates,
    "exact duplicates": lambda log_q, rng: np.repeat(log_q, 3, 0),
    "mostly −inf": mostly_impossible,
    "optimum on a vertex": one_much_better,
    "optimum inside": lambda log_q, rng: rng.normal(size=log_q.shape),
    "all members equal": lambda log_q, rng: np.broadcast_to(log_q[:1], log_q.shape),
}


@pytest.mark.parametrize("size", [(1000, 50), (300, 200), (40, 70), (6, 4)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("concentration", [1.0, 1.3])
def test_the_gap_is_closed(kind, size, concentration):
    N, K = size
    log_q = KINDS[kind](gaussian_problem(N, K, seed=1), np.random.default_rng(2))
    fit = ds.stack(as_table(log_q), ds.Mixture(concentration))
    assert fit.converged
    assert fit.gap <= 1e-8
    assert fit.weights.min() >= 0
    assert fit.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("kind", ["generic", "mostly −inf", "exact duplicates"])
def test_the_gap_is_closed_at_full_size(kind):
    log_q = KINDS[kind](
        gaussian_problem(10_000, 1000 if kind != "exact duplicates" else 333, 3), np.random.default_rng(4)
    )
    fit = ds.stack(as_table(log_q))
    assert fit.gap <= 1e-8


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 12), st.integers(1, 40), st.integers(0, 2**31), st.floats(0.01, 30), st.booleans())
def test_the_certificate_bounds_the_distance_to_every_other_point(K, N, seed, spread, weighted):
    rng = np.random.default_rng(seed)
    log_q = spread * rng.standard_t(3, size=(K, N))
    table = as_table(log_q, rng.random(N) + 1e-3 if weighted else None)
    fit = ds.stack(table, solver=Multiplicative(steps=3), tol=np.inf)  # far from the optimum on purpose
    for other in [*np.eye(K), rng.dirichlet(np.ones(K)), ds.stack(table).weights]:
        loss = -table.row_weights @ logsumexp(log_q, axis=0, b=other[:, None])
        assert loss >= fit.loss - fit.gap - 1e-9 * max(1, abs(fit.loss))


@pytest.mark.parametrize("seed", range(5))
def test_an_independent_solver_finds_nothing_better(seed):
    log_q = gaussian_problem(200, 8, seed)
    row_weights = np.random.default_rng(seed).random(200)
    table = as_table(log_q, row_weights)
    fit = ds.stack(table)

    def loss(w):
        return -table.row_weights @ logsumexp(log_q, axis=0, b=np.maximum(w, 0)[:, None])

    constraint = {"type": "eq", "fun": lambda w: w.sum() - 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = minimize(
            loss, np.full(8, 1 / 8), bounds=[(0, 1)] * 8, constraints=constraint, options={"ftol": 1e-12}
        )
    assert fit.loss <= other.fun + 1e-9
    np.testing.assert_allclose(fit.weights, other.x, atol=2e-3)


def test_two_members_match_the_solution_by_hand():
    # q_1 = 1 on two rows of three, q_2 = 1 on the third, 0 elsewhere: the weights are 2/3 and 1/3.
    log_q = np.log(
        np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        where=[[True, True, False], [False, False, True]],
        out=np.full((2, 3), -np.inf),
    )
    np.testing.assert_allclose(ds.stack(as_table(log_q)).weights, [2 / 3, 1 / 3])


def test_a_dirichlet_prior_counts_rows_that_only_one_member_explains():
    log_q = gaussian_problem(30, 4, 0)
    extended = np.concatenate([log_q, np.where(np.eye(4), 0.0, -np.inf)], 1)
    c = 0.7
    a = np.r_[np.ones(30), np.full(4, c)]
    np.testing.assert_allclose(
        ds.stack(as_table(log_q), ds.Mixture(1 + c)).weights,
        ds.stack(as_table(extended, a)).weights,
        atol=1e-6,
    )


def test_row_weights_are_repeated_rows():
    log_q = gaussian_problem(20, 5, 1)
    times = np.random.default_rng(0).integers(1, 5, 20)
    np.testing.assert_allclose(
        ds.stack(as_table(log_q, times)).weights, ds.stack(as_table(np.repeat(log_q, times, 1))).weights, atol=1e-6
    )


def test_multiplicative_steps_never_raise_the_loss_and_say_when_they_stop_short():
    table = as_table(gaussian_problem(300, 20, 5))
    losses = []
    for steps in (1, 2, 5, 20, 50):
        with pytest.warns(
            ds.ConvergenceWarning, match=rf"Multiplicative\(steps={steps}\) stopped after {steps} steps"
        ):
            fit = ds.stack(table, solver=Multiplicative(steps=steps))
        assert not fit.converged
        assert fit.loss - ds.stack(table).loss <= fit.gap
        losses.append(fit.loss)
    assert losses == sorted(losses, reverse=True)


def test_a_step_limit_is_reported():
    table = as_table(gaussian_problem(300, 20, 5))
    with pytest.warns(ds.ConvergenceWarning, match=r"SQP\(steps=1\) stopped after 1 steps with gap"):
        ds.stack(table, solver=SQP(steps=1))
