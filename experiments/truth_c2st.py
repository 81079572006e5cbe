"""Classifier two-sample tests against reference posteriors of six observations of each task.

The observations and reference draws are sbibm's if the environment variable ``DRYSTONE_SBIBM_DATA`` names the
folder that holds them, else six further simulations and draws of the exact posterior. The members are those of
:mod:`experiments.truth`: one call of :func:`drystone.infer` with 11,000 simulations.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from drystone import tasks
from drystone.diagnostics import c2st
from drystone.posterior import StackedPosterior
from drystone.simulation.simulate import simulate
from experiments.ensembles import TASKS, Plan
from experiments.markdown import estimate, grid, number
from experiments.published import C2ST_10K
from experiments.record import Experiment
from experiments.rivals import mean
from experiments.stored import stored
from experiments.truth import TEST_SEED, inferred, stackings

__all__ = ["EXPERIMENT"]

OBSERVATIONS, DRAWS = 6, 10_000
QUICK_OBSERVATIONS, QUICK_DRAWS = 1, 100


def references(name: str, observations: int, draws: int) -> tuple[str, list[tuple[np.ndarray, np.ndarray]]]:
    """Return the references' source, and pairs of an observation (m,) and draws of its posterior (S, d)."""
    rng, folder = np.random.default_rng(0), os.environ.get("DRYSTONE_SBIBM_DATA")
    if folder is None:
        task = tasks.get(name)
        _, y = simulate(task, n=observations, seed=TEST_SEED, workers=1)
        return "exact sampler", [(row, task.sample_posterior(row, draws, rng)) for row in np.asarray(y, float)]
    with np.load(Path(folder) / f"{name}.npz") as data:
        pairs = zip(data["observation"], data["reference_posterior"], strict=False)
        chosen = [(y.ravel().astype(float), rng.permutation(of_y)[:draws].astype(float)) for y, of_y in pairs]
        return "sbibm", chosen[:observations]


def run(plan: Plan) -> dict[str, Any]:
    """Return task → method → accuracy at each observation."""
    observations, draws = (QUICK_OBSERVATIONS, QUICK_DRAWS) if plan.quick else (OBSERVATIONS, DRAWS)
    results, source = {}, ""
    for name in ("two_moons",) if plan.quick else TASKS:
        inference = inferred(name, plan.seed, plan)
        fits = stackings(inference, tasks.get(name).prior)
        posteriors = {
            "best posterior": fits["best posterior"].posterior(inference.held_out),
            "posteriors": fits["posteriors"].posterior(inference.held_out),
            "everything": inference.posterior,
        }
        source, pairs = references(name, observations, draws)
        folder = plan.directory / "truth_c2st" / f"{name}{'-quick' if plan.quick else ''}-{source.split()[0]}"
        results[name] = {
            method: [
                float(stored(folder / f"seed{plan.seed}-{method}-{i}.npy", partial(_accuracy, posterior, *pair)))
                for i, pair in enumerate(pairs)
            ]
            for method, posterior in posteriors.items()
        }
    return {"draws": draws, "reference": source, "tasks": results}


def _accuracy(posterior: StackedPosterior, y: np.ndarray, reference: np.ndarray) -> np.ndarray:
    draws = posterior.sample((len(reference),), x=y, seed=0)
    return np.array(c2st(draws, reference, seed=0).accuracy.value)


def table(result: dict[str, Any]) -> str:
    """Return one row per task: mean accuracy over the observations, beside published ones."""
    rows = []
    for task, accuracies in result["tasks"].items():
        cells = [estimate(_mean(np.array(values))) for values in accuracies.values()]
        rows.append([task, *cells, *(number(C2ST_10K[method].get(task), 3) for method in C2ST_10K)])
    return grid(["task", *next(iter(result["tasks"].values())), *C2ST_10K], rows)


def _mean(values: np.ndarray) -> dict[str, float]:
    return mean(values) if len(values) > 1 else {"value": float(values[0]), "se": 0.0}


EXPERIMENT = Experiment(run, table)
