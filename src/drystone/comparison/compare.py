r"""Honest numbers: stacked against the best single member and uniform weights, on rows that nothing was fitted to.

The best member is chosen *for each metric on the validation rows*; every value and every gain is measured on the
test rows, with standard errors. Gains are paired (same rows), which is what makes small ones visible. Every method
is looked at through as many draws per row as each member has (:mod:`drystone.comparison.drawn`).
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from drystone._arrays import shared_rows
from drystone._messages import first_few
from drystone._parallel import one_thread
from drystone.comparison.drawn import DrawnView
from drystone.comparison.methods import (
    BEST,
    UNIFORM,
    UNIFORM_ENDS,
    Fits,
    UniformEnds,
    able,
    drawn,
    missing,
    name_fits,
    single,
    uniform_fit,
)
from drystone.comparison.metric import LOG_DENSITY, METRICS, Metric
from drystone.comparison.result import Comparison, MethodResult, MetricResult
from drystone.estimate import Estimate, half_sample_error, half_samples, standard_error
from drystone.forms import Mixture, View
from drystone.scores import EnergyScore, LogScore, Score
from drystone.scores.score import row_scores
from drystone.stacking.result import Stacking
from drystone.stacking.stack import stack
from drystone.table import Table, blocks
from drystone.table.nonfinite import count_nonfinite, drop_zero_weight_rows, name_members

__all__ = ["compare"]

# Halves of the rows behind the standard error of a metric that is not a mean over rows.
HALVES = 100


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
        seed: of the choice among the members' draws, and of the halves of the rows behind standard errors of
            ranks and coverage.

    Example:
        >>> import drystone as ds
        >>> validation, test = ds.toy.table(200, seed=1), ds.toy.table(200, seed=2)
        >>> fits = {"log": ds.stack(validation), "energy": ds.stack(validation, score=ds.EnergyScore())}
        >>> comparison = ds.compare(validation, test, fits)
        >>> for name, method in comparison.of("log density").methods.items():
        ...     print(name, method.value)
        best -2.10 ± 0.16
        uniform -1.581 ± 0.031
        log -1.542 ± 0.058
        energy -1.542 ± 0.058
    """
    for name, table in (("validation", validation), ("test", test)):
        if not isinstance(table, Table):
            kind = type(table).__name__
            raise TypeError(f"`{name}` must be a Table; got {kind}. Give ds.compare(validation, test, fits).")
    if differing := sorted(set(validation.names) ^ set(test.names)):
        raise ValueError(
            f"`validation` and `test` must have the same members; only one of the two has {first_few(differing)}."
        )
    names = [metric.name for metric in metrics]
    if duplicated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"names of `metrics` must be unique; duplicated: {', '.join(duplicated)}.")
    shared = test.N if validation is test else shared_rows(validation.theta, test.theta)
    if shared and validation is not test:
        warnings.warn(
            f"{shared} of {test.N} test rows are validation rows, too, so that values are optimistic. Split the "
            "rows with table.split(), or simulate anew.",
            stacklevel=2,
        )
    validation = drop_zero_weight_rows(validation.select(members=list(test.names)))
    test = drop_zero_weight_rows(test)
    if fits is None:
        score: Score = LogScore() if "log_q" in validation.gives else EnergyScore()
        fits = stack(validation, Mixture(), score)
    fits = name_fits(fits)
    for name, table in (("validation", validation), ("test", test)):
        _warn_of_nonfinite(name, table, frozenset().union(*(metric.needs for metric in metrics)) & table.gives)
    results, skipped = [], {}
    # A density of 0 has no finite spread, and two of them no difference: NaN, without a warning.
    with torch.no_grad(), one_thread(), np.errstate(invalid="ignore"):
        alone = _member_scores(metrics, validation)
        rows = _TestRows(test, fits, seed)
        by_log_density = _best_by_log_density(alone)
        for metric in metrics:
            try:
                results.append(_compare_by(metric, alone[metric.name], rows, by_log_density))
            except ValueError as error:  # the table lacks levels, draws or densities
                skipped[metric.name] = str(error)
    if not results:
        raise ValueError(f"no metric can be computed from these tables: {skipped}.")
    return Comparison(tuple(results), fits, test.N, not shared, skipped)


