"""Figure 7 for the benchmark tasks: how far from uniform ranks are, before and after stacking."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from drystone.comparison import RANK_DISTANCE, compare
from drystone.diagnostics.calibration import ecdf
from drystone.forms import Mixture
from drystone.scores import LogScore, RankCvM
from drystone.stacking.result import Stacking
from drystone.stacking.stack import stack
from drystone.table import Table
from experiments.ensembles import TASKS, Plan, tables
from experiments.figures import rank_panels
from experiments.markdown import grid
from experiments.record import Experiment
from experiments.rivals import rivals
from experiments.scoreboard import METHODS
from experiments.settings import spline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "rank_curves", "rank_distances", "rank_rows"]

SETTINGS = [spline(task) for task in TASKS]
# Large enough to be seen: D of calibrated ranks is 1/(6N), so this is worth a tenth of a nat.
HYBRID, RANK = "log + rank", 1000.0
GRID = np.linspace(0, 1, 101)


def run(plan: Plan) -> dict[str, Any]:
    """Return task → method → rank distance, and SLCP's curves."""
    results, curves = {}, {}
    for setting in SETTINGS:
        validation, test = tables(setting, plan)
        results[setting.task] = rank_rows(validation, test)
        if setting.task == "slcp":
            curves = rank_curves(validation, test)
    config = [asdict(setting.under(plan)) for setting in SETTINGS]
    return {"config": config, "rank": RANK, "tasks": results, "slcp": curves}


def fits(validation: Table) -> dict[str, Stacking]:
    """Stack by the log score, alone and with the ranks; add the best member and uniform weights."""
    return rivals(validation) | {HYBRID: stack(validation, Mixture(), LogScore() + RANK * RankCvM())}


def rank_rows(validation: Table, test: Table) -> dict[str, Any]:
    """Return the rank distances of these four."""
    return rank_distances(fits(validation), validation, test)


def rank_distances(fits: dict[str, Stacking], validation: Table, test: Table) -> dict[str, Any]:
    """Return the rank distance of each method, and the average of exactly calibrated ranks."""
    # Our best member is that by log density; names of our own, because those of `compare` mean the best by ranks.
    ours = {f"{name} by density": fit for name, fit in fits.items()}
    result = compare(validation, test, ours, metrics=(RANK_DISTANCE,)).of(RANK_DISTANCE)
    distances = {name.removesuffix(" by density"): asdict(result.methods[name].value) for name in ours}
    return {**distances, "floor": result.floor}


def rank_curves(validation: Table, test: Table) -> dict[str, Any]:
    """Return method → parameter → distribution of the ranks minus the diagonal, on a grid."""
    ranks = {name: fit.apply(test).rank for name, fit in fits(validation).items()}
    curves = {
        method: {
            parameter: np.round(curve - GRID, 4).tolist()
            for parameter, curve in zip(test.parameters, ecdf(r, GRID, test.row_weights).T, strict=True)
        }
        for method, r in ranks.items()
    }
    return {"N": test.N, "curves": curves}


def table(result: dict[str, Any]) -> str:
    """Return one row per task, in units of the average of exactly calibrated ranks."""
    methods = (*METHODS, HYBRID)
    rows = [
        [task, *(f"{row[m]['value'] / row['floor']:.1f} ± {row[m]['se'] / row['floor']:.1f}" for m in methods)]
        for task, row in result["tasks"].items()
    ]
    return grid(["task", *methods], rows)


def draw(result: dict[str, Any]) -> Figure:
    """Draw SLCP's rank distributions, one panel per parameter."""
    return rank_panels(result["slcp"])


EXPERIMENT = Experiment(run, table, {"slcp_ranks": draw})
