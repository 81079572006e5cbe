r"""Honest numbers: stacked against the best single member and uniform weights, on rows nobody was fitted to.

The best member is chosen *for each metric on the validation rows*; every value and every gain is measured on the
test rows, with standard errors. Gains are paired (same rows), which is what makes small ones visible.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike

from drystone._arrays import as_numpy
from drystone._parallel import one_thread
from drystone.estimate import plus_minus, resampled, standard_error
from drystone.forms import IntervalAggregation, Mixture, View
from drystone.scores import EnergyScore, IntervalScore, LogScore, MomentScore, RowScore, Score
from drystone.stacking.result import Stacking
from drystone.stacking.stack import stack
from drystone.table import Table
from drystone.table.inputs import each_level
from drystone.table.nonfinite import culprits, flaws

__all__ = [
    "METRICS",
    "Comparison",
    "Distance",
    "Distances",
    "Fits",
    "Metric",
    "compare",
    "distance",
    "distances",
    "methods",
    "named",
    "single",
    "uniform",
]

# What users hand over to be judged or drawn: one stacking, several by name, or none.
Fits = Mapping[str, Stacking] | Stacking | None
# Names that our own methods bear.
TAKEN = frozenset({"best", "uniform"})


def named(fits: Fits) -> dict[str, Stacking]:
    """Stackings by name; a single one is called "stacked"."""
    if fits is None:
        return {}
    if isinstance(fits, Stacking):
        return {"stacked": fits}
    if not isinstance(fits, Mapping):
        raise TypeError(
            f"`fits` must be a Stacking or a mapping of names to Stackings; got {type(fits).__name__}."
        )
    clash = TAKEN & set(fits)
    if clash:
        raise ValueError(f"`fits` may not be called {sorted(clash)}; these names are taken.")
    return dict(fits)


def single(table: Table, k: int) -> View:
    """Member k alone, as a mixture of one."""
    return Mixture().combine({"weights": torch.ones(1, dtype=torch.float64)}, table.select(members=[k]))


def uniform(table: Table) -> View:
    """All members with the same weight."""
    return Mixture().combine({"weights": torch.full((table.K,), 1 / table.K, dtype=torch.float64)}, table)


def methods(table: Table, fits: Fits, needs: Collection[str]) -> dict[str, View]:
    """Uniform weights and every fit that can give what is needed, on the rows of a table.

    Fits that cannot are left out: a sampler has no density, an aggregated interval no ranks.

    Args:
        table: with the members of the fits.
        fits: a stacking, or several by name.
        needs: the statistics that will be asked for, of log_q, rank, mean, moments, interval, draws.
    """
    views = {"uniform": uniform(table)}
    for name, fit in named(fits).items():
        if all(need in fit.form.gives and fit.form.requires(need) in table.gives for need in needs):
            views[name] = fit.view(table)
    return views


@dataclass(frozen=True)
class Distance:
    r"""Mean of log p(θ_n|y_n) − log q(θ_n|y_n) over the test rows: an estimate of E KL(p ‖ q), in nats."""

    value: float
    se: float


@dataclass(frozen=True)
class Distances:
    """Of a stack and of the best member from the exact posterior, on the same rows."""

    stacked: Distance
    best: Distance


def distance(log_p: np.ndarray, log_q: np.ndarray, a: np.ndarray) -> Distance:
    """Between densities (N,) of rows of weight a (N,); infinite if q has density 0 somewhere."""
    with np.errstate(invalid="ignore"):
        rows = np.where(a > 0, log_p - log_q, 0.0)
        return Distance(float(a @ rows), standard_error(rows, a))


def distances(exact: ArrayLike | None, fit: Stacking, best: str, test: Table) -> Distances | None:
    """Both distances; None if the exact posterior is not known, or the fit has no density.

    Args:
        exact: exact log posterior density at the test truths, (N,), or None.
        fit: the stack.
        best: name of the best member.
        test: the rows.
    """
    if exact is None:
        return None
    log_p = np.asarray(as_numpy(exact), float)
    if log_p.shape != (test.N,):
        raise ValueError(f"`exact` must hold a log density a test row, (N,) = ({test.N},); got {log_p.shape}.")
    if "log_q" not in fit.form.gives or "log_q" not in test.gives:
        return None
    stacked, single = fit.apply(test).log_q, test.log_q[test.names.index(best)]
    return Distances(*(distance(log_p, log_q, test.row_weights) for log_q in (stacked, single)))


# Resamplings of the rows behind the standard error of a metric that is not a mean over rows.
BOOTSTRAP = 200


@dataclass(frozen=True)
class Metric:
    """A number to judge by.

    Attributes:
        name: as printed.
        needs: the statistics of the stacked posterior it looks at.
        value: view and row weights (R, N) to values (R,): the metric under each of R weightings of the rows.
        rows: view to (N,) if the metric is a mean over rows; its standard error is then that of a mean.
        sign: +1 if lower is better, −1 if higher.
        floor: N to the value an exactly calibrated posterior has on average, if that is not the optimum 0.
        alpha: the miscoverage of the intervals it looks at, if any.
    """

    name: str
    needs: frozenset[str]
    value: Callable[[View, np.ndarray], np.ndarray]
    rows: Callable[[View], np.ndarray] | None = None
    sign: int = 1
    floor: Callable[[float], float] | None = None
    alpha: float | None = None


def of_rows(name: str, score: RowScore, sign: int = 1, alpha: float | None = None) -> Metric:
    """The metric of a score that is a mean over rows."""

    def rows(view: View) -> np.ndarray:
        return sign * score.rows(view).numpy()

    return Metric(name, score.needs, lambda view, a: a @ rows(view), rows, sign, alpha=alpha)


def _rank_distance(view: View, a: np.ndarray) -> np.ndarray:
    r"""Cramér–von Mises distance of each weighting: Σ a (r − u)² + Σ a³/12, averaged over margins."""
    total = np.zeros(len(a))
    for column in view.rank().numpy().T:
        order = np.argsort(column)
        weights = a[:, order]
        u = np.cumsum(weights, 1) - weights / 2
        total += (weights * (column[order] - u) ** 2).sum(1) + (weights**3).sum(1) / 12
    return total / view.theta.shape[1]


def coverage_error(alpha: float) -> Metric:
    """|coverage − (1 − alpha)| of central intervals, averaged over parameters, read off the ranks."""

    def value(view: View, a: np.ndarray) -> np.ndarray:
        r = view.rank().numpy()
        inside = (alpha / 2 <= r) & (r <= 1 - alpha / 2)
        return np.abs(a @ inside - (1 - alpha)).mean(1)

    return Metric(f"{1 - alpha:.0%} coverage error", frozenset({"rank"}), value)


METRICS: tuple[Metric, ...] = (
    of_rows("log density", LogScore(), sign=-1),
    Metric("rank distance D", frozenset({"rank"}), _rank_distance, floor=lambda N: 1 / (6 * N)),
    coverage_error(0.1),
    of_rows("moment error", MomentScore(diagonal=True)),
    of_rows("energy score", EnergyScore()),
    of_rows("90% interval score", IntervalScore(0.1), alpha=0.1),
)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods judged by metrics on test rows.

    Attributes:
        frame: one row per metric and method, with columns metric, method, member (the best), value, se, gain and
            gain_se (over the best member, positive is better), gain_over_uniform and its se, floor, better
            ("higher" or "lower").
        fits: the stackings that were compared, by name.
        rows: how many test rows.
        left_out: metrics that these tables cannot give, and why.
    """

    frame: pd.DataFrame
    fits: Mapping[str, Stacking] = field(default_factory=dict)
    rows: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        legend = f"{self.rows} test rows; ± one standard error; gains are paired, + is better."
        if self.left_out:
            legend += f" Not judged: {', '.join(self.left_out)} (`left_out` says why)."
        return f"{_printed(self.frame)}\n\n{legend}"

    __repr__ = __str__


