"""Classifier two-sample tests against reference posteriors of the observations that the field shares.

The observations and reference draws are sbibm's if the environment variable ``DRYSTONE_SBIBM_DATA`` names the
folder that holds them, as many as there are; else six further simulations and draws of the exact posterior. The
classifier is sbibm's. The members are those of :mod:`experiments.truth`, its first seed: one call of
:func:`drystone.infer` with 11,000 simulations.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from drystone import tasks
from drystone.diagnostics import c2st
from drystone.posterior import StackedPosterior
from drystone.simulation.simulate import simulate
from experiments.ensembles import TASKS, Plan
from experiments.markdown import estimate, grid, number
from experiments.opened import held_out_posteriors, stackings
from experiments.published import C2ST_10K, C2ST_COST
from experiments.record import Experiment
from experiments.references import references
from experiments.rivals import mean
from experiments.stored import stored
from experiments.truth import TEST_SEED, inferred, names

__all__ = ["EXPERIMENT"]

OBSERVATIONS, DRAWS, QUICK_DRAWS = 6, 10_000, 100
OUR_COST = "one CPU core"


def run(plan: Plan) -> dict[str, Any]:
    """Return task → method → accuracy at each observation."""
    draws, results, source = QUICK_DRAWS if plan.quick else DRAWS, {}, ""
    for name in names(plan):
        inference = inferred(name, plan.seed, plan)
        fits = stackings(inference)
        posteriors = {
            "best posterior": fits["best posterior"].posterior(inference.held_out),
            "posteriors": held_out_posteriors(inference),
            "everything": inference.posterior,
        }
        source, pairs = references(name, draws, 0, _simulated(name))
        folder = plan.directory / "truth_c2st" / f"{name}{'-quick' if plan.quick else ''}-{source.split()[0]}"
        results[name] = {
            method: [
                float(stored(folder / f"seed{plan.seed}-{method}-{i}.npy", partial(_accuracy, posterior, *pair)))
                for i, pair in enumerate(pairs[:1] if plan.quick else pairs)
            ]
            for method, posterior in posteriors.items()
        }
    return {"draws": draws, "reference": source, "tasks": results}


def _simulated(name: str) -> np.ndarray:
    return np.asarray(simulate(tasks.get(name), n=OBSERVATIONS, seed=TEST_SEED, workers=1).y, float)


def _accuracy(posterior: StackedPosterior, y: np.ndarray, reference: np.ndarray) -> np.ndarray:
    draws = posterior.sample((len(reference),), x=y, seed=0)
    return np.array(c2st(draws, reference, seed=0).accuracy.value)


def table(result: dict[str, Any]) -> str:
    """Return one row per task: mean accuracy over the observations, beside published ones; and what they take."""
    rows = []
    for task, accuracies in result["tasks"].items():
        cells = [estimate(_mean(np.array(values))) for values in accuracies.values()]
        observations = str(len(next(iter(accuracies.values()))))
        rows.append([task, *cells, observations, *(number(C2ST_10K[method].get(task), 3) for method in C2ST_10K)])
    ours = list(next(iter(result["tasks"].values())))
    rows.append(["takes", *(OUR_COST for _ in ours), "", *(C2ST_COST[method] for method in C2ST_10K)])
    return grid(["task", *ours, "observations", *C2ST_10K], rows)


def _mean(values: np.ndarray) -> dict[str, float]:
    return mean(values) if len(values) > 1 else {"value": float(values[0]), "se": 0.0}


EXPERIMENT = Experiment(run, table, tasks=TASKS)
