"""Classifier two-sample tests against reference posteriors of six observations of each task.

The observations and reference draws are sbibm's if the environment variable ``DRYSTONE_SBIBM_DATA`` names the
folder that holds them, else six of the test simulations and draws of the exact posterior.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from drystone.diagnostics import c2st
from experiments.ensembles import TASKS, Plan, members, shown, simulations, tables
from experiments.markdown import estimate, grid
from experiments.record import Experiment
from experiments.references import references
from experiments.rivals import mean, rivals
from experiments.scoreboard import METHODS
from experiments.settings import spline

__all__ = ["EXPERIMENT"]

SETTINGS = [spline(task) for task in TASKS]
OBSERVATIONS, DRAWS = 6, 1_000
QUICK_OBSERVATIONS, QUICK_DRAWS = 1, 100


def run(plan: Plan) -> dict[str, Any]:
    """Return task → method → accuracy at each observation."""
    results, source = {}, ""
    n, observations = (QUICK_DRAWS, QUICK_OBSERVATIONS) if plan.quick else (DRAWS, OBSERVATIONS)
    for setting in filter(lambda of: plan.includes(of.task), SETTINGS):
        ensemble = members(setting, plan)
        validation, _ = tables(setting, plan)
        named = dict(zip(ensemble.names, ensemble, strict=True))
        posteriors = {method: fit.posterior(named) for method, fit in rivals(validation).items()}
        source, pairs = references(
            setting.task, n, plan.seed, simulations(setting, plan, "test")[1][:observations]
        )
        accuracies: dict[str, list[float]] = {method: [] for method in posteriors}
        for y, reference in pairs[:observations]:
            for method, posterior in posteriors.items():
                draws = posterior.sample((len(reference),), x=shown(setting.task, y), seed=plan.seed)
                accuracies[method].append(c2st(draws, reference, seed=plan.seed).accuracy.value)
        results[setting.task] = accuracies
    return {
        "config": [asdict(setting.under(plan)) for setting in SETTINGS],
        "draws": n, "reference": source, "tasks": results,
    }  # fmt: skip


def table(result: dict[str, Any]) -> str:
    """Return one row per task: mean accuracy over the observations, with its standard error, and paired gains."""
    rows = []
    for task, accuracies in result["tasks"].items():
        a = {method: np.array(values) for method, values in accuracies.items()}
        cells = [estimate(_mean(a[method])) for method in METHODS]
        rows.append([task, *cells, estimate(_mean(a["best"] - a["stacked"]), "+")])
    return grid(["task", *METHODS, "gain over best"], rows)


def _mean(values: np.ndarray) -> dict[str, float]:
    return mean(values) if len(values) > 1 else {"value": float(values[0]), "se": 0.0}


EXPERIMENT = Experiment(run, table, tasks=TASKS)
