r"""Mixture × log score, exactly: sequential quadratic programming (Kim, Carbonetto, Stephens & Anitescu 2020).

.. math::
    f(w) = -\sum_n a_n \log \sum_k w_k L_{kn}, \qquad L_{kn} = q_{kn} / \max_k q_{kn}

Convex, with f(w) − f* ≤ max_k g_k − 1, g_k = Σ_n a_n L_kn / (wL)_n: the certificate every fit carries, in nats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from drystone.forms import Mixture
from drystone.scores import LogScore
from drystone.solvers.simplex.newton import Barrier, Problem, drop_negligible_weights, newton_simplex
from drystone.solvers.simplex.row_sum import RowSum, coarse
from drystone.solvers.solver import Solution, Solver, Status
from drystone.table import Table, blocks

__all__ = ["SQP", "Multiplicative", "log_loss"]


@dataclass(frozen=True, repr=False)
class Multiplicative(Solver[Mixture, LogScore]):
    """The paper's multiplicative gradient w ← w ∘ g (EM). Slow to converge; it says how far it got.

    Args:
        steps: at most so many.

    Example:
        >>> import drystone as ds
        >>> table = ds.toy.table(200, seed=1)
        >>> slow = ds.stack(table, solver=ds.solvers.Multiplicative(steps=10_000), tol=1e-4)
        >>> exact = ds.stack(table)
        >>> 0 <= slow.loss - exact.loss <= slow.gap <= 1e-4, slow.iterations > 10 * exact.iterations
        (True, True)
    """

    solves: ClassVar = ((Mixture, LogScore),)
    certifies: ClassVar = True
    streams: ClassVar = True
    steps: int = 1000

    def minimize(self, table: Table, form: Mixture, score: LogScore, tol: float, seed: int) -> Solution:
        """Return the weights after the last step and their certificate."""
        loss, c = log_loss(table), form.pseudocount(table)
        w, taken, gap = np.full(table.K, 1 / table.K), 0, np.inf
        for taken in range(self.steps + 1):
            pull = -loss.gradient(w) + c / w if c > 0 else -loss.gradient(w)
            # Σ_k w_k pull_k = 1 + cK at any w; at the optimum every pull is at most that.
            gap = float(pull.max() - (1 + c * table.K))
            if gap <= tol or taken == self.steps:
                break
            w = w * pull
            w /= w.sum()
        status = Status.of(gap, tol, certified=True, at_limit=True)
        return Solution({"weights": w}, max(gap, 0.0), max(gap, 0.0), status, taken)


# Multiplicative steps before the first Newton step: enough to leave the flat region around uniform weights.
WARM_UP = 8
# Members that start with weight, of a large K: at the optimum a few tens carry any.
INITIAL_SUPPORT = 64


@dataclass(frozen=True, repr=False)
class SQP(Solver[Mixture, LogScore]):
    """Newton steps with an active-set quadratic program each, after a few multiplicative ones.

    Args:
        steps: at most so many Newton steps.

    Example:
        >>> import drystone as ds
        >>> fit = ds.stack(ds.toy.table(200, seed=1), solver=ds.solvers.SQP(steps=50))
        >>> fit.status.name, fit.gap < 1e-8, fit.iterations < 50
        ('CERTIFIED', True, True)
    """

    solves: ClassVar = ((Mixture, LogScore),)
    certifies: ClassVar = True
    streams: ClassVar = True
    steps: int = 200

    def minimize(self, table: Table, form: Mixture, score: LogScore, tol: float, seed: int) -> Solution:
        """Return the optimal weights and their certificate."""
        loss, c = log_loss(table), form.pseudocount(table)
        few = coarse(table, score.needs)
        if few is not None:
            of_few = self.minimize(few, form, score, max(tol, 1e-6), seed).params["weights"]
            w = 0.999 * of_few + 0.001 / table.K  # the rows left out must not rule out a member
        else:
            w = np.full(table.K, 1 / table.K)
            for _ in range(WARM_UP):
                w = multiplied(loss, w)
        if c > 0:
            # Off the boundary, where the barrier is infinite: some multiplicative weights may have underflowed.
            start = w if few is not None else 0.9 * w + 0.1 / table.K
            minimum = newton_simplex(Barrier(loss, c), start, tol, self.steps)
        else:
            minimum = newton_simplex(loss, _initial_support(w, loss.table), tol, self.steps)
            minimum = drop_negligible_weights(loss, minimum, tol)
        return Solution.certified(minimum, tol, self.steps)


def log_loss(table: Table) -> RowSum:
    """Return the problem of a table."""
    return RowSum(blocks.with_own_cache(table), _derivatives, 1)


def multiplied(loss: Problem, w: np.ndarray) -> np.ndarray:
    """Return w ∘ g, normalized: the paper's multiplicative gradient, which is an EM step."""
    w = w * -loss.gradient(w)
    return w / w.sum()


def _derivatives(block: Table, w: np.ndarray, orders: range, members: np.ndarray) -> tuple[Any, ...]:
    """Return −Σ_n a_n log (wL)_n; −g; Σ_n a_n (L_n / (wL)_n)(L_n / (wL)_n)ᵀ."""
    L, a, mixed = _ratios(block), block.row_weights, _mixed(block, w)
    found: list[Any] = []
    if 0 in orders:
        with np.errstate(divide="ignore"):
            found.append(-float(a @ np.log(mixed)))
    if 1 in orders:
        found.append(-(L @ (a / mixed)))
    if 2 in orders:
        scaled = L[members]
        scaled *= np.sqrt(a) / mixed  # in place: a second copy would be most of the memory
        found.append(scaled @ scaled.T)
    return tuple(found)


def _ratios(block: Table) -> np.ndarray:
    """Return L, (K, N): the densities after the rows' maxima are taken out; computed once per table."""
    return blocks.cached(block, _exponentials)


def _exponentials(block: Table) -> np.ndarray:
    L = block.log_q - block.log_q.max(0)
    return np.exp(L, out=L)  # in place: the one copy of the densities


def _mixed(block: Table, w: np.ndarray) -> np.ndarray:
    """Return wL, (N,), remembered for the last w: value, gradient and Hessian follow one another."""
    last = blocks.cached(block, _last_mixed)
    if not last or last[0] is not w:
        L, support = _ratios(block), np.flatnonzero(w)
        last[:] = w, w[support] @ L[support] if len(support) < len(w) // 2 else w @ L
    return last[1]


def _last_mixed(block: Table) -> list[np.ndarray]:
    """Return a place for the last w and its wL, which is empty at first."""
    return []


def _initial_support(w: np.ndarray, table: Table) -> np.ndarray:
    """Return w cut down to its largest entries and the members that explain rows which those hardly explain."""
    if len(w) <= 2 * INITIAL_SUPPORT:
        return w
    keep = np.zeros(len(w), bool)
    keep[np.argsort(w)[-INITIAL_SUPPORT:]] = True
    (explaining,) = blocks.total(table, _explaining, w, keep)
    w = np.where(keep | (explaining > 0), w, 0.0)
    return w / w.sum()


def _explaining(block: Table, w: np.ndarray, keep: np.ndarray) -> tuple[np.ndarray]:
    """Return how many of the rows that the kept members hardly explain each member explains best, (K,)."""
    of_kept, of_all = _mixed(block, w * keep), _mixed(block, w)
    lost = np.flatnonzero(of_kept < 1e-2 * of_all)
    best = (w[:, None] * _ratios(block)[:, lost]).argmax(0)
    return (np.bincount(best, minlength=len(w)),)
