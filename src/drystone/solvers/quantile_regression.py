r"""Linear quantile regression, exactly: interior points (Portnoy & Koenker 1997; Mehrotra 1992).

.. math::
    \min_\beta \sum_n a_n \rho_\tau(\theta_n - x_n^\top \beta) + \tfrac12 \sum_k m_k \beta_k^2, \qquad
    \rho_\tau(r) = \max(\tau r, (\tau - 1) r)

with β free, non-negative, or on the simplex. With the residual split as r = u − v into positive parts, the optimum
is where slopes z of the loss and multipliers s of β ≥ 0, ν of Σβ = 1 satisfy

.. math::
    X\beta + u - v = \theta, \qquad X^\top z - m\beta + s - \nu 1 = 0, \qquad
    u (\tau a - z) = 0, \quad v ((1-\tau) a + z) = 0, \quad s \beta = 0

The method keeps all pairs positive and drives their products to zero together. Every z within its bounds gives a
lower bound on the optimum: that is the certificate. An iteration costs one K × K Cholesky factor.

Far from the origin the columns of X are nearly constant and nearly the same, so all is centred first. Intercepts
take up what is subtracted; weights that sum to one do not see it; for others a constant column stands for it,

.. math::
    \theta - X\beta = (\theta - c) - (X - c)\beta - \delta, \qquad \textstyle\sum_k \beta_k - \delta / c = 1
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # and not its linalg, which it imports when it is used: most fits do not

__all__ = ["Regression", "quantile_regression"]

# So many spreads from the origin the columns are centred even where that takes a column more.
FAR = 10.0


@dataclass(frozen=True)
class Regression:
    """Coefficients β (K,), their loss, the certified bound ``gap`` on loss − optimum, and the steps taken."""

    coefficients: np.ndarray
    loss: float
    gap: float
    iterations: int


def quantile_regression(
    X: np.ndarray,
    theta: np.ndarray,
    tau: float,
    a: np.ndarray,
    constraint: str = "free",
    ridge: float = 0.0,
    intercepts: int = 0,
    tol: float = 1e-9,
    most: int = 100,
) -> Regression:
    """Solve the problem above.

    Args:
        X: regressors, (N, K).
        theta: responses, (N,).
        tau: the quantile's level.
        a: row weights, (N,), summing to one.
        constraint: "free", "nonnegative" or "convex".
        ridge: m, for all columns but the intercepts.
        intercepts: how many of the last columns are neither constrained nor penalised.
        tol: stop when the gap is below ``tol`` times the loss.
        most: at most so many steps.

    Example:
        >>> y = np.array([1.0, 2.0, 3.0, 10.0, 11.0])
        >>> median = quantile_regression(np.ones((5, 1)), y, 0.5, np.full(5, 0.2))
        >>> float(median.coefficients[0].round(6)), median.gap < 1e-8
        (3.0, True)
    """
    N, K = X.shape
    # Units in which residuals and slopes are of order one; β has no unit.
    middle = float(np.median(theta))
    unit = float(a @ np.abs(theta - middle)) or float(np.abs(theta).max()) or 1.0
    X, theta, a, c = X / unit, theta / unit, a * N, middle / unit
    weight = np.arange(K) < K - intercepts
    bounded = weight & (constraint != "free")
    m = np.where(weight, ridge / unit * N, 0.0)
    total = bounded * float(constraint == "convex")
    back, certain, moved = None, None, None
    if intercepts:
        X, theta, moved = _centred(X, theta, intercepts)
    elif constraint == "convex":
        X, theta = X - c, theta - c
    elif (bounded.any() or m.any()) and abs(c) > FAR:
        X, theta = np.hstack([X - c, np.ones((N, 1))]), theta - c
        bounded, m, total = np.r_[bounded, False], np.r_[m, 0.0], np.r_[np.ones(K), -1 / c]
    if not (bounded.any() or m.any()):
        if not X.any():  # nothing to regress on
            loss = float(a @ np.maximum(tau * theta, (tau - 1) * theta))
            return Regression(np.zeros(K), loss * unit / N, 0.0, 0)
        # All free: in an orthonormal basis of X's columns, since end points of good members are nearly collinear.
        # Directions that X does not see get no coefficient.
        X, back, certain = _orthonormal(X)
        bounded, m, total = np.zeros(X.shape[1], bool), np.zeros(X.shape[1]), np.zeros(X.shape[1])
    problem = Problem(X, theta, tau, a, m, bounded, total, certain)
    best, steps = _iterate(problem, tol, most)
    beta = problem.allowed(best.beta)
    loss, bound = problem.loss(beta), problem.lower_bound(best)
    beta = (beta if back is None else back @ beta)[:K]
    if moved is not None:  # intercepts of the columns as they were
        beta[K - intercepts :] += moved[:, -1] - moved[:, :-1] @ beta[: K - intercepts]
    return Regression(beta, loss * unit / N, max(loss - bound, 0.0) * unit / N, steps)


def _centred(X: np.ndarray, theta: np.ndarray, intercepts: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X and θ less their projections on the intercepts' columns, and the projections' coefficients."""
    constant, columns = X[:, -intercepts:], np.column_stack([X[:, :-intercepts], theta])
    moved = np.linalg.lstsq(constant, columns, rcond=None)[0]
    columns = columns - constant @ moved
    return np.hstack([columns[:, :-1], constant]), columns[:, -1], moved


