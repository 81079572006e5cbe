r"""Would more stacking simulations help? The held-out loss against the number of rows fitted to, extrapolated.

Weights fitted to n rows lose, on fresh rows, about b/n against the best there are (for the log score
b = (active members − 1)/2): so the loss is a + b/n, and b/N is what N rows leave to gain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drystone.advice.refit import Problem
from drystone.estimate import split_folds

__all__ = ["FRACTIONS", "LearningCurve", "learning_curve"]

# Shares of the rows that are fitted to. Fewer would leave the range where the loss is a + b/n.
FRACTIONS = (0.25, 0.5, 1.0)


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Held-out loss against the number of rows the weights were fitted to.

    Attributes:
        rows: how many, (F,).
        loss: mean held-out loss, (F,).
        N: rows at hand.
        left: b/N: what infinitely many rows would gain over N.
        left_se: its standard error, over folds.
    """

    rows: np.ndarray
    loss: np.ndarray
    N: int
    left: float
    left_se: float


def learning_curve(asked: Problem, *, repeats: int = 4, folds: int = 5, seed: int = 0) -> LearningCurve:
    """Fit to parts of the rows, judge on others, and extrapolate.

    Args:
        asked: form, score and rows.
        repeats: random parts of each size and fold.
        folds: of the cross-validation.
        seed: of folds and parts.
    """
    rng, table = np.random.default_rng(seed), asked.table
    losses, rows = [], []
    for fitted, left_out in split_folds(table.N, folds, seed):
        test = table.select(rows=left_out)
        rows = [max(2, round(fraction * len(fitted))) for fraction in FRACTIONS]
        whole = asked.part(rows=fitted).loss_on(test)
        parts = [rng.permutation(fitted) for _ in range(repeats)]
        of_parts = [[asked.part(rows=np.sort(part[:n])).loss_on(test) for n in rows[:-1]] for part in parts]
        losses.append([*np.mean(of_parts, 0), whole])
    n, loss = np.array(rows, float), np.array(losses)
    # Least squares of a + b/n in each fold: all its losses are of the same rows, so a is the fold's own.
    x = 1 / n - (1 / n).mean()
    b = loss @ x / (x @ x)
    with np.errstate(invalid="ignore"):  # a density of 0 somewhere: nothing to extrapolate
        left, left_se = b.mean() / table.N, b.std(ddof=1) / np.sqrt(folds) / table.N
    return LearningCurve(n.astype(int), loss.mean(0), table.N, float(left), float(left_se))
