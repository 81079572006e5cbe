"""How much of each score in a hybrid: by cross-validation within the rows at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from drystone.folds import split_folds
from drystone.forms import Form, Mixture
from drystone.scores import LogScore, Score
from drystone.stack import stack
from drystone.stacking import Stacking
from drystone.table import Table

__all__ = ["Tuned", "tune"]


@dataclass(frozen=True, eq=False)
class Tuned:
    """The chosen strength, and how the others did.

    Attributes:
        value: the strength with the least metric.
        fit: the stacking with that strength, on all rows.
        frame: a row a strength: value, metric (mean over folds), se (over folds).
    """

    value: float
    fit: Stacking
    frame: pd.DataFrame


def tune(
    table: Table,
    make: Callable[[float], Score],
    grid: Sequence[float],
    *,
    folds: int = 5,
    metric: Score = LogScore(),
    form: Form = Mixture(),
    seed: int = 0,
) -> Tuned:
    """Choose λ in a score ``make(λ)`` by its metric on rows left out of the fit.

    Args:
        table: the rows to fit and validate on; keep others for testing.
        make: λ to a score, such as ``lambda lam: LogScore() + lam * RankCvM()``.
        grid: values of λ to try.
        folds: of the cross-validation.
        metric: what the left-out rows are judged by.
        form: how members are combined.
        seed: of the folds and of the solvers.

    Example:
        >>> import drystone as ds
        >>> tuned = tune(ds.toy.table(300), lambda lam: ds.LogScore() + lam * ds.RankCvM(), [0.0, 1.0, 10.0])
        >>> len(tuned.frame), tuned.value in (0.0, 1.0, 10.0)
        (3, True)
    """
    if len(grid) == 0:
        raise ValueError("`grid` must hold at least one value; got none.")
    parts = [(table.select(rows=a), table.select(rows=b)) for a, b in split_folds(table.N, folds, seed)]
    losses = np.array([[_judged(part, form, make(value), metric, seed) for part in parts] for value in grid])
    frame = pd.DataFrame(
        {"value": list(grid), "metric": losses.mean(1), "se": losses.std(1, ddof=1) / np.sqrt(folds)}
    )
    best = grid[int(losses.mean(1).argmin())]
    return Tuned(best, stack(table, form, make(best), seed=seed), frame)


def _judged(part: tuple[Table, Table], form: Form, score: Score, metric: Score, seed: int) -> float:
    fitted_on, left_out = part
    return float(metric(stack(fitted_on, form, score, seed=seed).view(left_out)))
