r"""Held-out loss against the number of rows fitted to, extrapolated: would more stacking simulations help?

Weights fitted to n rows lose, on fresh rows, about b/n against the best weights (for the log score
b = (active members − 1)/2): so the loss is a + b/n, and b/N is the gain that N rows leave.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drystone.advice.refit import Problem
from drystone.estimate import Estimate, mean_over_folds, split_folds

__all__ = ["FRACTIONS", "LearningCurve", "learning_curve"]

# Shares of the rows to fit to. Fewer would leave the range where the loss is a + b/n.
FRACTIONS = (0.25, 0.5, 1.0)


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Held-out loss against the number of rows the weights were fitted to.

    Attributes:
        rows: numbers of rows, (F,).
        loss: mean held-out loss, (F,).
        N: number of all rows.
        left: b/N, the gain of infinitely many rows over N; its standard error is over folds.
    """

    rows: np.ndarray
    loss: np.ndarray
    N: int
    left: Estimate


def learning_curve(problem: Problem, *, repeats: int = 4, folds: int = 5, seed: int = 0) -> LearningCurve:
    """Fit to parts of the rows, evaluate on others, and extrapolate.

    Args:
        problem: form, score and rows.
        repeats: random parts of each size and fold.
        folds: of the cross-validation.
        seed: of folds and parts.
    """
    rng, table = np.random.default_rng(seed), problem.table
    losses, rows = [], []
    for fitted, held_out in split_folds(table.N, folds, seed):
        test = table.select(rows=held_out)
        rows = [max(2, round(fraction * len(fitted))) for fraction in FRACTIONS]
        whole = problem.part(rows=fitted).loss_on(test)
        parts = [rng.permutation(fitted) for _ in range(repeats)]
        of_parts = [[problem.part(rows=np.sort(part[:n])).loss_on(test) for n in rows[:-1]] for part in parts]
        losses.append([*np.mean(of_parts, 0), whole])
    n, loss = np.array(rows, float), np.array(losses)
    # Least squares of a + b/n in each fold: all its losses are of the same rows, so a is the fold's own.
    x = 1 / n - (1 / n).mean()
    b = loss @ x / (x @ x)
    return LearningCurve(n.astype(int), loss.mean(0), table.N, mean_over_folds(b / table.N))
