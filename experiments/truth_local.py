"""Weights that depend on the data against weights that do not, where posteriors and likelihoods are members.

The members are those of :mod:`experiments.truth`, its first seed, before they were trained again. The weights are
fitted to the rows that stopped the training, and to further simulations that are several times as many.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drystone import tasks
from drystone.inference import Inference
from drystone.simulation.simulate import simulate
from drystone.table import Table
from drystone.tabulation.tabulate import tabulate
from experiments.ensembles import TASKS, Plan, Use, shown
from experiments.local import compared
from experiments.local import table as local_table
from experiments.record import Experiment
from experiments.truth import folder, inferred, names, truth

__all__ = ["EXPERIMENT"]

MANY, QUICK_MANY = 3_000, 50
# Far from the seeds of the other simulations.
SEED = 18_000


def run(plan: Plan) -> dict[str, Any]:
    """Return task → stacking simulations → global, local, gain."""
    results = {}
    for name in names(plan):
        inference = inferred(name, plan.seed, plan)
        theta, y, _ = truth(name, plan)
        further = simulate(tasks.get(name), n=QUICK_MANY if plan.quick else MANY, seed=SEED + plan.seed, workers=1)
        test = _densities(inference, theta, y, name, plan, "test")
        many = _densities(inference, further.theta, further.y, name, plan, "stacking")
        few = _as_shown(inference.table, name)
        results[name] = {str(rows.N): compared(rows, test) for rows in (few, many)}
    return {"tasks": results}


def _densities(inference: Inference, theta: np.ndarray, y: np.ndarray, name: str, plan: Plan, use: Use) -> Table:
    """Return the densities of the members at further rows, from disk if they are there."""
    theta, y = np.asarray(theta, float), np.asarray(y, float)
    directory = folder(name, plan.seed, plan) / "local" / use
    members = inference.held_out
    return _as_shown(tabulate(members, theta, y, draws=0, seed=plan.seed, workers=1, directory=directory), name)


def _as_shown(table: Table, name: str) -> Table:
    """Return the densities alone, with data as the networks of :mod:`experiments.local` see them."""
    return Table(table.theta, shown(name, np.asarray(table.y)), log_q=table.log_q, names=table.names)


EXPERIMENT = Experiment(run, local_table, tasks=TASKS)
