r"""Honest numbers: stacked against the best single member and uniform weights, on rows that nothing was fitted to.

The best member is chosen *for each metric on the validation rows*; every value and every gain is measured on the
test rows, with standard errors. Gains are paired (same rows), which is what makes small ones visible.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drystone._parallel import one_thread
from drystone.comparison.methods import BEST, UNIFORM, Fits, able, missing, name_fits, single, uniform
from drystone.comparison.metric import METRICS, Metric
from drystone.comparison.result import Comparison, MethodResult, MetricResult
from drystone.estimate import Estimate, bootstrap_weights, standard_error
from drystone.forms import Mixture, View
from drystone.scores import EnergyScore, LogScore, Score
from drystone.scores.score import row_scores
from drystone.stacking.result import Stacking
from drystone.stacking.stack import stack
from drystone.table import Statistic, Table
from drystone.table.nonfinite import count_nonfinite, drop_zero_weight_rows, name_members

__all__ = ["compare"]

# Bootstrap samples of the rows behind the standard error of a metric that is not a mean over rows.
BOOTSTRAP = 200


def compare(
    validation: Table,
    test: Table,
    fits: Fits = None,
    *,
    metrics: Sequence[Metric] = METRICS,
    seed: int = 0,
) -> Comparison:
    """Compare stackings with the best single member and with uniform weights.

    Args:
        validation: rows on which the best member is chosen, for each metric (and stacked, if ``fits`` is None).
        test: untouched rows on which everything is measured.
        fits: stackings by name; None for one by the log score (by energy if the table has no densities).
        metrics: what to compare by; those that the tables cannot give are skipped. A score of your own becomes one
            by ``Metric(MyScore())``.
        seed: of the bootstrap behind standard errors of ranks and coverage.
    """
    if set(validation.names) != set(test.names):
        raise ValueError("`validation` and `test` must have the same members.")
    names = [metric.name for metric in metrics]
    if duplicated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"names of `metrics` must be unique; duplicated: {', '.join(duplicated)}.")
    validation = drop_zero_weight_rows(validation.select(members=list(test.names)))
    test = drop_zero_weight_rows(test)
    if fits is None:
        score: Score = LogScore() if "log_q" in validation.gives else EnergyScore()
        fits = stack(validation, Mixture(), score)
    fits = name_fits(fits)
    for name, table in (("validation", validation), ("test", test)):
        _warn_of_nonfinite(name, table, frozenset().union(*(metric.needs for metric in metrics)) & table.gives)
    # The same samples for every method: that is what makes the gains paired.
    weightings = np.stack(list(bootstrap_weights(test.row_weights, BOOTSTRAP, seed)))
    results, skipped = [], {}
    # A density of 0 has no finite spread, and two of them no difference: NaN, without a warning.
    with torch.no_grad(), one_thread(), np.errstate(invalid="ignore"):
        for metric in metrics:
            try:
                results.append(_compare_by(metric, validation, test, fits, weightings))
            except ValueError as error:  # the table lacks levels, draws or densities
                skipped[metric.name] = str(error)
    if not results:
        raise ValueError(f"no metric can be computed from these tables: {skipped}.")
    return Comparison(tuple(results), fits, test.N, skipped)


def _warn_of_nonfinite(name: str, table: Table, statistics: Collection[str]) -> None:
    """Name the members that cannot be compared, so that an undefined number is no riddle."""
    for statistic, counts in zip(statistics, count_nonfinite(table, list(statistics))[0], strict=True):
        if counts.any():
            warnings.warn(
                f"`{statistic}` of the {name} rows is NaN or infinite for {name_members(table, counts)}: numbers "
                "that rest on it are NaN. Leave them out with table.select(members=...).",
                stacklevel=3,
            )


def _compare_by(
    metric: Metric, validation: Table, test: Table, fits: Mapping[str, Stacking], weightings: np.ndarray
) -> MetricResult:
    """Compare all methods by one metric."""
    for table in (validation, test):
        if not metric.needs <= table.gives:
            raise ValueError(f"needs {', '.join(sorted(metric.needs))}; the table gives {', '.join(table.gives)}.")
    chosen = _best_member(metric, validation)
    references = single(test, chosen), uniform(test, metric.needs)
    best, even = (_measure(metric, view, weightings) for view in references)
    measured, skipped = {BEST: best, UNIFORM: even}, {}
    for name, fit in fits.items():
        if lacking := missing(fit, test, metric.needs):
            skipped[name] = f"{type(fit.form).__name__} does not give {', '.join(lacking)} on these rows."
            continue
        try:
            measured[name] = _measure(metric, fit.view(test), weightings)
        except ValueError as error:  # aggregated intervals exist at the levels they were fitted at
            skipped[name] = str(error)
    lines = {
        name: MethodResult(
            name,
            this.estimate,
            None if name == BEST else this.gain_over(best),
            None if name == UNIFORM else this.gain_over(even),
            test.names[chosen] if name == BEST else "",
        )
        for name, this in measured.items()
    }
    floor = metric.floor(test.effective_rows) if metric.floor else None
    return MetricResult(metric, test.names[chosen], lines, floor, skipped)


def _best_member(metric: Metric, validation: Table) -> int:
    """Return the member with the lowest score on the validation rows."""
    has = able(validation, metric.needs)
    scores = [float(metric.score(single(validation, k))) if has[k] else np.nan for k in range(validation.K)]
    if np.isnan(scores).all():
        raise ValueError(f"no member has a finite {metric.name} on the validation rows.")
    return int(np.nanargmin(scores))


@dataclass(frozen=True, eq=False)
class _Measured:
    """A metric of one method, and its spread.

    Attributes:
        metric: what was measured.
        value: on the test rows.
        spread: values of the rows, (N,), or values on bootstrap samples, (B,).
        by_row: whether it is the former: whether the metric is a mean over rows.
        row_weights: a_n, (N,).
    """

    metric: Metric
    value: float
    spread: np.ndarray
    by_row: bool
    row_weights: np.ndarray

    @property
    def estimate(self) -> Estimate:
        """The value with its standard error."""
        return Estimate(self.value, self._error(self.spread))

    def gain_over(self, other: _Measured) -> Estimate:
        """Return how much better this is than ``other``, with the standard error of the paired difference."""
        return Estimate(self.metric.sign * (other.value - self.value), self._error(self.spread - other.spread))

    def _error(self, spread: np.ndarray) -> float:
        """Return the standard error of a mean over rows, or over bootstrap samples; NaN of a single row."""
        if self.by_row:
            return standard_error(spread, self.row_weights)
        return float("nan") if self.row_weights.max() >= 1 else float(np.std(spread, ddof=1))


def _measure(metric: Metric, view: View, weightings: np.ndarray) -> _Measured:
    """Return the metric of a view on its rows, with the values that its standard error is computed from."""
    a, rows = view.row_weights.numpy(), row_scores(metric.score, view)
    if rows is not None:
        values = metric.sign * rows.numpy()
        return _Measured(metric, float(a @ values), values, True, a)
    cached = _CachedView(view)
    value = metric.sign * float(metric.score(cached))
    samples = [float(metric.score(cached.reweighted(torch.as_tensor(weights)))) for weights in weightings]
    return _Measured(metric, value, metric.sign * np.array(samples), False, a)


class _CachedView(View):
    """A view that computes each statistic once, whatever its row weights are changed to."""

    def __init__(self, view: View, cache: dict[Hashable, Any] | None = None) -> None:
        super().__init__(view.table, view.softness)
        self._view, self._cache = view, {} if cache is None else cache
        self.S = view.S

    def reweighted(self, a: Tensor) -> _CachedView:
        """Return the same posterior with other row weights, (N,)."""
        other = _CachedView(self._view, self._cache)
        other.row_weights = a
        return other

    def __getattr__(self, name: str) -> Any:
        """Look up statistics that a form of the user's own gives beyond those below."""
        return getattr(self._view, name)

    def draws_behind_rank(self) -> Tensor | None:
        """Return how many draws each rank is worth."""
        return self._view.draws_behind_rank()

    def log_q(self) -> Tensor:
        """Return log densities, (N,)."""
        return self._once("log_q", self._view.log_q)

    def rank(self, statistic: Statistic | None = None) -> Tensor:
        """Return ranks, (N, d)."""
        return self._once(("rank", statistic), lambda: self._view.rank(statistic))

    def mean(self) -> Tensor:
        """Return means, (N, d)."""
        return self._once("mean", self._view.mean)

    def cov(self) -> Tensor:
        """Return covariances, (N, d, d)."""
        return self._once("cov", self._view.cov)

    def interval(self, alpha: float) -> Tensor:
        """Return ends of intervals, (N, d, 2)."""
        return self._once(("interval", alpha), lambda: self._view.interval(alpha))

    def draws(self, n: int | None = None, seed: int = 0) -> Tensor:
        """Return draws, (N, n, d)."""
        return self._once(("draws", n, seed), lambda: self._view.draws(n, seed))

    def distances(self, most: int, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Return distances averaged over the rows: two scalars."""
        to_truth, spread = self.distances_by_row(most, scale)
        return self.average(to_truth), self.average(spread)

    def distances_by_row(self, most: int, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Return distances of each row: (N,), (N,)."""
        key = ("distances", most, *scale.tolist())
        return self._once(key, lambda: self._view.distances_by_row(most, scale))

    def _once(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        if key not in self._cache:
            self._cache[key] = compute()
        return self._cache[key]