def _warn_of_nonfinite(name: str, table: Table, statistics: Collection[str]) -> None:
    """Name the members that cannot be compared, so that an undefined number is no riddle."""
    # What follows from draws is finite where these are.
    looked_at = sorted({need if blocks.held(table, need) else "draws" for need in statistics})
    for statistic, counts in zip(looked_at, count_nonfinite(table, looked_at)[0], strict=True):
        if counts.any():
            warnings.warn(
                f"`{statistic}` of the {name} rows is NaN or infinite for {name_members(table, counts)}: numbers "
                "that rest on it are NaN. Leave them out with table.select(members=...).",
                stacklevel=3,
            )


def _member_scores(metrics: Sequence[Metric], validation: Table) -> dict[str, np.ndarray | ValueError]:
    """Return the score of each member on the validation rows, (K,), by metric; or why there is none.

    One member after the other, so that what is derived from its draws serves all metrics and is then forgotten.
    """
    scores: dict[str, np.ndarray | ValueError] = {metric.name: np.empty(validation.K) for metric in metrics}
    for metric in metrics:
        if not metric.needs <= validation.gives:
            scores[metric.name] = _lacks(metric, validation)
    has = {metric.name: able(validation, metric.needs) for metric in metrics}
    for k in range(validation.K):
        view = single(validation, k)
        for metric in metrics:
            values = scores[metric.name]
            if not isinstance(values, np.ndarray):
                continue
            if not has[metric.name][k]:
                values[k] = np.nan
                continue
            try:
                values[k] = float(metric.score(view))
            except ValueError as error:
                scores[metric.name] = error
    return scores


def _lacks(metric: Metric, table: Table) -> ValueError:
    needs, gives = (", ".join(sorted(statistics)) for statistics in (metric.needs, table.gives))
    return ValueError(f"needs {needs}; the table gives {gives}.")


class _TestRows:
    """The test rows, and the methods on them, each made once for all metrics.

    Attributes:
        table: the rows.
        fits: the stackings by name.
        weightings: row weights of half-samples, (2B, N): the same for every method, which pairs the gains.
        views: the fits.
        uniform_ends: uniform weights of aggregated intervals.
    """

    def __init__(self, table: Table, fits: Mapping[str, Stacking], seed: int) -> None:
        self.table, self.fits, self.seed = table, fits, seed
        self.weightings = half_samples(table.row_weights, HALVES, seed)
        self.views = {name: drawn(fit, table, seed) for name, fit in fits.items()}
        self.uniform_ends = UniformEnds(table)
        self._mixtures: dict[bytes, DrawnView] = {}

    def member(self, k: int) -> DrawnView:
        """Return member k alone."""
        return self._mixture(Stacking.single(self.table.names, k))

    def uniform(self, needs: Collection[str]) -> DrawnView:
        """Return uniform weights of the members that have some statistics."""
        return self._mixture(uniform_fit(self.table, needs))

    def _mixture(self, fit: Stacking) -> DrawnView:
        key = fit.weights.tobytes()
        if key not in self._mixtures:
            self._mixtures[key] = drawn(fit, self.table, self.seed)
        return self._mixtures[key]


def _best_by_log_density(alone: Mapping[str, np.ndarray | ValueError]) -> int | None:
    """Return the member that is best by log density on the validation rows, if the tables have densities."""
    scores = alone.get(LOG_DENSITY.name)
    return int(np.nanargmin(scores)) if isinstance(scores, np.ndarray) and not np.isnan(scores).all() else None


