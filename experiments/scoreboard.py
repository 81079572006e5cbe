"""Best, uniform and stacked by the paper's three metrics, each stacked for the metric it is judged by.

Intervals are fitted for their score, which is a fourth metric: coverage is what the paper prints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from drystone.comparison import (
    BEST,
    LOG_DENSITY,
    MOMENT_ERROR,
    UNIFORM,
    UNIFORM_ENDS,
    CoverageError,
    MethodResult,
    Metric,
    compare,
)
from drystone.forms import IntervalAggregation, Mixture
from drystone.scores import IntervalScore, LogScore, MomentScore
from drystone.stacking.result import Stacking
from drystone.stacking.stack import stack
from drystone.table import Table
from experiments.ensembles import Plan, Setting, exact, tables
from experiments.markdown import estimate, grid, number
from experiments.published import Printed, published
from experiments.rivals import mean

__all__ = [
    "METHODS",
    "PAPER_COLUMN",
    "PER_CENT",
    "board",
    "gain",
    "measured",
    "printed",
    "run",
    "scoreboard",
    "shortfalls",
    "summary",
]

METHODS = (BEST, UNIFORM, "stacked")
ALPHA = 0.1
# The exact posterior's log density less the stack's, on the same rows: the divergence, in nats.
GAP = "stacked, below it"
PAPER_COLUMN = f"paper: {' / '.join(METHODS)}"


COVERAGE = Metric(CoverageError(ALPHA), "coverage error")
# The same of intervals whose weights are fitted as in the paper.
FREE_COVERAGE = Metric(CoverageError(ALPHA), "coverage error, free weights")
INTERVAL_SCORE = "interval score"
# As it is shown: the paper has coverage errors in per cent.
PER_CENT = {COVERAGE.name: "coverage error, %", FREE_COVERAGE.name: "coverage error, %, free weights"}


def fits(table: Table) -> dict[Metric, Stacking]:
    """Stack for each metric: mixtures for density and moments, aggregated intervals for coverage."""
    # Weights shared by the parameters, as in the paper's tables. No conformal margin: from a third of a thousand
    # rows it would have an error of its own of 1.6 %, more than most members have.
    ours, papers = (IntervalAggregation(ALPHA, shared=True, weights=weights) for weights in ("auto", "free"))
    score = IntervalScore(ALPHA, scale=tuple(table.theta.std(0)))
    intervals = stack(table, ours, score)
    return {
        LOG_DENSITY: stack(table, Mixture(), LogScore()),
        COVERAGE: intervals,
        FREE_COVERAGE: stack(table, papers, score),
        Metric(score, INTERVAL_SCORE): intervals,  # what both are fitted for
        MOMENT_ERROR: stack(table, Mixture(), MomentScore(diagonal=True)),
    }


def scoreboard(validation: Table, test: Table) -> dict[str, dict[str, dict[str, Any]]]:
    """Return metric → method → value, its standard error, and the paired gains over best and uniform."""
    board = {}
    for metric, fit in fits(validation).items():
        result = compare(validation, test, fit, metrics=(metric,)).of(metric)
        # Aggregated intervals stand beside ends with uniform weights: all three are judged by their ends.
        uniform = UNIFORM_ENDS if UNIFORM_ENDS in result.methods else UNIFORM
        lines = {**result.methods, UNIFORM: result.methods[uniform]}
        board[metric.name] = {method: record(lines[method]) for method in METHODS}
        board[metric.name][BEST]["member"] = result.best
    return board


def record(line: MethodResult) -> dict[str, Any]:
    """Return a method's value and gains as JSON, without those that are not defined."""
    gains = {"gain": line.gain, "gain_over_uniform": line.gain_over_uniform}
    columns = {"value": line.value.value, "se": line.value.se}
    for name, gained in gains.items():
        if gained is not None:
            columns |= {name: gained.value, f"{name}_se": gained.se}
    return {name: value for name, value in columns.items() if not np.isnan(value)}


