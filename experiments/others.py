"""Problems of other people, without exact posteriors: Ricker's map and the g-and-k distribution.

The simulators are written from their papers (``benchmarks/problems.py``), and had no part in choosing any setting.
One call of :func:`drystone.infer` with 11,000 simulations: its stack against its best member, uniform weights, and
sbi's default NPE, by the log density of further simulations' parameters and by the distance of ranks from uniform.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.problems import PROBLEMS

from drystone.inference import Inference
from drystone.simulation.prior import Uniform
from drystone.stacking.result import Stacking
from drystone.table import Table
from drystone.tabulation.tabulate import tabulate
from experiments.ensembles import Plan
from experiments.markdown import estimate, grid
from experiments.opened import call
from experiments.ranks import rank_distances
from experiments.record import Experiment
from experiments.rivals import best_and_uniform, log_densities, mean
from experiments.sbi_defaults import Defaults

__all__ = ["EXPERIMENT"]

NAMES = ("ricker", "g_and_k")
SIMULATIONS, TEST = 11_000, 1_000
QUICK_SIMULATIONS, QUICK_TEST = 1_000, 100
# Of the simulations: far from those with which settings were chosen.
SEED = 30_000
SBI = "sbi NPE"


def run(plan: Plan) -> dict[str, Any]:
    """Return problem → log densities, paired gains of the stack, and rank distances."""
    names = plan.tasks or (NAMES[:1] if plan.quick else NAMES)
    return {"simulations": _sizes(plan)[0], "tasks": {name: _measured(name, plan) for name in names}}


def _sizes(plan: Plan) -> tuple[int, int]:
    return (QUICK_SIMULATIONS, QUICK_TEST) if plan.quick else (SIMULATIONS, TEST)


def _measured(name: str, plan: Plan) -> dict[str, Any]:
    """Return the numbers of one problem."""
    at = plan.directory / "others" / f"{name}{'-quick' if plan.quick else ''}-seed{plan.seed}"
    rng = np.random.default_rng(SEED + plan.seed)
    theta, y, bounds = PROBLEMS[name](sum(_sizes(plan)), rng)
    n, prior = _sizes(plan)[0], Uniform(*bounds)
    test = theta[n:], y[n:]
    inference = call(theta[:n], y[:n], prior, seed=plan.seed, folder=at, plan=plan, test=test)
    sbi = Defaults(theta[:n], y[:n], prior, plan.seed, at / "sbi", epochs=2 if plan.quick else None)
    theirs = tabulate({SBI: sbi.posterior()}, *test, seed=plan.seed, workers=1, directory=at / "sbi-test")
    log_q, ranks = _ours(inference)
    single = Stacking.single(theirs.names, 0, parameters=theirs.parameters)
    log_q[SBI] = theirs.log_q[0]
    ranks[SBI] = rank_distances({SBI: single}, theirs, theirs)[SBI]
    return {
        "rows": len(test[0]),
        "log density": {method: mean(rows) for method, rows in log_q.items()},
        "gain": {method: mean(log_q["stacked"] - rows) for method, rows in log_q.items() if method != "stacked"},
        "rank distance": ranks,
        "form": repr(inference.fit.form),
        "weights": {member: round(float(w), 4) for member, w in inference.fit.member_weights.items()},
        "notes": list(inference.notes),
    }


def _ours(inference: Inference) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return log densities of best, uniform and stacked, and the distances of their ranks from uniform ones."""
    test = inference.test
    assert isinstance(test, Table)
    # The best member is that of the rows which stopped the training; it too was trained again on all of them.
    fits = {**best_and_uniform(inference.table), "stacked": inference.fit}
    return log_densities(fits, test), rank_distances(fits, inference.table, test)


def table(result: dict[str, Any]) -> str:
    """Return two tables: log densities and gains, and rank distances."""
    densities, ranks = [], []
    for name, row in result["tasks"].items():
        methods, gains, floor = row["log density"], row["gain"], row["rank distance"]["floor"]
        densities.append(
            [name, *map(estimate, methods.values()), *(estimate(gain, "+") for gain in gains.values())]
        )
        distances = (row["rank distance"][method] for method in methods)
        ranks.append([name, *(f"{d['value'] / floor:.1f} ± {d['se'] / floor:.1f}" for d in distances)])
    first = next(iter(result["tasks"].values()))
    head = ["log density", *first["log density"], *(f"gain over {method}" for method in first["gain"])]
    return f"{grid(head, densities)}\n\n{grid(['rank distance', *first['log density']], ranks)}"


EXPERIMENT = Experiment(run, table, tasks=NAMES)
