"""The comparison as tables: a block a metric, a line a method, a verdict a line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from drystone.compare import Comparison, plus_minus
from drystone.report.grid import Cell, Grid, grid, number
from drystone.report.verdict import judge

__all__ = ["Standing", "standings"]

WORDS = {"better": "better", "worse": "worse", "same": "no clear difference", "unknown": "not comparable"}


@dataclass(frozen=True)
class Standing:
    """How the methods stand by one metric.

    Attributes:
        metric: its name.
        better: "higher" or "lower".
        floor: what an exactly calibrated posterior would have, in words, or "".
        table: a line a method.
    """

    metric: str
    better: str
    floor: str
    table: Grid


def standings(comparison: Comparison) -> list[Standing]:
    """One for each metric of the comparison."""
    return [_standing(str(metric), block) for metric, block in comparison.frame.groupby("metric", sort=False)]


def _standing(metric: str, block: pd.DataFrame) -> Standing:
    first = block.iloc[0]
    floor = "" if np.isnan(first["floor"]) else f"an exactly calibrated posterior has about {number(first['floor'], 2)}"
    rows = [
        [
            Cell(f"best ({line['member']})" if line["member"] else str(line["method"])),
            _measured(line["value"], line["se"]),
            *_gain(line["gain"], line["gain_se"], line["method"] == "best"),
            *_gain(line["gain_over_uniform"], line["gain_over_uniform_se"], line["method"] == "uniform"),
        ]
        for line in block.to_dict("records")
    ]
    head = ("method", "value", "gain over best", "verdict", "gain over uniform", "verdict")
    return Standing(metric, first["better"], floor, grid(metric, head, rows))


def _measured(value: float, se: float, sign: str = "") -> Cell:
    if np.isnan(value):
        return Cell("–")
    if not np.isfinite(value):
        return Cell(number(value), float(value))
    return Cell(plus_minus(value, se, sign).replace("-", "−"), float(value))


def _gain(gain: float, se: float, against_itself: bool) -> tuple[Cell, Cell]:
    """The gain and what it means; nothing for a method against itself."""
    if against_itself:
        return Cell(""), Cell("")
    tone = judge(gain, se)
    return _measured(gain, se, "+"), Cell(WORDS[tone], tone=tone)
