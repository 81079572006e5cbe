"""A comparison: values of methods by metrics, and gains, with standard errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from drystone._messages import html_table
from drystone.comparison.metric import Metric
from drystone.estimate import Estimate
from drystone.stacking.result import Stacking

__all__ = ["Comparison", "MethodResult", "MetricResult"]


@dataclass(frozen=True)
class MethodResult:
    """One method by one metric.

    Attributes:
        method: "best", "uniform", the name of a fit or, beside fits that aggregate intervals, "uniform ends": the
            average of the members' ends.
        value: of the metric, on the test rows.
        gain: over the best member, paired, positive if better; None for the best member itself.
        gain_over_uniform: over uniform weights, of aggregated intervals over the average of the members' ends;
            None for uniform weights themselves.
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
        floor: what an exactly calibrated posterior has on average with so many rows and draws, or None.
        skipped: fits that cannot be compared by it, and why.
        best_by_log_density: the member that is best by log density on the validation rows, the same for every
            metric: a second reference; None if it is ``best`` itself, or if there are no densities.
    """

    metric: Metric
    best: str
    methods: Mapping[str, MethodResult]
    floor: float | None = None
    skipped: Mapping[str, str] = field(default_factory=dict)
    best_by_log_density: MethodResult | None = None


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods compared by metrics on test rows.

    Attributes:
        results: one per metric.
        fits: the stackings that were compared, by name.
        rows: number of test rows.
        untouched: whether none of these is a row of ``validation``; of such rows, values are optimistic unless the
            weights are cross-fitted.
        skipped: metrics that these tables cannot give, and why.

    Example:
        >>> import drystone as ds
        >>> comparison = ds.compare(ds.toy.table(200, seed=1), ds.toy.table(200, seed=2))
        >>> comparison.best, comparison.rows, [result.metric.name for result in comparison.results][:2]
        ('narrow', 200, ['log density', 'rank distance D'])
        >>> print(comparison.of("log density").methods["stacked"].gain)  # over the best member, paired
        0.56 ± 0.10
    """

    results: tuple[MetricResult, ...]
    fits: Mapping[str, Stacking] = field(default_factory=dict)
    rows: int = 0
    untouched: bool = True
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
        return "\n".join([*self._lines(), "", self._legend])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows: list[list[object]] = []
        for result in self.results:
            rows.append([_title(result)])
            rows += [[line.label, line.value, *_gains(line)] for line in result.methods.values()]
        columns = ["", "value", "gain over best", "gain over uniform"]
        return html_table("", columns, rows, [self._legend], most=len(rows))

    @property
    def _legend(self) -> str:
        kind = "test rows" if self.untouched else "stacking rows, no test rows"
        legend = f"{self.rows} {kind}; ± one standard error; gains are paired, + is better."
        skipped = f" Skipped: {', '.join(self.skipped)} (`skipped` says why)." if self.skipped else ""
        return legend + skipped

    def _lines(self) -> Iterator[str]:
        """Yield an aligned table: one block per metric."""
        yield f"{'':<34}{'value':>22}{'gain over best':>24}{'gain over uniform':>24}"
        for result in self.results:
            yield _title(result)
            for line in result.methods.values():
                over_best, over_uniform = _gains(line)
                yield f"  {line.label:<32}{line.value!s:>22}{over_best:>24}{over_uniform:>24}"


def _title(result: MetricResult) -> str:
    """Return the metric, its direction, and what a calibrated posterior would have."""
    floor = "" if result.floor is None else f", calibrated ≈ {result.floor:.2g}"
    return f"{result.metric.name} ({result.metric.better} is better{floor})"


def _gains(line: MethodResult) -> list[str]:
    """Return the gains over the best member and over uniform weights, with signs; empty where there is none."""
    return ["" if gain is None else f"{gain:+}" for gain in (line.gain, line.gain_over_uniform)]


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