def _orthonormal(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return an orthonormal basis of X's columns, the map from its coefficients to those of X, and a larger basis.

    The larger one also has the directions that are left out as noise, so that the certificate covers them.
    """
    U, sigma, Vt = np.linalg.svd(X, full_matrices=False)
    seen = sigma > 1e-10 * sigma.max(initial=0.0)
    return U[:, seen], Vt[seen].T / sigma[seen], U[:, sigma > 1e-15 * sigma.max(initial=0.0)]


@dataclass(frozen=True)
class Point:
    """A point of the iteration, or a difference of two."""

    beta: np.ndarray
    u: np.ndarray
    v: np.ndarray
    z: np.ndarray
    s: np.ndarray
    nu: float

    def moved(self, by: Point, primal: float, dual: float) -> Point:
        """Return the primal variables moved by one fraction of a difference, the dual ones by another."""
        return Point(
            self.beta + primal * by.beta,
            self.u + primal * by.u,
            self.v + primal * by.v,
            self.z + dual * by.z,
            self.s + dual * by.s,
            self.nu + dual * by.nu,
        )


@dataclass(frozen=True)
class Problem:
    """The regression: data, ridge, which columns are ≥ 0, e of Σ e_k β_k = 1 or 0, a basis of the free ones."""

    X: np.ndarray
    theta: np.ndarray
    tau: float
    a: np.ndarray
    m: np.ndarray
    bounded: np.ndarray
    total: np.ndarray
    certain: np.ndarray | None = None

    def start(self) -> Point:
        """Return a point well inside all bounds: slopes mid-way, both parts of every residual positive."""
        beta = self.bounded / max(self.bounded.sum(), 1)
        r = self.theta - self.X @ beta
        u, v = np.maximum(r, 0) + 0.1, np.maximum(-r, 0) + 0.1
        return Point(beta, u, v, (self.tau - 0.5) * self.a, self.bounded.astype(float), 0.0)

    def distances(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the distances of the slopes from their upper and lower bounds."""
        return self.tau * self.a - z, (1 - self.tau) * self.a + z

    def products(self, at: Point) -> float:
        """Return the mean of u(τa − z), v((1−τ)a + z) and sβ: 0 at the optimum."""
        above, below = self.distances(at.z)
        total = at.u @ above + at.v @ below + at.s @ at.beta
        return float(total) / (2 * len(self.theta) + self.bounded.sum())

    def allowed(self, beta: np.ndarray) -> np.ndarray:
        """Return β with its sum made exact: by the constant column if that is in it, else by a factor."""
        if not self.total.any():
            return beta
        if self._eliminated:
            return np.r_[beta[:-1], (1 - self.total[:-1] @ beta[:-1]) / self.total[-1]]
        return np.where(self.bounded, beta / beta[self.bounded].sum(), beta)

    def loss(self, beta: np.ndarray) -> float:
        """Return the objective."""
        r = self.theta - self.X @ beta
        return float(self.a @ np.maximum(self.tau * r, (self.tau - 1) * r) + self.m @ beta**2 / 2)

    def lower_bound(self, at: Point) -> float:
        """Return a lower bound on the optimum from the slopes of a point; at least 0, as no loss is negative."""
        return max(self._dual(at), 0.0)

    def _dual(self, at: Point) -> float:
        """Return the least of θ·z − (Xᵀz)·β + ½ Σ m β² over the β allowed: a bound, as aρ(r) ≥ z r."""
        z = at.z
        if self._eliminated:  # Σ z = ν e up to rounding, which counts c times
            z = z + (at.nu * self.total[-1] - math.fsum(z)) / len(z)
        z = self._orthogonal(z)
        pull, ridged = self.X.T @ z, self.m > 0
        least = float(self.theta @ z)
        if self._eliminated:
            nu = math.fsum(z) / self.total[-1]
            least, pull = least - nu, pull - nu * self.total
        free = ridged & ~self.bounded
        least -= float((pull[free] ** 2 / self.m[free]).sum() / 2)
        if (
            self.total.any() and not self._eliminated
        ):  # a convex function lies above its tangent, and that is least at a vertex
            beta, m = self.allowed(at.beta)[self.bounded], self.m[self.bounded]
            return least - float(m @ beta**2 / 2) + float((m * beta - pull[self.bounded]).min())
        wanted = np.maximum(pull[self.bounded], 0.0)
        if (self.bounded & ridged).any():
            return least - float((wanted**2 / self.m[self.bounded]).sum() / 2)
        # Xᵀz ≤ 0 must hold, and does at the end up to rounding, which counts twice over; before that, no bound.
        excess = 2 * float(wanted @ at.beta[self.bounded])
        return least - excess if excess <= 1e-7 * max(abs(least), 1e-6) else -np.inf

    def _orthogonal(self, z: np.ndarray) -> np.ndarray:
        """Return z made orthogonal to the columns that are free and not penalised, and shrunk into its bounds.

        The bounds contain 0, so shrinking is always possible, and keeps z orthogonal.
        """
        basis = self._free_basis
        z = z - basis @ (basis.T @ z)
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = np.where(z > 0, z / (self.tau * self.a), -z / ((1 - self.tau) * self.a))
        return z / np.nanmax(excess, initial=1.0)

    @cached_property
    def _free_basis(self) -> np.ndarray:
        if self.certain is not None:
            return self.certain
        free = ~self.bounded & (self.m == 0)
        free[-1] &= not self._eliminated
        return np.linalg.qr(self.X[:, free])[0]

    @cached_property
    def _eliminated(self) -> bool:
        """Whether the last coefficient follows from the others by Σ e_k β_k = 1."""
        return not self.bounded[-1] and self.total[-1] != 0


class Conditions:
    """The optimality conditions linearised at a point, reduced to β, and solved for any products wanted."""

    def __init__(self, problem: Problem, at: Point) -> None:
        self.problem, self.at = problem, at
        self.above, self.below = problem.distances(at.z)
        bounded = problem.bounded
        positive = (self.above, self.below, at.u, at.v, at.beta[bounded], at.s[bounded])
        if not min(values.min(initial=np.inf) for values in positive) > 0:
            raise np.linalg.LinAlgError("rounding has put a variable on its bound")
        self.W = 1 / (at.u / self.above + at.v / self.below)
        self.ratio = np.where(bounded, at.s / np.where(bounded, at.beta, 1.0), 0.0)
        scaled = problem.X * np.sqrt(self.W)[:, None]
        system = scaled.T @ scaled  # NumPy computes half of a product AᵀA
        diagonal = np.diag(system) + problem.m
        # Regular also where columns are duplicates; not relative to the ratios, which grow without bound.
        np.fill_diagonal(system, diagonal + self.ratio + 1e-14 * diagonal.max())
        self.factor = scipy.linalg.cho_factor(system)

    def step(self, up: np.ndarray | float, vq: np.ndarray | float, sb: np.ndarray | float) -> Point:
        """Return the difference that takes u(τa − z), v((1−τ)a + z) and sβ to these values."""
        problem, at, bounded, total = self.problem, self.at, self.problem.bounded, self.problem.total
        to_u, to_v = up / self.above - at.u, vq / self.below - at.v
        to_s = np.where(bounded, sb / np.where(bounded, at.beta, 1.0) - at.s, 0.0)
        residual = problem.theta - problem.X @ at.beta - at.u + at.v - to_u + to_v
        right = problem.X.T @ (at.z + self.W * residual) - problem.m * at.beta + at.s - at.nu * total + to_s
        beta, nu = scipy.linalg.cho_solve(self.factor, right), 0.0
        if total.any():
            along = scipy.linalg.cho_solve(self.factor, total)
            nu = float((total @ (beta + at.beta) - 1) / (total @ along))
            beta = beta - nu * along
        z = self.W * (residual - problem.X @ beta)
        s = to_s - self.ratio * beta
        return Point(beta, to_u + at.u / self.above * z, to_v - at.v / self.below * z, z, s, nu)

    def reach(self, by: Point) -> tuple[float, float]:
        """Return how far primal and dual variables can go along a difference and stay positive (1 at most)."""
        at, bounded = self.at, self.problem.bounded
        primal = min(_length(at.u, by.u), _length(at.v, by.v), _length(at.beta[bounded], by.beta[bounded]))
        dual = min(_length(self.above, -by.z), _length(self.below, by.z), _length(at.s[bounded], by.s[bounded]))
        # With a ridge the dual conditions contain β, so both must move alike.
        together = min(primal, dual)
        return (together, together) if self.problem.m.any() else (primal, dual)


def _iterate(problem: Problem, tol: float, most: int) -> tuple[Point, int]:
    """Take predictor–corrector steps until the gap closes; return the point of least gap, and their number."""
    at = best = problem.start()
    least = np.inf
    for taken in range(most + 1):
        loss = problem.loss(problem.allowed(at.beta))
        gap = loss - problem.lower_bound(at)
        if gap < least:
            best, least = at, gap
        if least <= tol * max(abs(loss), 1e-6) or taken == most:
            return best, taken
        try:
            conditions = Conditions(problem, at)
        except np.linalg.LinAlgError:  # at the limit of what rounding allows
            return best, taken
        # Predictor: straight at the optimum. How far it gets says how much the corrector must centre.
        ahead = conditions.step(0.0, 0.0, 0.0)
        mu = problem.products(at)
        reached = problem.products(at.moved(ahead, *conditions.reach(ahead)))
        centre = mu * (max(reached, 0.0) / mu) ** 3
        # Corrector: the same with the predictor's second-order error taken off.
        step = conditions.step(
            centre + ahead.u * ahead.z, centre - ahead.v * ahead.z, centre - ahead.s * ahead.beta
        )
        at = at.moved(step, *conditions.reach(step))
    raise AssertionError("unreachable")


def _length(value: np.ndarray, step: np.ndarray) -> float:
    falling = step < 0
    # A thousandth of the way is left, so that nothing reaches its bound before the end.
    return min(1.0, 0.999 * float((-value[falling] / step[falling]).min(initial=np.inf)))
