r"""Newton's method on the simplex with a certificate (sequential quadratic programming with screening).

.. math::
    \min_w f(w) \quad \text{subject to} \quad w \ge 0, \; \mathbf 1^\top w = 1

For convex f the Frank–Wolfe gap bounds the distance to the optimum: f(w) − f* ≤ ∇f·w − min_k ∇f_k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from drystone.solvers.simplex.qp import simplex_qp

__all__ = [
    "STEPS",
    "Barrier",
    "Minimum",
    "Problem",
    "Quadratic",
    "drop_negligible_weights",
    "frank_wolfe_gap",
    "newton_simplex",
    "working_set",
]

# Newton steps at most, unless the caller sets a limit.
STEPS = 100
# How many members without weight may enter at one step. The Hessian is formed for these and the support only.
ENTERING = 64


class Problem(Protocol):
    """A function of the weights. ``hessian`` may be asked for some members' rows and columns only."""

    def value(self, w: np.ndarray) -> float:
        """Return f(w)."""
        ...

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """Return ∇f(w), (K,)."""
        ...

    def hessian(self, w: np.ndarray, members: np.ndarray) -> np.ndarray:
        """Return ∇²f(w) at ``members`` × ``members``."""
        ...


@dataclass(frozen=True)
class Minimum:
    """Where the method stopped: the weights, their Frank–Wolfe gap, and the number of steps."""

    weights: np.ndarray
    gap: float
    iterations: int


def frank_wolfe_gap(w: np.ndarray, gradient: np.ndarray) -> float:
    """Return ∇f·w − min_k ∇f_k ≥ 0; zero exactly at a stationary point."""
    return float(max(gradient @ w - gradient.min(), 0.0))


def newton_simplex(problem: Problem, start: np.ndarray, tol: float, most: int = STEPS) -> Minimum:
    """Minimize ``problem`` from ``start``, until the Frank–Wolfe gap is below ``tol`` or ``most`` steps.

    Each step minimizes the quadratic model over the support and the members whose gradient says they would
    help most, exactly, and backtracks along the way there.
    """
    w = start
    value, gradient = problem.value(w), problem.gradient(w)
    step = stalled = 0
    for step in range(most):
        gap = frank_wolfe_gap(w, gradient)
        if gap <= tol:
            return Minimum(w, gap, step)
        members = working_set(w, gradient)
        H = _convex(problem.hessian(w, members))
        g = gradient[members]
        target = simplex_qp(H, g - H @ w[members], w[members])
        direction = np.zeros_like(w)
        direction[members] = target - w[members]
        moved = _backtrack(problem, w, value, gradient, direction)
        stalled = stalled + 1 if moved is None or value - moved[1] <= _rounding(value, gradient) else 0
        if moved is None or stalled > 3:  # at the limit of rounding, or stuck at a kink
            break
        w, value = moved
        gradient = problem.gradient(w)
    return Minimum(w, frank_wolfe_gap(w, gradient), step + 1)


def drop_negligible_weights(problem: Problem, minimum: Minimum, tol: float) -> Minimum:
    """Return the minimum with weights below 1e-10 set to 0, if the certificate allows it.

    A member without weight is never evaluated again, so remainders of multiplicative steps would cost time.
    """
    w = np.where(minimum.weights < 1e-10, 0.0, minimum.weights)
    if (w == minimum.weights).all():
        return minimum
    w /= w.sum()
    if not np.isfinite(problem.value(w)):
        return minimum
    gap = frank_wolfe_gap(w, problem.gradient(w))
    return Minimum(w, gap, minimum.iterations) if gap <= max(tol, minimum.gap) else minimum


def working_set(w: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Return the support, and up to ENTERING members without weight whose gradient lies below the average."""
    outside = np.flatnonzero((w == 0) & (gradient < gradient @ w))
    entering = outside[np.argsort(gradient[outside])[:ENTERING]]
    return np.sort(np.concatenate([np.flatnonzero(w > 0), entering]))


def _convex(H: np.ndarray) -> np.ndarray:
    """Return H, with negative curvature turned to positive if it has any, and a ridge against singularity.

    Only curvature along the simplex counts, where s·11ᵀ has none. The ridge acts on the step only (the model is
    built around w), so it slows and never biases.
    """
    ridge = np.diag(1e-10 * np.abs(np.diag(H)) + 1e-300)
    if any(_positive(H + s + ridge) for s in (0.0, 10 * np.abs(H).max())):
        return H + ridge
    values, vectors = np.linalg.eigh((H + H.T) / 2)
    return (vectors * np.abs(values)) @ vectors.T + ridge


def _positive(H: np.ndarray) -> bool:
    try:
        np.linalg.cholesky(H)
    except np.linalg.LinAlgError:
        return False
    return True


def _backtrack(
    problem: Problem, w: np.ndarray, value: float, gradient: np.ndarray, direction: np.ndarray
) -> tuple[np.ndarray, float] | None:
    """Return the first of w + direction, w + direction/2, … that lowers f enough (Armijo), or None."""
    slope = gradient @ direction
    rounding = _rounding(value, gradient)  # near the optimum f changes by less than it can resolve
    size = 1.0
    while size > 1e-12:
        candidate = np.maximum(w + size * direction, 0.0)
        candidate /= candidate.sum()
        reached = problem.value(candidate)
        if reached <= value + 1e-4 * size * slope + rounding:
            return candidate, reached
        size /= 2
    return None


def _rounding(value: float, gradient: np.ndarray) -> float:
    """Return what changes of f mean nothing, in whatever units: f may be near 0, but not all of its parts."""
    return 1e-13 * max(abs(value), float(np.abs(gradient).max()))


@dataclass(frozen=True)
class Quadratic:
    """½ wᵀQw + b·w + constant, as a problem."""

    Q: np.ndarray
    b: np.ndarray
    constant: float = 0.0

    @property
    def least_vertex(self) -> float:
        """The least value of a member alone."""
        return float((np.diag(self.Q) / 2 + self.b).min() + self.constant)

    def value(self, w: np.ndarray) -> float:
        """Return f(w)."""
        return float(w @ self.Q @ w / 2 + self.b @ w + self.constant)

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """Return Qw + b, (K,)."""
        return self.Q @ w + self.b

    def hessian(self, w: np.ndarray, members: np.ndarray) -> np.ndarray:
        """Return Q at ``members`` × ``members``."""
        return self.Q[np.ix_(members, members)]


@dataclass(frozen=True)
class Barrier:
    """f(w) − c Σ_k log w_k: a problem with a Dirichlet prior on the weights."""

    problem: Problem
    c: float

    def value(self, w: np.ndarray) -> float:
        """Return f(w) − c Σ_k log w_k."""
        with np.errstate(divide="ignore"):
            return self.problem.value(w) - self.c * float(np.log(w).sum())

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """Return ∇f − c/w."""
        return self.problem.gradient(w) - self.c / w

    def hessian(self, w: np.ndarray, members: np.ndarray) -> np.ndarray:
        """Return ∇²f + c diag(1/w²)."""
        return self.problem.hessian(w, members) + np.diag(self.c / w[members] ** 2)
