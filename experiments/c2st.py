"""Classifier two-sample tests against reference posteriors of six observations of each task.

The observations and reference draws are sbibm's if the environment variable ``DRYSTONE_SBIBM_DATA`` names the
folder that holds them, else six of the test simulations and draws of the exact posterior.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from drystone import tasks
from drystone.diagnostics import c2st
from experiments.ensembles import TASKS, Plan, Setting, members, shown, simulations, tables
from experiments.markdown import estimate, grid
from experiments.record import Experiment
from experiments.rivals import mean, rivals
from experiments.scoreboard import METHODS
from experiments.settings import spline

__all__ = ["EXPERIMENT"]

SETTINGS = [spline(task) for task in TASKS]
OBSERVATIONS, DRAWS = 6, 1_000
QUICK_OBSERVATIONS, QUICK_DRAWS = 1, 100


def references(setting: Setting, plan: Plan, n: int) -> tuple[str, list[tuple[np.ndarray, np.ndarray]]]:
    """Return the references' source, and pairs of an observation (m,) and n draws of its posterior (n, d)."""
    rng, folder = np.random.default_rng(plan.seed), os.environ.get("DRYSTONE_SBIBM_DATA")
    if folder is None:
        task = tasks.get(setting.task)
        _, y = simulations(setting, plan, "test")
        return "exact sampler", [(row, task.sample_posterior(row, n, rng)) for row in y[:OBSERVATIONS]]
    with np.load(Path(folder) / f"{setting.task}.npz") as data:
        pairs = zip(data["observation"][:OBSERVATIONS], data["reference_posterior"], strict=False)
        return "sbibm", [(y.ravel().astype(float), rng.permutation(draws)[:n].astype(float)) for y, draws in pairs]


def run(plan: Plan) -> dict[str, Any]:
    """Return task → method → accuracy at each observation."""
    results, source = {}, ""
    n = QUICK_DRAWS if plan.quick else DRAWS
    for setting in filter(lambda of: plan.includes(of.task), SETTINGS):
        ensemble = members(setting, plan)
        validation, _ = tables(setting, plan)
        named = dict(zip(ensemble.names, ensemble, strict=True))
        posteriors = {method: fit.posterior(named) for method, fit in rivals(validation).items()}
        source, pairs = references(setting, plan, n)
        accuracies: dict[str, list[float]] = {method: [] for method in posteriors}
        for y, reference in pairs[: QUICK_OBSERVATIONS if plan.quick else OBSERVATIONS]:
            for method, posterior in posteriors.items():
                draws = posterior.sample((n,), x=shown(setting.task, y), seed=plan.seed)
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