def compare(
    validation: Table,
    test: Table,
    fits: Fits = None,
    *,
    metrics: tuple[Metric, ...] = METRICS,
    seed: int = 0,
) -> Comparison:
    """Judge stackings against the best single member and uniform weights.

    Args:
        validation: rows on which the best member is chosen, for each metric (and stacked, if ``fits`` is None).
        test: untouched rows on which everything is measured.
        fits: stackings by name; None for one by the log score (by energy if the table has no densities).
        metrics: what to judge by; those the tables cannot give are left out.
        seed: of the bootstrap behind standard errors of ranks and coverage.
    """
    if set(validation.names) != set(test.names):
        raise ValueError("`validation` and `test` must have the same members.")
    validation, test = validation.select(members=list(test.names)).carrying(), test.carrying()
    if fits is None:
        score: Score = LogScore() if "log_q" in validation.gives else EnergyScore()
        fits = stack(validation, Mixture(), score)
    fits = named(fits)
    for name, table in (("validation", validation), ("test", test)):
        _warn_of_flaws(name, table, frozenset().union(*(metric.needs for metric in metrics)) & table.gives)
    # The same resamplings for every method: that is what makes the gains paired.
    weightings = np.stack(list(resampled(test.row_weights, BOOTSTRAP, seed)))
    blocks, left_out = [], {}
    # A density of 0 has no finite spread, and two of them no difference: NaN, without a warning.
    with torch.no_grad(), one_thread(), np.errstate(invalid="ignore"):
        for metric in metrics:
            try:
                blocks.append(_judge(metric, validation, test, fits, weightings))
            except ValueError as error:  # a table without what it takes: levels, draws, densities
                left_out[metric.name] = str(error)
    if not blocks:
        raise ValueError(f"no metric can be computed from these tables: {left_out}.")
    return Comparison(pd.concat(blocks, ignore_index=True), dict(fits), test.N, left_out)