def run(settings: Sequence[Setting], plan: Plan) -> dict[str, Any]:
    """Return each task's scoreboard, with the exact posterior's log density where it is known."""
    results = {}
    for setting in filter(lambda of: plan.includes(of.task), settings):
        validation, test = tables(setting, plan)
        stacked = stack(validation)
        log_p = exact(setting, plan)
        gap = log_p - stacked.apply(test).log_q[: len(log_p)]
        results[setting.task] = {
            "metrics": scoreboard(validation, test),
            "exact": {**mean(log_p), "rows": len(log_p), "gap": mean(gap)},
            "members": test.K,
            "members with weight": int(np.count_nonzero(stacked.weights)),
        }
    return {"config": [asdict(setting.under(plan)) for setting in settings], "tasks": results}


def board(result: dict[str, Any], family: str) -> str:
    """Return the table: ours with standard errors, the paper's beside it, and the exact posterior's."""
    lines = []
    for task, row in result["tasks"].items():
        for metric, methods in row["metrics"].items():
            first = metric == LOG_DENSITY.name
            lines.append(
                [
                    task if first else "",
                    PER_CENT.get(metric, metric),
                    *(measured(metric, methods[method]) for method in METHODS),
                    measured(metric, gain(methods, "gain"), "+"),
                    printed(family, task, metric),
                    *([estimate(row["exact"]), estimate(row["exact"]["gap"])] if first else ["", ""]),
                ]
            )
    head = ["task", "metric", *METHODS, "gain over best", PAPER_COLUMN, "exact posterior", GAP]
    return f"{grid(head, lines)}\n\n{shortfalls(result)}"


def measured(metric: str, value: Mapping[str, Any], sign: str = "") -> str:
    """Return a value with its standard error, coverage errors in per cent."""
    scale = 100 if metric in PER_CENT else 1
    return estimate({"value": scale * value["value"], "se": scale * value["se"]}, sign)


def printed(family: str, task: str, metric: str) -> str:
    """Return the paper's best / uniform / stacked, or nothing where it has no such row."""
    row = published(family, task, COVERAGE.name if metric == FREE_COVERAGE.name else metric)
    return " / ".join(_printed(row[method]) for method in METHODS) if row else ""


def _printed(value: Printed) -> str:
    text = number(value.value, value.decimals)
    return text if value.se is None else f"{text} ± {value.se:.{value.decimals}f}"


def gain(methods: dict[str, dict[str, Any]], column: str) -> dict[str, float]:
    """Return a paired gain of the stack with its standard error."""
    return {"value": methods["stacked"][column], "se": methods["stacked"][f"{column}_se"]}


def shortfalls(result: dict[str, Any]) -> str:
    """Return a sentence that names every cell where the stack is worse by more than a paired standard error."""
    short_of = []
    for task, row in result["tasks"].items():
        for metric, methods in row["metrics"].items():
            for column, rival in (("gain", "best"), ("gain_over_uniform", "uniform")):
                short = gain(methods, column)
                if short["value"] < -short["se"]:
                    unit = " %" if metric in PER_CENT else ""
                    short_of.append(f"{task}, {metric}, against {rival} ({measured(metric, short, '+')}{unit})")
    if not short_of:
        return "In no cell is the stack worse than best or uniform by more than a paired standard error."
    return f"Worse by more than a paired standard error: {'; '.join(short_of)}."


def summary(result: dict[str, Any], family: str) -> str:
    """Return the log densities alone, one row per task."""
    rows = []
    for task, row in result["tasks"].items():
        methods = row["metrics"]["log density"]
        ours = [estimate(methods[method]) for method in METHODS]
        paper = [_printed(value) for value in published(family, task, "log density").values()]
        rows.append([task, *ours, *paper, estimate(row["exact"]), estimate(row["exact"]["gap"])])
    paper_columns = [f"paper: {method}" for method in METHODS]
    return grid(["log density", *METHODS, *paper_columns, "exact posterior", GAP], rows)
