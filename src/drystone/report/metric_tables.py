"""The comparison as tables: a block a metric, a line a method, a verdict a line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from drystone.comparison import Comparison
from drystone.report.tables import Cell, Grid, grid, number, with_error
from drystone.report.verdict import ERRORS, judge

__all__ = ["Standing", "Whisker", "standings"]

WORDS = {"better": "better", "worse": "worse", "same": "no clear difference", "unknown": "not comparable"}


@dataclass(frozen=True)
class Whisker:
    """A gain over the best member, two of its standard errors either way, and 0, as shares of a line's length."""

    low: float
    middle: float
    high: float
    zero: float


@dataclass(frozen=True)
class Standing:
    """How the methods stand by one metric.

    Attributes:
        metric: its name.
        better: "higher" or "lower".
        floor: what an exactly calibrated posterior would have, in words, or "".
        table: a line a method.
        whiskers: a picture a line of its gain over the best member, or None.
    """

    metric: str
    better: str
    floor: str
    table: Grid
    whiskers: list[Whisker | None]


def standings(comparison: Comparison) -> list[Standing]:
    """One for each metric of the comparison."""
    return [_standing(str(metric), block) for metric, block in comparison.frame.groupby("metric", sort=False)]


def _standing(metric: str, block: pd.DataFrame) -> Standing:
    first = block.iloc[0]
    about = number(first["floor"], 2)
    floor = "" if np.isnan(first["floor"]) else f"an exactly calibrated posterior has about {about}"
    rows = [
        [
            Cell(f"best ({line['member']})" if line["member"] else str(line["method"])),
            _measured(line["value"], line["se"]),
            *_gain(line["gain"], line["gain_se"], line["value"], line["method"] == "best"),
            *_gain(
                line["gain_over_uniform"], line["gain_over_uniform_se"], line["value"], line["method"] == "uniform"
            ),
        ]
        for line in block.to_dict("records")
    ]
    head = ("method", "value", "gain over best", "verdict", "gain over uniform", "verdict")
    return Standing(metric, first["better"], floor, grid(metric, head, rows), _whiskers(block))


def _measured(value: float, se: float, sign: str = "") -> Cell:
    if np.isnan(value):
        return Cell("–")
    if not np.isfinite(value):
        return Cell(number(value), float(value))
    return Cell(with_error(value, se, sign), float(value))


def _gain(gain: float, se: float, value: float, against_itself: bool) -> tuple[Cell, Cell]:
    """The gain and what it means; nothing for a method against itself."""
    if against_itself:
        return Cell(""), Cell("")
    tone = judge(gain, se, value)
    return _measured(gain, se, "+"), Cell(WORDS[tone], tone=tone)


def _whiskers(block: pd.DataFrame) -> list[Whisker | None]:
    """On one scale for the metric, which holds 0."""
    gain, reach = block["gain"].to_numpy(float), ERRORS * block["gain_se"].to_numpy(float)
    ends = np.concatenate([gain - reach, gain + reach, [0.0]])
    low, high = ends[np.isfinite(ends)].min(), ends[np.isfinite(ends)].max()
    if low == high:
        return [None] * len(block)
    places = (np.column_stack([gain - reach, gain, gain + reach, 0 * gain]) - low) / (high - low)
    return [Whisker(*place) if np.isfinite(place).all() else None for place in places.tolist()]
