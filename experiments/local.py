"""Weights that depend on the data against weights that do not, with few and with many stacking simulations."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from drystone.forms import LocalMixture, Mixture
from drystone.scores import LogScore
from drystone.stacking.stack import stack
from drystone.table import Table
from experiments.ensembles import TASKS, Plan, members
from experiments.markdown import estimate, grid
from experiments.record import Experiment
from experiments.rivals import density_table, log_densities, mean
from experiments.settings import spline

__all__ = ["EXPERIMENT"]

SETTINGS = [spline(task) for task in TASKS]
MANY = 10_000


def compared(table: Table, test: Table) -> dict[str, Any]:
    """Return global and local log densities on the test rows, and the gain, paired."""
    fits = {"global": stack(table, Mixture(), LogScore()), "local": stack(table, LocalMixture(), LogScore())}
    log_q = log_densities(fits, test)
    return {name: mean(rows) for name, rows in log_q.items()} | {"gain": mean(log_q["local"] - log_q["global"])}


def run(plan: Plan) -> dict[str, Any]:
    """Return task → stacking simulations → global, local, gain."""
    results = {}
    for setting in filter(lambda of: plan.includes(of.task), SETTINGS):
        ensemble = members(setting, plan)
        test = density_table(ensemble, setting, plan, "test")
        few = density_table(ensemble, setting, plan, "stacking")
        many = density_table(ensemble, replace(setting, stacking=MANY), plan, "stacking")
        results[setting.task] = {str(rows.N): compared(rows, test) for rows in (few, many)}
    return {"config": [asdict(setting.under(plan)) for setting in SETTINGS], "tasks": results}


def table(result: dict[str, Any]) -> str:
    """Return one row per task and number of simulations."""
    rows = [
        [task, f"{int(n):,}", estimate(row["global"]), estimate(row["local"]), estimate(row["gain"], "+")]
        for task, sizes in result["tasks"].items()
        for n, row in sizes.items()
    ]
    return grid(["task", "stacking simulations", "global", "local", "gain of local"], rows)


EXPERIMENT = Experiment(run, table, tasks=TASKS)
