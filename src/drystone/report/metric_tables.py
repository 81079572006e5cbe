"""The comparison as tables: one per metric, with one line per method and a verdict on each line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drystone.comparison import Comparison, MethodResult, MetricResult
from drystone.estimate import Estimate
from drystone.report.tables import Cell, Grid, grid, number, with_error
from drystone.report.verdict import ERRORS, tone_of

__all__ = ["ErrorBar", "MetricTable", "metric_tables"]

WORDS = {"better": "better", "worse": "worse", "same": "no clear difference", "unknown": "not comparable"}


@dataclass(frozen=True)
class ErrorBar:
    """A gain over the best member, two of its standard errors either way, and 0, as shares of a line's length."""

    low: float
    middle: float
    high: float
    zero: float


@dataclass(frozen=True)
class MetricTable:
    """All methods by one metric.

    Attributes:
        metric: its name.
        better: "higher" or "lower".
        floor: the value of an exactly calibrated posterior, in words, or "".
        table: one line per method; first the references: the best member, uniform weights and, if it is another,
            the member that is best by log density.
        references: how many lines these are.
        error_bars: for each line its gain over the best member, or None.
    """

    metric: str
    better: str
    floor: str
    table: Grid
    references: int
    error_bars: list[ErrorBar | None]


def metric_tables(comparison: Comparison) -> list[MetricTable]:
    """Return one table per metric of the comparison."""
    return [_metric_table(result) for result in comparison.results]


def _metric_table(result: MetricResult) -> MetricTable:
    metric, lines = result.metric, list(result.methods.values())
    second = [] if result.best_by_log_density is None else [result.best_by_log_density]
    lines[2:2] = second
    floor = ""
    if result.floor is not None:
        floor = f"an exactly calibrated posterior has about {number(result.floor, 2)}"
    head = ("method", "value", "gain over best", "verdict", "gain over uniform", "verdict")
    rows = [
        [Cell(line.label), _measured(line.value), *_gain(line.gain, line), *_gain(line.gain_over_uniform, line)]
        for line in lines
    ]
    bars = _error_bars([line.gain for line in lines])
    references = 2 + len(second)
    return MetricTable(metric.name, metric.better, floor, grid(metric.name, head, rows), references, bars)


def _measured(estimate: Estimate, sign: str = "") -> Cell:
    if np.isnan(estimate.value):
        return Cell("–")
    return Cell(with_error(estimate, sign), estimate.value)


def _gain(gain: Estimate | None, line: MethodResult) -> tuple[Cell, Cell]:
    """Return a gain and its verdict; nothing for a method against itself."""
    if gain is None:
        return Cell(""), Cell("")
    tone = tone_of(gain, line.value.value)
    return _measured(gain, "+"), Cell(WORDS[tone], tone=tone)


def _error_bars(gains: list[Estimate | None]) -> list[ErrorBar | None]:
    """Return the error bars of a metric on one scale, which holds 0."""
    gain = np.array([np.nan if estimate is None else estimate.value for estimate in gains])
    reach = ERRORS * np.array([np.nan if estimate is None else estimate.se for estimate in gains])
    ends = np.concatenate([gain - reach, gain + reach, [0.0]])
    low, high = ends[np.isfinite(ends)].min(), ends[np.isfinite(ends)].max()
    if low == high:
        return [None] * len(gains)
    places = (np.column_stack([gain - reach, gain, gain + reach, np.zeros_like(gain)]) - low) / (high - low)
    return [ErrorBar(*place) if np.isfinite(place).all() else None for place in places.tolist()]