def _compare_by(
    metric: Metric, alone: np.ndarray | ValueError, rows: _TestRows, by_log_density: int | None
) -> MetricResult:
    """Compare all methods by one metric, given the scores of the members on the validation rows."""
    table = rows.table
    if not isinstance(alone, np.ndarray):
        raise alone
    if not metric.needs <= table.gives:
        raise _lacks(metric, table)
    if np.isnan(alone).all():
        raise ValueError(f"no member has a finite {metric.name} on the validation rows.")
    chosen = int(np.nanargmin(alone))
    measured, skipped = {BEST: _measure(metric, rows.member(chosen), rows.weightings)}, {}
    # Intervals that are averages of ends are compared with the plain average of ends.
    ends = {name for name, fit in rows.fits.items() if not fit.form.gives & {"rank", "draws"}}
    views: dict[str, View] = {UNIFORM: rows.uniform(metric.needs)}
    if ends and metric.needs <= {"interval"}:
        views[UNIFORM_ENDS] = rows.uniform_ends
        ends.add(UNIFORM_ENDS)
    for name, view in (views | rows.views).items():
        fit = rows.fits.get(name)
        if fit is not None and (lacking := missing(fit, table, metric.needs)):
            skipped[name] = f"{type(fit.form).__name__} does not give {', '.join(lacking)} on these rows."
            continue
        try:
            measured[name] = _measure(metric, view, rows.weightings)
        except ValueError as error:  # aggregated intervals exist at the levels they were fitted at
            if name == UNIFORM and UNIFORM_ENDS not in views:
                raise
            skipped[name] = str(error)
    lines = {
        name: MethodResult(
            name,
            this.estimate,
            _gain(this, measured.get(BEST)),
            _gain(this, measured.get(UNIFORM_ENDS if name in ends or UNIFORM not in measured else UNIFORM)),
            table.names[chosen] if name == BEST else "",
        )
        for name, this in measured.items()
    }
    floor = metric.floor(table.effective_rows, table.S) if metric.floor else None
    second = None
    if by_log_density is not None and by_log_density != chosen and not np.isnan(alone[by_log_density]):
        this = _measure(metric, rows.member(by_log_density), rows.weightings)
        over_best, over_uniform = (_gain(this, measured.get(name)) for name in (BEST, UNIFORM))
        name = table.names[by_log_density]
        second = MethodResult("best by log density", this.estimate, over_best, over_uniform, name)
    return MetricResult(metric, table.names[chosen], lines, floor, skipped, second)


def _gain(this: _Measured, other: _Measured | None) -> Estimate | None:
    """Return the gain over another method; None over itself, or if that was not measured."""
    return None if other is None or other is this else this.gain_over(other)


@dataclass(frozen=True, eq=False)
class _Measured:
    """A metric of one method, and its spread.

    Attributes:
        metric: what was measured.
        value: on the test rows.
        spread: values of the rows, (N,), or values on half-samples, (2B,).
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
        return Estimate(self.value, self._error(self.value, self.spread))

    def gain_over(self, other: _Measured) -> Estimate:
        """Return how much better this is than ``other``, with the standard error of the paired difference."""
        gain = self.metric.sign * (other.value - self.value)
        return Estimate(gain, self._error(self.value - other.value, self.spread - other.spread))

    def _error(self, value: float, spread: np.ndarray) -> float:
        """Return the standard error of a mean over rows, or from half-samples; NaN of a single row."""
        if self.by_row:
            return standard_error(spread, self.row_weights)
        return float("nan") if self.row_weights.max() >= 1 else half_sample_error(value, spread)


def _measure(metric: Metric, view: View, weightings: np.ndarray) -> _Measured:
    """Return the metric of a view on its rows, with the values that its standard error is computed from."""
    a, rows = view.row_weights.numpy(), row_scores(metric.score, view)
    if rows is not None:
        values = metric.sign * rows.numpy()
        return _Measured(metric, float(a @ values), values, True, a)
    value, samples = float(metric.score(view)), metric.score.on_samples(view, weightings)
    return _Measured(metric, metric.sign * value, metric.sign * samples, False, a)
