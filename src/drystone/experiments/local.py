"""Weights that depend on the data against weights that do not, with few and with many stacking simulations."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from drystone.experiments.densities import density_table, mean
from drystone.experiments.ensembles import TASKS, Plan, members
from drystone.experiments.markdown import estimate, grid
from drystone.experiments.record import Experiment
from drystone.experiments.settings import spline
from drystone.forms import LocalMixture, Mixture
from drystone.scores import LogScore
from drystone.stack import stack
from drystone.table import Table

__all__ = ["EXPERIMENT"]

SETTINGS = [spline(task) for task in TASKS]
MANY = 10_000


def compared(table: Table, test: Table) -> dict[str, Any]:
    """Return global and local log densities on the test rows, and the gain, paired."""
    log_q = {form: stack(table, form, LogScore()).apply(test).log_q for form in (Mixture(), LocalMixture())}
    everywhere, local = log_q.values()
    return {"global": mean(everywhere), "local": mean(local), "gain": mean(local - everywhere)}


def run(plan: Plan) -> dict[str, Any]:
    """Return task → stacking simulations → global, local, gain."""
    results = {}
    for setting in SETTINGS:
        ensemble = members(setting, plan)
        test = density_table(ensemble, setting, plan, "test")
        few = density_table(ensemble, setting, plan, "stacking")
        many = density_table(ensemble, replace(setting, stacking=MANY), plan, "stacking")
        results[setting.task] = {str(rows.N): compared(rows, test) for rows in (few, many)}
    return {"config": [asdict(setting.under(plan)) for setting in SETTINGS], "tasks": results}


def table(result: dict[str, Any]) -> str:
    """Return a row a task and number of simulations."""
    rows = [
        [task, f"{int(n):,}", estimate(row["global"]), estimate(row["local"]), estimate(row["gain"], "+")]
        for task, sizes in result["tasks"].items()
        for n, row in sizes.items()
    ]
    return grid(["task", "stacking simulations", "global", "local", "gain of local"], rows)


EXPERIMENT = Experiment(run, table)