def _warn_of_flaws(name: str, table: Table, statistics: Collection[str]) -> None:
    """Name the members that cannot be judged, lest a blank number be a riddle."""
    for statistic, counts in zip(statistics, flaws(table, list(statistics))[0], strict=True):
        if counts.any():
            warnings.warn(
                f"`{statistic}` of the {name} rows is NaN or infinite for {culprits(table, counts)}: numbers that "
                "rest on it are NaN. Leave them out with table.select(members=...).",
                stacklevel=3,
            )


def _judge(
    metric: Metric, validation: Table, test: Table, fits: Mapping[str, Stacking], weightings: np.ndarray
) -> pd.DataFrame:
    """All methods by one metric."""
    for table in (validation, test):
        if not metric.needs <= table.gives:
            raise ValueError(f"needs {', '.join(sorted(metric.needs))}; the table gives {', '.join(table.gives)}.")
    chosen = _best_member(metric, validation)
    fits = {name: fit for name, fit in fits.items() if _at_level(fit, metric)}
    views = {"best": single(test, chosen), **methods(test, fits, metric.needs)}
    measured = {method: _measure(metric, view, weightings) for method, view in views.items()}
    lines = []
    for method, (value, spread) in measured.items():
        line: dict[str, object] = {"metric": metric.name, "method": method}
        line["member"] = test.names[chosen] if method == "best" else ""
        line |= {"value": value, "se": _se(spread, metric, test)}
        for against, column in (("best", "gain"), ("uniform", "gain_over_uniform")):
            base, base_spread = measured[against]
            line[column] = np.nan if method == against else metric.sign * (base - value)
            line[f"{column}_se"] = np.nan if method == against else _se(spread - base_spread, metric, test)
        line["floor"] = metric.floor(test.effective_rows) if metric.floor else np.nan
        line["better"] = "lower" if metric.sign > 0 else "higher"
        lines.append(line)
    return pd.DataFrame(lines)


def _at_level(fit: Stacking, metric: Metric) -> bool:
    """Whether a fit has the intervals a metric looks at: aggregated ones exist at the fitted levels only."""
    return not isinstance(fit.form, IntervalAggregation) or metric.alpha in each_level(fit.form.alpha)


def _best_member(metric: Metric, validation: Table) -> int:
    a = validation.row_weights[None]
    values = [metric.sign * metric.value(single(validation, k), a)[0] for k in range(validation.K)]
    if np.isnan(values).all():
        raise ValueError(f"no member has a finite {metric.name} on the validation rows.")
    return int(np.nanargmin(values))


def _measure(metric: Metric, view: View, weightings: np.ndarray) -> tuple[float, np.ndarray]:
    """The value, and what its spread is read off: the rows' values, or the resamplings' values."""
    value = float(metric.value(view, view.row_weights.numpy()[None])[0])
    return value, metric.rows(view) if metric.rows else metric.value(view, weightings)


def _se(spread: np.ndarray, metric: Metric, test: Table) -> float:
    """Standard error of a weighted mean over rows; standard deviation over resamplings; NaN of one row."""
    if metric.rows is not None:
        return standard_error(spread, test.row_weights)
    return float(np.std(spread, ddof=1)) if test.effective_rows > 1 else float("nan")


def _printed(frame: pd.DataFrame) -> str:
    """The frame as an aligned table: a block a metric."""
    lines = [f"{'':<34}{'value':>22}{'gain over best':>24}{'gain over uniform':>24}"]
    for metric, block in frame.groupby("metric", sort=False):
        first = block.iloc[0]
        floor = "" if np.isnan(first["floor"]) else f", calibrated ≈ {first['floor']:.2g}"
        lines.append(f"{metric} ({first['better']} is better{floor})")
        for row in block.to_dict("records"):
            label = f"{row['method']} ({row['member']})" if row["member"] else row["method"]
            value = plus_minus(row["value"], row["se"])
            gains = [plus_minus(row[column], row[f"{column}_se"], "+") for column in ("gain", "gain_over_uniform")]
            lines.append(f"  {label:<32}{value:>22}{gains[0]:>24}{gains[1]:>24}")
    return "\n".join(lines)
