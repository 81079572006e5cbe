r"""Newton's method for weights that are only held to be ≥ 0, with a certificate.

.. math::
    \min_w f(w) \quad \text{subject to} \quad w \ge 0

For convex f and ∇f(w) ≥ 0 the optimum is no lower than f(w) − w·∇f(w). At the optimum itself the gradient of the
members with weight is 0, and rounding may leave it below. So f(w) − ε Σ_k w_k is minimized, whose gradient is ∇f
− ε: there ∇f ≥ ε, and the price is ε Σ_k w_k, which the certificate includes.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from drystone.solvers.simplex.newton import Minimum, Problem

__all__ = ["newton_nonnegative"]

# How many members without weight may enter at one step.
ENTERING = 64


def newton_nonnegative(problem: Problem, start: np.ndarray, tol: float, most: int) -> Minimum:
    """Minimize ``problem`` from ``start``, until the certificate is below ``tol`` or ``most`` steps.

    The gap is infinite if no certificate was reached: the optimum may be at infinity.
    """
    w, steps = start, 0
    value, gradient = problem.value(w), problem.gradient(w)
    while _gap(w, gradient) > tol and steps < most:
        tilt = tol / (2 * max(w.sum(), 1.0))
        members = _working_set(w, gradient - tilt)
        target = _least_quadratic(problem.hessian(w, members), gradient[members] - tilt, w[members])
        direction = np.zeros_like(w)
        direction[members] = target - w[members]
        moved = _backtrack(problem, w, value, gradient, direction, tilt)
        if moved is None:
            break
        w, value = moved
        gradient = problem.gradient(w)
        steps += 1
    return Minimum(w, _gap(w, gradient), steps)


def _gap(w: np.ndarray, gradient: np.ndarray) -> float:
    """Return w·∇f, which bounds f(w) − f* if ∇f ≥ 0; infinite otherwise."""
    return float(w @ gradient) if (gradient >= 0).all() else np.inf


def _working_set(w: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Return the support, and up to ENTERING members without weight that would help most."""
    outside = np.flatnonzero((w == 0) & (gradient < 0))
    entering = outside[np.argsort(gradient[outside])[:ENTERING]]
    return np.sort(np.concatenate([np.flatnonzero(w > 0), entering]))


def _least_quadratic(H: np.ndarray, g: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the minimum x ≥ 0 of g·(x − w) + ½ (x − w)ᵀH(x − w), by non-negative least squares."""
    from scipy.optimize import nnls  # takes a quarter of a second, and only products need it

    # Against duplicates: it slows, and never biases.
    ridge = 1e-12 * np.diag(H) + 1e-10 * np.diag(H).mean() + 1e-300
    root = np.linalg.cholesky(H + np.diag(ridge))
    right = solve_triangular(root, root @ (root.T @ w) - g, lower=True)
    return nnls(root.T, right, maxiter=100 * len(w))[0]


def _backtrack(
    problem: Problem, w: np.ndarray, value: float, gradient: np.ndarray, direction: np.ndarray, tilt: float
) -> tuple[np.ndarray, float] | None:
    """Return the first of w + direction, w + direction/2, … that lowers f − ε Σw enough (Armijo), or None."""
    slope = (gradient - tilt) @ direction
    rounding = 1e-13 * max(abs(value), 1.0)
    size = 1.0
    while size > 1e-12:
        candidate = np.maximum(w + size * direction, 0.0)
        reached = problem.value(candidate)
        tilted = reached - tilt * (candidate.sum() - w.sum())
        if tilted <= value + 1e-4 * size * slope + rounding and not np.array_equal(candidate, w):
            return candidate, reached
        size /= 2
    return None
