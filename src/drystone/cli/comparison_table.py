"""A comparison as a table for the terminal: one line per method, one column per metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from drystone._messages import counted
from drystone.comparison import (
    BEST,
    COVERAGE_ERROR,
    ENERGY_SCORE,
    INTERVAL_SCORE,
    LOG_DENSITY,
    RANK_DISTANCE,
    UNIFORM,
    Metric,
    MetricResult,
)

if TYPE_CHECKING:
    from drystone.runs.evaluation import Evaluation

__all__ = ["render"]

# Heading and format of each metric that is shown.
COLUMNS: dict[Metric, tuple[str, str]] = {
    LOG_DENSITY: ("log density", ".3f"),
    RANK_DISTANCE: ("rank D", ".5f"),
    COVERAGE_ERROR: ("cov. error", ".1%"),
    ENERGY_SCORE: ("energy", ".4f"),
    INTERVAL_SCORE: ("interval", ".4f"),
}
LABEL, GAP, WIDTH = 22, 17, 12


def render(evaluation: Evaluation) -> str:
    """Return the table, with the best value of each column in bold."""
    comparison, gaps, exact = evaluation.comparison, evaluation.gaps, evaluation.exact_mean
    shown = [metric for metric in COLUMNS if metric in comparison]
    K = len(next(iter(comparison.fits.values())).names)
    labels = {BEST: f"best of {counted(K, 'member')}", UNIFORM: "uniform weights"}
    labels |= {name: name if name == "stacked" else f"stacked: {name}" for name in comparison.fits}
    width = max([GAP, *(2 + len(str(gap)) for gap in gaps.values())]) if gaps else 0
    heading = f"{'':<{LABEL}}{'nats from exact' if gaps else '':>{width}}"
    lines = [heading + "".join(f"{COLUMNS[metric][0]:>{WIDTH}}" for metric in shown)]
    if exact is not None:
        density = format(exact, COLUMNS[LOG_DENSITY][1])
        lines.append(f"{'exact posterior':<{LABEL}}{'0':>{width}}{density:>{WIDTH}}")
    for method, label in labels.items():
        gap = str(gaps.get(method, ""))
        cells = [_cell(comparison.of(metric), method) for metric in shown]
        lines.append(f"{label:<{LABEL}}{gap:>{width}}{''.join(cells)}")
    return "\n".join(lines)


def _cell(result: MetricResult, method: str) -> str:
    """Return the value of one method, bold if no other method is better."""
    values = {name: line.value.value for name, line in result.methods.items()}
    if method not in values:
        return f"{'–':>{WIDTH}}"
    lead = (max if result.metric.higher_is_better else min)(values.values())
    text = format(values[method], COLUMNS[result.metric][1])
    return click.style(f"{text:>{WIDTH}}", bold=values[method] == lead or None)
