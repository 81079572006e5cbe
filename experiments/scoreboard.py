"""Best, uniform and stacked by the paper's three metrics, each stacked for the metric it is judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from drystone.comparison import METRICS, Metric, compare
from drystone.forms import IntervalAggregation, Mixture, View
from drystone.forms.interval import IntervalView
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

METHODS = ("best", "uniform", "stacked")
ALPHA = 0.1
# As it is shown: the paper has coverage errors in per cent.
PER_CENT = {"coverage error": "coverage error, %"}
# The exact posterior's log density less the stack's, on the same rows: the divergence, in nats.
GAP = "stacked, below it"
PAPER_COLUMN = f"paper: {' / '.join(METHODS)}"


def _coverage_error(view: View, a: np.ndarray) -> np.ndarray:
    """Return |coverage − 90 %|, averaged over parameters: of aggregated intervals by their ends, else by ranks."""
    if isinstance(view, IntervalView):
        lower, upper = view.interval(ALPHA).numpy().transpose(2, 0, 1)
        inside = (lower <= view.theta.numpy()) & (view.theta.numpy() <= upper)
    else:
        r = view.rank().numpy()
        inside = (r >= ALPHA / 2) & (r <= 1 - ALPHA / 2)
    return np.abs(a @ inside - (1 - ALPHA)).mean(1)


COVERAGE = Metric("coverage error", frozenset({"interval"}), _coverage_error, alpha=ALPHA)
JUDGES = {metric.name: metric for metric in (*METRICS, COVERAGE)}


def fits(table: Table) -> dict[str, Stacking]:
    """Stack for each metric: mixtures for density and moments, aggregated intervals for coverage."""
    # Weights shared by the parameters, as in the paper's tables. No conformal margin: from a third of a thousand
    # rows it would have an error of its own of 1.6 %, more than most members have.
    intervals = IntervalAggregation(ALPHA, shared=True, weights="auto")
    score = IntervalScore(ALPHA, scale=tuple(table.theta.std(0)))
    return {
        "log density": stack(table, Mixture(), LogScore()),
        "coverage error": stack(table, intervals, score),
        "moment error": stack(table, Mixture(), MomentScore(diagonal=True)),
    }


def scoreboard(validation: Table, test: Table) -> dict[str, dict[str, dict[str, Any]]]:
    """Return metric → method → value, its standard error, and the paired gains over best and uniform."""
    board = {}
    for metric, fit in fits(validation).items():
        frame = compare(validation, test, fit, metrics=(JUDGES[metric],)).frame.set_index("method")
        columns = ["value", "se", "gain", "gain_se", "gain_over_uniform", "gain_over_uniform_se"]
        board[metric] = {
            method: {column: float(value) for column, value in frame.loc[method, columns].dropna().items()}
            for method in METHODS
        }
        board[metric]["best"]["member"] = str(frame.loc["best", "member"])
    return board


def run(settings: Sequence[Setting], plan: Plan) -> dict[str, Any]:
    """Return each task's scoreboard, with the exact posterior's log density where it is known."""
    results = {}
    for setting in settings:
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
            first = metric == "log density"
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
    row = published(family, task, metric)
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
