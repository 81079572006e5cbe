"""Rank statistics before and after stacking: how far from uniform the ranks of the true parameters are."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from drystone.compare import METRICS, compare
from drystone.experiments.ensembles import TASKS, Plan, tables
from drystone.experiments.figures import rank_panels
from drystone.experiments.markdown import grid
from drystone.experiments.record import Experiment
from drystone.experiments.settings import spline
from drystone.forms import Mixture
from drystone.scores import LogScore, RankCvM
from drystone.stack import stack
from drystone.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "rank_curves", "rank_rows"]

SETTINGS = [spline(task) for task in TASKS]
HYBRID = 10.0
GRID = np.linspace(0, 1, 101)
(DISTANCE,) = (metric for metric in METRICS if metric.name.startswith("rank distance"))


def run(plan: Plan) -> dict[str, Any]:
    """Return task → method → rank distance, and SLCP's curves."""
    results, curves = {}, {}
    for setting in SETTINGS:
        validation, test = tables(setting, plan)
        results[setting.task] = rank_rows(validation, test)
        if setting.task == "slcp":
            curves = rank_curves(validation, test)
    config = [asdict(setting.under(plan)) for setting in SETTINGS]
    return {"config": config, "hybrid": HYBRID, "tasks": results, "slcp": curves}


def fits(validation: Table) -> dict[str, Any]:
    """Stack by the log score, alone and with the ranks."""
    return {
        "stacked": stack(validation, Mixture(), LogScore()),
        "log + rank": stack(validation, Mixture(), LogScore() + HYBRID * RankCvM()),
    }


def rank_rows(validation: Table, test: Table) -> dict[str, Any]:
    """Return the rank distance of each method, the best member being the best by log density; and the floor."""
    frame = compare(validation, test, fits(validation), metrics=(METRICS[0], DISTANCE)).frame
    chosen = str(frame["member"].iloc[0])
    alone = compare(validation.select(members=[chosen]), test.select(members=[chosen]), metrics=(DISTANCE,)).frame
    rows = frame[frame["metric"] == DISTANCE.name].set_index("method")
    results = {m: {"value": float(rows.loc[m, "value"]), "se": float(rows.loc[m, "se"])} for m in rows.index[1:]}
    first = {"value": float(alone["value"].iloc[0]), "se": float(alone["se"].iloc[0])}
    return {"best": first, **results, "floor": float(rows["floor"].iloc[0])}


def rank_curves(validation: Table, test: Table) -> dict[str, Any]:
    """Return method → parameter → distribution of the ranks minus the diagonal, on a grid."""
    ranks = {"best": test.rank[int(validation.log_q.mean(1).argmax())], "uniform": test.rank.mean(0)}
    ranks |= {name: fit.apply(test).rank for name, fit in fits(validation).items()}
    curves = {
        method: {
            parameter: np.round((r[:, j, None] <= GRID).mean(0) - GRID, 4).tolist()
            for j, parameter in enumerate(test.parameters)
        }
        for method, r in ranks.items()
    }
    return {"N": test.N, "curves": curves}


def table(result: dict[str, Any]) -> str:
    """Return a row a task, in units of what exactly calibrated ranks give on average."""
    methods = ("best", "uniform", "stacked", "log + rank")
    rows = [
        [task, *(f"{row[m]['value'] / row['floor']:.1f} ± {row[m]['se'] / row['floor']:.1f}" for m in methods)]
        for task, row in result["tasks"].items()
    ]
    return grid(["task", *methods], rows)


def draw(result: dict[str, Any]) -> Figure:
    """Draw SLCP's rank distributions, a panel a parameter."""
    return rank_panels(result["slcp"])


EXPERIMENT = Experiment(run, table, {"slcp_ranks": draw})
