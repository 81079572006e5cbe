"""How much of each score in a hybrid: by cross-validation within the rows at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from drystone.estimate import mean_over_folds, split_folds
from drystone.forms import Form, Mixture
from drystone.scores import LogScore, Score
from drystone.stacking.checks import check_provided, check_tractable, required_statistics
from drystone.stacking.result import Stacking
from drystone.stacking.stack import stack
from drystone.table import Table, blocks
from drystone.table.nonfinite import drop_zero_weight_rows

__all__ = ["Tuned", "tune"]


@dataclass(frozen=True, eq=False)
class Tuned:
    """The chosen strength, and how the others did.

    Attributes:
        value: the strength with the least metric.
        fit: the stacking with that strength, on all rows.
        frame: one row per strength: value, metric (mean over folds), se (over folds).

    Example:
        >>> import drystone as ds
        >>> def score(strength): return ds.LogScore() + strength * ds.EnergyScore()
        >>> tuned = ds.tune(ds.toy.table(100, seed=1), score, [0.0, 1.0, 10.0], folds=2)
        >>> list(tuned.frame.columns), tuned.fit.score == score(tuned.value)
        (['value', 'metric', 'se'], True)
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
    check_tractable(form, metric)
    check_provided(table, form, metric)
    scores = [make(value) for value in grid]
    needs = frozenset().union(*(required_statistics(form, score) for score in (metric, *scores)))
    table = blocks.derived(drop_zero_weight_rows(table), needs)
    losses, shares = np.empty((len(grid), folds)), np.empty(folds)
    for fold, (fit_rows, left_out) in enumerate(split_folds(table.N, folds, seed)):
        fitted_on, judged_on = blocks.part(table, rows=fit_rows), blocks.part(table, rows=left_out)
        shares[fold] = table.row_weights[left_out].sum()
        for i, score in enumerate(scores):
            fit = stack(fitted_on, form, score, seed=seed)
            losses[i, fold] = fit.evaluate(judged_on, metric)["loss"]
    average = [mean_over_folds(row, shares) for row in losses]
    values = np.array([estimate.value for estimate in average])
    if not np.isfinite(values).any():
        raise ValueError(
            f"the metric {metric!r} is not finite for any value of the grid: some left-out row is impossible for "
            "every stack. Use more rows, fewer folds, or a metric that stays finite."
        )
    errors = [estimate.se for estimate in average]
    frame = pd.DataFrame({"value": list(grid), "metric": values, "se": errors})
    best = int(np.nanargmin(values))
    return Tuned(grid[best], stack(table, form, scores[best], seed=seed), frame)
