r"""Honest numbers: stacked against the best single member and uniform weights, on rows that nothing was fitted to.

The best member is chosen *for each metric on the validation rows*; every value and every gain is measured on the
test rows, with standard errors. Gains are paired (same rows), which is what makes small ones visible.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from drystone._arrays import as_numpy
from drystone._parallel import one_thread
from drystone.estimate import Estimate, bootstrap_weights, mean_over_rows, standard_error
from drystone.forms import Mixture, View
from drystone.scores import EnergyScore, IntervalScore, LogScore, MomentScore, RankCvM, Score
from drystone.scores.score import row_scores
from drystone.stacking.result import Stacking
from drystone.stacking.stack import stack
from drystone.table import Statistic, Table
from drystone.table.nonfinite import count_nonfinite, drop_zero_weight_rows, name_members

__all__ = [
    "BASELINES",
    "BEST",
    "COVERAGE_ERROR",
    "ENERGY_SCORE",
    "INTERVAL_SCORE",
    "LOG_DENSITY",
    "METRICS",
    "MOMENT_ERROR",
    "RANK_DISTANCE",
    "UNIFORM",
    "Comparison",
    "CoverageError",
    "Fits",
    "MethodResult",
    "Metric",
    "MetricResult",
    "compare",
    "gap_to_exact",
    "methods",
    "name_fits",
    "single",
    "uniform",
]

# One stacking, several by name, or none.
Fits = Mapping[str, Stacking] | Stacking | None


# ── baselines ────────────────────────────────────────────────────────────────────────────────────────────────

BEST, UNIFORM = "best", "uniform"
# Every comparison has these two methods, so no fit can have their names.
BASELINES = (BEST, UNIFORM)


def name_fits(fits: Fits) -> dict[str, Stacking]:
    """Return stackings by name; a single one is called "stacked"."""
    if fits is None:
        return {}
    if isinstance(fits, Stacking):
        return {"stacked": fits}
    if not isinstance(fits, Mapping):
        raise TypeError(
            f"`fits` must be a Stacking or a mapping of names to Stackings; got {type(fits).__name__}."
        )
    clash = sorted(set(BASELINES) & set(fits))
    if clash:
        raise ValueError(f"`fits` may not be called {clash}; these names are taken.")
    return dict(fits)


def single(table: Table, k: int) -> View:
    """Return member k alone, as a mixture of one."""
    return Stacking.single(table.names, k).view(table)


def uniform(table: Table) -> View:
    """Return the mixture of all members with the same weight."""
    return Stacking.uniform(table.names).view(table)


def methods(table: Table, fits: Fits, needs: Collection[str]) -> dict[str, View]:
    """Return uniform weights and every fit that can give some statistics, on the rows of a table.

    Fits that cannot are not among them: a sampler has no density, an aggregated interval no ranks.

    Args:
        table: with the members of the fits.
        fits: a stacking, or several by name.
        needs: the statistics that are looked at, of log_q, rank, mean, moments, interval, draws.
    """
    able = {name: fit for name, fit in name_fits(fits).items() if not _missing(fit, table, needs)}
    return {UNIFORM: uniform(table), **{name: fit.view(table) for name, fit in able.items()}}


def _missing(fit: Stacking, table: Table, needs: Collection[str]) -> list[str]:
    """Return the statistics that a fit cannot give on the rows of a table."""
    form = fit.form
    return [need for need in sorted(needs) if need not in form.gives or form.requires(need) not in table.gives]


def gap_to_exact(exact: ArrayLike, test: Table, fits: Fits, best: str) -> dict[str, Estimate]:
    r"""Estimate how far each method that has a density is from the exact posterior, E KL(p ‖ q) in nats.

    .. math::
        \sum_n a_n (\log p(\theta_n | y_n) - \log q(\theta_n | y_n))

    Args:
        exact: log density of the exact posterior at the test truths, (N,).
        test: the rows.
        fits: a stacking, or several by name.
        best: name of the best member.

    Returns:
        estimates by method, the best member first; infinite where q has density 0 in a row, and empty if the table
        has no densities.
    """
    log_p, a = np.asarray(as_numpy(exact), float), test.row_weights
    if log_p.shape != (test.N,):
        raise ValueError(f"`exact` must hold one log density per test row, (N,) = ({test.N},); got {log_p.shape}.")
    if "log_q" not in test.gives:
        return {}
    log_q = {BEST: test.log_q[test.names.index(best)]}
    with torch.no_grad():
        log_q |= {name: view.log_q().numpy() for name, view in methods(test, fits, {"log_q"}).items()}
    with np.errstate(invalid="ignore"):
        return {name: mean_over_rows(np.where(a > 0, log_p - q, 0.0), a) for name, q in log_q.items()}


# ── metrics ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, repr=False)
class CoverageError(Score):
    r"""How far the coverage of central 1 − α intervals is from 1 − α, averaged over parameters.

    .. math::
        S = \frac1d \sum_j \left| \sum_n a_n 1\{\alpha/2 \le r_{nj} \le 1 - \alpha/2\} - (1 - \alpha) \right|

    Read off the ranks. A score to compare by, not to stack for: it has no gradient, and the prior itself has the
    right coverage.

    Args:
        alpha: miscoverage; 0.1 for 90 % intervals.
    """

    needs: ClassVar = frozenset({"rank"})
    smooth: ClassVar = False
    alpha: float = 0.1

    def __call__(self, q: View) -> Tensor:
        """Return the error, a scalar."""
        coverage = torch.as_tensor(q.row_weights.numpy() @ self.inside(q).numpy())
        return (coverage - (1 - self.alpha)).abs().mean()

    def inside(self, q: View) -> Tensor:
        """Return whether each true parameter is inside its interval, (N, d)."""
        r = q.rank()
        return (self.alpha / 2 <= r) & (r <= 1 - self.alpha / 2)


@dataclass(frozen=True)
class Metric:
    """A score to compare methods by, with the direction in which it is printed.

    A score that is a mean over rows (:class:`~drystone.RowScore`, or a sum of such) has the standard error of a
    mean. Any other is evaluated on 200 bootstrap samples of the test rows for each method: mind a score that is
    slow.

    Attributes:
        score: one of Drystone's or of your own; lower is better, as always.
        name: as printed; the score's own ``repr`` if it is empty.
        higher_is_better: whether the negative score is printed, as the log density is.
        floor: effective number of rows to the value that an exactly calibrated posterior has on average, if that
            is not the optimum.
    """

    score: Score
    name: str = ""
    higher_is_better: bool = False
    floor: Callable[[float], float] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.score, Score):
            raise TypeError(f"`score` must be a Score; got {type(self.score).__name__}.")
        object.__setattr__(self, "name", self.name or repr(self.score))

    @property
    def needs(self) -> frozenset[str]:
        """The statistics of a posterior that the score looks at."""
        return self.score.needs

    @property
    def sign(self) -> int:
        """+1 if lower values are better, −1 if higher ones are."""
        return -1 if self.higher_is_better else 1

    @property
    def better(self) -> str:
        """The better direction in words: "higher" or "lower"."""
        return "higher" if self.higher_is_better else "lower"


LOG_DENSITY = Metric(LogScore(), "log density", higher_is_better=True)
RANK_DISTANCE = Metric(RankCvM(), "rank distance D", floor=lambda rows: 1 / (6 * rows))
COVERAGE_ERROR = Metric(CoverageError(0.1), "90% coverage error")
MOMENT_ERROR = Metric(MomentScore(diagonal=True), "moment error")
ENERGY_SCORE = Metric(EnergyScore(), "energy score")
INTERVAL_SCORE = Metric(IntervalScore(0.1), "90% interval score")
METRICS = (LOG_DENSITY, RANK_DISTANCE, COVERAGE_ERROR, MOMENT_ERROR, ENERGY_SCORE, INTERVAL_SCORE)


# ── results ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class MethodResult:
    """One method by one metric.

    Attributes:
        method: "best", "uniform" or the name of a fit.
        value: of the metric, on the test rows.
        gain: over the best member, paired, positive if better; None for the best member itself.
        gain_over_uniform: over uniform weights; None for uniform weights themselves.
        member: name of the best member, if the method is that; else "".
    """

    method: str
    value: Estimate
    gain: Estimate | None
    gain_over_uniform: Estimate | None
    member: str = ""

    @property
    def label(self) -> str:
        """The method, and which member it is."""
        return f"{self.method} ({self.member})" if self.member else self.method


@dataclass(frozen=True, eq=False)
class MetricResult:
    """All methods by one metric.

    Attributes:
        metric: what they are compared by.
        best: name of the member that is best by it on the validation rows.
        methods: results by method: the best member, uniform weights, then the fits.
        floor: what an exactly calibrated posterior has on average, or None.
        skipped: fits that cannot be compared by it, and why.
    """

    metric: Metric
    best: str
    methods: Mapping[str, MethodResult]
    floor: float | None = None
    skipped: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods compared by metrics on test rows.

    Attributes:
        results: one per metric.
        fits: the stackings that were compared, by name.
        rows: number of test rows.
        skipped: metrics that these tables cannot give, and why.
    """

    results: tuple[MetricResult, ...]
    fits: Mapping[str, Stacking] = field(default_factory=dict)
    rows: int = 0
    skipped: Mapping[str, str] = field(default_factory=dict)

    def of(self, metric: Metric | str) -> MetricResult:
        """Return the results by one metric, looked up by itself or by its name."""
        name = metric if isinstance(metric, str) else metric.name
        for result in self.results:
            if result.metric.name == name:
                return result
        known = ", ".join(result.metric.name for result in self.results)
        raise ValueError(f"unknown `metric` {name!r}; the comparison has: {known}.")

    def __contains__(self, metric: Metric | str) -> bool:
        name = metric if isinstance(metric, str) else metric.name
        return any(result.metric.name == name for result in self.results)

    @property
    def best(self) -> str:
        """Name of the member that is best by the first metric: by log density, if there is one."""
        return self.results[0].best

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The results as a table: one row per metric and method.

        Columns: metric, method, member (the best), value, se, gain and gain_se (over the best member, positive is
        better), gain_over_uniform and its se, floor, better ("higher" or "lower"). What is None is NaN.
        """
        return pd.DataFrame([_record(result, line) for result in self.results for line in result.methods.values()])

    def __str__(self) -> str:
        legend = f"{self.rows} test rows; ± one standard error; gains are paired, + is better."
        if self.skipped:
            legend += f" Skipped: {', '.join(self.skipped)} (`skipped` says why)."
        return "\n".join([*self._lines(), "", legend])

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        """Yield an aligned table: one block per metric."""
        yield f"{'':<34}{'value':>22}{'gain over best':>24}{'gain over uniform':>24}"
        for result in self.results:
            floor = "" if result.floor is None else f", calibrated ≈ {result.floor:.2g}"
            yield f"{result.metric.name} ({result.metric.better} is better{floor})"
            for line in result.methods.values():
                gains = ["" if gain is None else f"{gain:+}" for gain in (line.gain, line.gain_over_uniform)]
                yield f"  {line.label:<32}{line.value!s:>22}{gains[0]:>24}{gains[1]:>24}"


def _record(result: MetricResult, line: MethodResult) -> dict[str, object]:
    """Return one row of the frame."""
    nothing = Estimate(np.nan, np.nan)
    gain, over_uniform = line.gain or nothing, line.gain_over_uniform or nothing
    return {
        "metric": result.metric.name,
        "method": line.method,
        "member": line.member,
        "value": line.value.value,
        "se": line.value.se,
        "gain": gain.value,
        "gain_se": gain.se,
        "gain_over_uniform": over_uniform.value,
        "gain_over_uniform_se": over_uniform.se,
        "floor": np.nan if result.floor is None else result.floor,
        "better": result.metric.better,
    }


# ── comparing ────────────────────────────────────────────────────────────────────────────────────────────────

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
    best, even = (_measure(metric, view, weightings) for view in (single(test, chosen), uniform(test)))
    measured, skipped = {BEST: best, UNIFORM: even}, {}
    for name, fit in fits.items():
        if missing := _missing(fit, test, metric.needs):
            skipped[name] = f"{type(fit.form).__name__} does not give {', '.join(missing)} on these rows."
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
    scores = [float(metric.score(single(validation, k))) for k in range(validation.K)]
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
