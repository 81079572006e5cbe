"""Table 1 in numbers: every form × score on SLCP, stacked for its score and judged by every metric."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from drystone.comparison import UNIFORM, compare
from drystone.errors import ConvergenceWarning
from drystone.forms import Form, IntervalAggregation, PointForm, SampleAggregation
from drystone.solvers.table1 import cells
from drystone.stacking.result import Stacking
from drystone.stacking.stack import stack
from drystone.table import Table
from drystone.tabulation.tabulate import tabulate
from experiments.ensembles import Plan, Use, members, shown, simulations
from experiments.markdown import grid, number
from experiments.record import Experiment
from experiments.settings import spline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

SETTING = spline("slcp")
# Nothing is chosen by cross-validation, so that the table shows what each form does: free weights as in the paper,
# and diagonal matrices, where the paper's are full.
PAPER: dict[type[Form], Form] = {
    SampleAggregation: SampleAggregation(structure="diagonal"),
    IntervalAggregation: IntervalAggregation(weights="free"),
}
# All cells from one table with draws: fifty members × a thousand simulations × a hundred draws are 200 MB.
DRAWS, ROWS = 100, 1_000


def with_draws(plan: Plan, use: Use) -> Table:
    """Return the members with their draws on the first simulations of a kind."""
    theta, y = (rows[:ROWS] for rows in simulations(SETTING, plan, use))
    return tabulate(
        members(SETTING, plan), theta, shown(SETTING.task, y), draws=DRAWS, keep_draws=True, seed=plan.seed,
        workers=plan.workers, directory=SETTING.folder(plan) / f"{use} with draws",
    )  # fmt: skip


def fits(table: Table) -> dict[str, Stacking]:
    """Stack every cell that is not blank, but for forms that need shared points: these tables have none."""
    stackings = {}
    for (form, score), cell in cells().items():
        if not cell.why_blank and not issubclass(form, PointForm):
            with warnings.catch_warnings():
                # Ranks alone are no strict criterion, and some descents stop early; the table shows the effect.
                warnings.simplefilter("ignore", UserWarning)
                warnings.simplefilter("ignore", ConvergenceWarning)
                stackings[f"{form.__name__} × {score.__name__}"] = stack(table, PAPER.get(form) or form(), score())
    return stackings


def run(plan: Plan) -> dict[str, Any]:
    """Return cell → metric → value, its standard error, and its paired gain over the best member."""
    validation, test = with_draws(plan, "stacking"), with_draws(plan, "test")
    stackings = fits(validation)
    comparison = compare(validation, test, stackings)
    scores: dict[str, dict[str, dict[str, float]]] = {}
    for result in comparison.results:
        for line in result.methods.values():
            columns = {"value": line.value.value, "se": line.value.se}
            if line.gain is not None:
                columns |= {"gain": line.gain.value, "gain_se": line.gain.se}
            scores.setdefault(line.method, {})[result.metric.name] = {
                column: value for column, value in columns.items() if not np.isnan(value)
            }
    return {
        "config": asdict(SETTING.under(plan)), "draws": DRAWS, "rows": test.N, "scores": scores,
        "better": {result.metric.name: result.metric.better for result in comparison.results},
        "seconds": {name: round(fit.seconds, 2) for name, fit in stackings.items()},
    }  # fmt: skip


def table(result: dict[str, Any]) -> str:
    """Return one row per cell and one column per metric; the best of each column in bold."""
    better, scores = result["better"], result["scores"]
    leader = {
        metric: (max if way == "higher" else min)(
            (row[metric]["value"] for row in scores.values() if metric in row), default=None
        )
        for metric, way in better.items()
    }
    rows = []
    for method, row in scores.items():
        line = [method]
        for metric in better:
            value = row.get(metric, {}).get("value")
            text = "" if value is None else number(value, 5 if metric.startswith("rank") else 3)
            line.append(f"**{text}**" if value is not None and value == leader[metric] else text)
        rows.append(line)
    return grid(["form × score", *(f"{metric} ({way})" for metric, way in better.items())], rows)


def draw(result: dict[str, Any]) -> Figure:
    """Draw each method's excess over the best in each metric, in units of the distance from best to uniform."""
    import matplotlib.pyplot as plt

    methods, metrics = list(result["scores"]), list(result["better"])
    values = np.array([[result["scores"][m].get(j, {}).get("value", np.nan) for j in metrics] for m in methods])
    signs = np.array([1 if result["better"][j] == "lower" else -1 for j in metrics])
    excess = values * signs - np.nanmin(values * signs, axis=0)
    # Uniform weights, which need no stacking, are the unit.
    shown_excess = excess / np.maximum(excess[methods.index(UNIFORM)], 1e-12)
    figure, ax = plt.subplots(figsize=(8.2, 0.28 * len(methods) + 1.4), layout="constrained")
    image = ax.imshow(np.clip(shown_excess, 0, 2), cmap="YlGnBu", aspect="auto", vmin=-0.2, vmax=2)
    for i, j in np.ndindex(*values.shape):
        if np.isfinite(values[i, j]):
            lead = excess[i, j] == 0
            text = number(float(values[i, j]), 5 if metrics[j].startswith("rank") else 3)
            ax.text(
                j, i, text, ha="center", va="center", fontsize=8, fontweight="bold" if lead else "normal",
                color="white" if shown_excess[i, j] > 1.2 else "black",
            )  # fmt: skip
    ax.set_xticks(range(len(metrics)), [metric.replace(" ", "\n") for metric in metrics], fontsize=8)
    ax.set_yticks(range(len(methods)), methods, fontsize=8)
    ax.tick_params(length=0)
    ax.set_title("SLCP: stacked for a score (rows), judged by every metric (columns)", fontsize=10)
    bar = figure.colorbar(image, ax=ax, ticks=[0, 1, 2], shrink=0.6)
    bar.ax.set_yticklabels(["best", "uniform", "twice as far"], fontsize=8)
    return figure


EXPERIMENT = Experiment(run, table, {"slcp_tensions": draw})
