r"""Mixture × log score as the paper solves it: multiplicative gradient steps, which are those of the EM algorithm.

.. math::
    w_k \leftarrow w_k g_k, \qquad g_k = \sum_n a_n \frac{q_{kn}}{\sum_j w_j q_{jn}}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drystone.forms import Form, Mixture
from drystone.scores import LogScore, Score
from drystone.solvers.solver import Solution, Solver
from drystone.solvers.sqp import log_loss
from drystone.table import Table

__all__ = ["Multiplicative"]


@dataclass(frozen=True, repr=False)
class Multiplicative(Solver):
    """The paper's multiplicative gradient w ← w ∘ g (EM). Slow to converge; it says how far it got.

    Args:
        steps: at most so many.
    """

    solves: ClassVar = ((Mixture, LogScore),)
    certifies: ClassVar = True
    streams: ClassVar = True
    steps: int = 1000

    def _solve(self, table: Table, form: Form, score: Score, tol: float, seed: int) -> Solution:
        """The weights after the last step and their certificate."""
        assert isinstance(form, Mixture)
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
        return Solution({"weights": w}, max(gap, 0.0), max(gap, 0.0), gap <= tol, taken)
