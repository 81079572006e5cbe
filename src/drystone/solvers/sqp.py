r"""Mixture × log score, exactly: sequential quadratic programming (Kim, Carbonetto, Stephens & Anitescu 2020).

.. math::
    f(w) = -\sum_n a_n \log \sum_k w_k L_{kn}, \qquad L_{kn} = q_{kn} / \max_k q_{kn}

Convex, with f(w) − f* ≤ max_k g_k − 1, g_k = Σ_n a_n L_kn / (wL)_n: the certificate every fit carries, in nats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drystone.forms import Form, Mixture
from drystone.scores import LogScore, Score
from drystone.solvers.newton import Barrier, newton_simplex, without_crumbs
from drystone.solvers.solver import Solution, Solver
from drystone.table import Table

__all__ = ["SQP", "LogLoss", "log_loss"]

# Multiplicative steps before the first Newton step: enough to leave the flat region around uniform weights.
WARM_UP = 8
# Members that start with weight, of a large K: at the optimum a few tens carry any.
STARTERS = 64


class LogLoss:
    """f above, on density ratios L (K, N) with row weights a (N,)."""

    def __init__(self, L: np.ndarray, a: np.ndarray) -> None:
        self.L, self.a = L, a
        self._last: tuple[np.ndarray, np.ndarray] | None = None

    def value(self, w: np.ndarray) -> float:
        """−Σ_n a_n log (wL)_n."""
        with np.errstate(divide="ignore"):
            return -float(self.a @ np.log(self._mixed(w)))

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """−g."""
        return -(self.L @ (self.a / self._mixed(w)))

    def hessian(self, w: np.ndarray, members: np.ndarray) -> np.ndarray:
        """Σ_n a_n (L_n / (wL)_n)(L_n / (wL)_n)ᵀ."""
        scaled = self.L[members]
        scaled *= np.sqrt(self.a) / self._mixed(w)  # in place: a second copy would be most of the memory
        return scaled @ scaled.T

    def multiplied(self, w: np.ndarray) -> np.ndarray:
        """w ∘ g: the paper's multiplicative gradient, which is an EM step."""
        w = w * -self.gradient(w)
        return w / w.sum()

    def _mixed(self, w: np.ndarray) -> np.ndarray:
        """wL; value, gradient and Hessian are asked for at the same w one after the other."""
        if self._last is None or self._last[0] is not w:
            support = np.flatnonzero(w)
            few = len(support) < len(w) // 2
            self._last = w, w[support] @ self.L[support] if few else w @ self.L
        return self._last[1]


@dataclass(frozen=True, repr=False)
class SQP(Solver):
    """Newton steps with an active-set quadratic programme each, after a few multiplicative ones.

    Args:
        steps: at most so many Newton steps.
    """

    solves: ClassVar = ((Mixture, LogScore),)
    certifies: ClassVar = True
    steps: int = 200

    def _solve(self, table: Table, form: Form, score: Score, tol: float, seed: int) -> Solution:
        """The optimal weights and their certificate."""
        assert isinstance(form, Mixture)
        loss = log_loss(table)
        w = np.full(table.K, 1 / table.K)
        for _ in range(WARM_UP):
            w = loss.multiplied(w)
        c = form.pseudocount(table)
        if c > 0:
            # Off the boundary, where the barrier is infinite: some multiplicative weights may have underflowed.
            minimum = newton_simplex(Barrier(loss, c), 0.9 * w + 0.1 / table.K, tol, self.steps)
        else:
            minimum = newton_simplex(loss, _starters(w, loss.L), tol, self.steps)
            minimum = without_crumbs(loss, minimum, tol)
        return Solution.certified(minimum, tol)


def log_loss(table: Table) -> LogLoss:
    """The problem of a table, after the rows' maxima are taken out."""
    ratios = table.log_q - table.log_q.max(0)
    return LogLoss(np.exp(ratios, out=ratios), table.row_weights)  # in place: the one copy of the densities


def _starters(w: np.ndarray, L: np.ndarray) -> np.ndarray:
    """w cut down to its largest entries, and to the members that explain the rows which those hardly explain."""
    if len(w) <= 2 * STARTERS:
        return w
    keep = np.zeros(len(w), bool)
    keep[np.argsort(w)[-STARTERS:]] = True
    lost = np.flatnonzero((w * keep) @ L < 1e-2 * (w @ L))
    keep[(w[:, None] * L[:, lost]).argmax(0)] = True
    w = np.where(keep, w, 0.0)
    return w / w.sum()
