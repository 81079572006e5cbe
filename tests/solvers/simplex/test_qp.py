"""The quadratic programme and Newton's method on the simplex, against optimality conditions and other solvers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from drystone.solvers.projected_gradient import project_on_simplex
from drystone.solvers.simplex.newton import Barrier, Quadratic, frank_wolfe_gap, newton_simplex
from drystone.solvers.simplex.qp import simplex_qp


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 25), st.integers(1, 25), st.integers(0, 2**31), st.sampled_from([1e-6, 1.0, 1e6]))
def test_the_programme_meets_its_optimality_conditions(K, rank, seed, scale):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(rank, K))
    Q, b = scale * factor.T @ factor, scale * rng.normal(size=K)
    start = rng.dirichlet(np.ones(K)) if seed % 2 else np.eye(K)[seed % K]
    x = simplex_qp(Q, b, start)
    assert x.min() >= 0
    assert x.sum() == pytest.approx(1)
    assert frank_wolfe_gap(x, Q @ x + b) <= 1e-9 * scale * max(1, np.abs(factor).max() ** 2 * rank)


def test_duplicated_and_conditionally_definite_matrices_are_solved():
    rng = np.random.default_rng(0)
    points = np.repeat(rng.normal(size=(7, 2)), 2, 0)
    Q = -np.linalg.norm(points[:, None] - points[None], axis=-1)  # definite only along the simplex
    b = rng.normal(size=14)
    x = simplex_qp(Q, b, np.full(14, 1 / 14))
    assert frank_wolfe_gap(x, Q @ x + b) < 1e-10


def test_least_squares_on_the_simplex_agrees_with_nnls():
    rng = np.random.default_rng(1)
    A, y = rng.normal(size=(30, 6)), rng.normal(size=30)
    heavy = 1e5  # the sum constraint as a heavy row
    by_nnls, _ = nnls(np.vstack([A, heavy * np.ones(6)]), np.append(y, heavy))
    x = simplex_qp(A.T @ A, -A.T @ y, np.full(6, 1 / 6))
    np.testing.assert_allclose(x, by_nnls, atol=1e-7)


def test_a_barrier_keeps_weights_inside_and_is_solved_to_its_certificate():
    rng = np.random.default_rng(2)
    A = rng.normal(size=(40, 9))
    problem = Barrier(Quadratic(A.T @ A, 10 * rng.normal(size=9)), 0.01)
    minimum = newton_simplex(problem, np.full(9, 1 / 9), 1e-8)
    assert minimum.gap <= 1e-8
    assert minimum.weights.min() > 0
    gradient = problem.gradient(minimum.weights)
    np.testing.assert_allclose(gradient, gradient.mean(), rtol=1e-5)  # interior: all partial derivatives equal


@settings(deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=20))
def test_projection_is_the_nearest_point(values):
    v = np.array(values)
    x = project_on_simplex(v)
    assert x.min() >= 0
    assert x.sum() == pytest.approx(1)
    # Nearest: no vertex lies in the direction of v − x (variational inequality).
    assert np.max((np.eye(len(v)) - x) @ (v - x)) <= 1e-9 * max(1, np.abs(v).max())
