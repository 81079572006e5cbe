r"""Truth table: how far each kind of member and each way to combine them is from the exact posterior, in nats.

.. math:: \mathrm{gap} = \mathrm E_{p(\theta, y)} [\log p(\theta \mid y) - \log q(\theta \mid y)]

One call of :func:`drystone.infer` with 11,000 simulations is opened: its posteriors and its likelihoods, stacked
apart and together, as mixture and as product, before and after the members were trained again on all simulations.
Every seed has simulations of its own; the test simulations and their exact densities are the same for all seeds.
Test rows where the task warns that its own exact density is not reliable are left out.
"""

from __future__ import annotations

import time
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from drystone import tasks
from drystone._defaults import EPOCHS
from drystone.errors import ConvergenceWarning
from drystone.forms import Product
from drystone.inference import Inference, infer
from drystone.simulation.simulate import simulate
from drystone.stacking import Stacking, stack
from drystone.tabulation.tabulate import tabulate
from experiments.ensembles import TASKS, Plan
from experiments.markdown import estimate, grid, number
from experiments.record import Experiment
from experiments.rivals import mean
from experiments.stored import by_blocks, stored

__all__ = ["EXPERIMENT", "exact_log_posterior", "inferred", "stackings"]

SIMULATIONS, TEST, SEEDS = 11_000, 1_000, 1
# Far from the seeds with which defaults were chosen, and from those of the other experiments.
FIRST_SEED, TEST_SEED = 20_000, 19_999
# Points per row at which products are normalized.
POINTS = 1_000
METHODS = ("best posterior", "posteriors", "likelihoods", "both", "product", "refitted")


def run(plan: Plan) -> dict[str, Any]:
    """Return task → seeds → method → gap, and processor minutes."""
    seeds = [plan.seed] if plan.quick else range(plan.seed, plan.seed + SEEDS)
    names = ("two_moons",) if plan.quick else TASKS
    results = {name: {str(seed): _measured(name, seed, plan) for seed in seeds} for name in names}
    return {"simulations": _simulations(plan), "points": POINTS, "tasks": results}


def inferred(name: str, seed: int, plan: Plan) -> Inference:
    """Return everything that one call with 11,000 simulations of a task gives."""
    task, simulations = tasks.get(name), _simulations(plan)
    drawn = simulate(task, n=simulations, seed=FIRST_SEED + seed, workers=1)
    return infer(
        np.asarray(drawn.theta, float),
        np.asarray(drawn.y, float),
        prior=task.prior,
        seed=seed,
        directory=_folder(name, plan) / f"seed{seed}" / "inference",
        log_y=name == "lotka_volterra",
        members=2 if plan.quick else 8,
        epochs=5 if plan.quick else EPOCHS,
        workers=1,
    )


def _simulations(plan: Plan) -> int:
    return 1_000 if plan.quick else SIMULATIONS


def _folder(name: str, plan: Plan) -> Path:
    return plan.directory / "truth" / f"{name}{'-quick' if plan.quick else ''}"


def _measured(name: str, seed: int, plan: Plan) -> dict[str, Any]:
    """Return the gap of each method on one task with one seed, and what the call of `infer` took."""
    task, folder = tasks.get(name), _folder(name, plan)
    at = folder / f"seed{seed}"
    theta, y, log_p = _truth(task, 20 if plan.quick else TEST, folder / "test")
    fresh, begun, worked = not at.exists(), time.perf_counter(), time.process_time()
    inference = inferred(name, seed, plan)
    minutes = np.array([time.perf_counter() - begun, time.process_time() - worked]) / 60
    # A call that was interrupted is not counted in part.
    clock, processor = stored(at / "minutes.npy", lambda: minutes if fresh else np.full(2, np.nan))
    held_out = tabulate(
        inference.held_out, theta, y, draws=0, points=POINTS, prior=task.prior, seed=seed, workers=1,
        directory=at / "held_out",
    )  # fmt: skip
    fits = stackings(inference, task.prior)
    log_q = {method: fit.apply(held_out.select(members=list(fit.names))).log_q for method, fit in fits.items()}
    log_q["refitted"] = by_blocks(
        at / "refitted", lambda *block: inference.posterior.log_prob_batched(*block)[0], theta, y
    )
    known = np.isfinite(log_p)
    gaps = {method: (log_p - log_q[method])[known] for method in METHODS}
    return {
        "rows": int(known.sum()),
        "gap": {method: mean(rows) for method, rows in gaps.items()},
        "gain over posteriors": {method: mean(gaps["posteriors"] - gaps[method]) for method in METHODS[2:]},
        "form": repr(inference.fit.form),
        "weights": {member: round(float(w), 4) for member, w in inference.fit.member_weights.items()},
        "minutes": {"clock": float(clock), "processor": float(processor)},
    }


def stackings(inference: Inference, prior: object) -> dict[str, Stacking]:
    """Return the stackings of the members before they were trained again, by method."""
    table, frame = inference.table, inference.frame
    posteriors, likelihoods = (
        table.select(members=[name for name in table.names if frame.loc[name, "kind"] == kind])
        for kind in ("posterior", "likelihood")
    )
    best = int(posteriors.log_q.mean(1).argmax())
    return {
        "best posterior": Stacking.single(posteriors.names, best, parameters=table.parameters),
        "posteriors": stack(posteriors),
        "likelihoods": stack(likelihoods),
        "both": stack(table),
        "product": stack(table, Product(prior=prior)),
    }


def _truth(task: tasks.Task, rows: int, folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return test simulations and their exact log densities, NaN where these are not reliable."""
    drawn = simulate(task, n=rows, seed=TEST_SEED, workers=1)
    theta, y = np.asarray(drawn.theta, float), np.asarray(drawn.y, float)
    return theta, y, by_blocks(folder, partial(exact_log_posterior, task), theta, y)


def exact_log_posterior(task: tasks.Task, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return exact log densities, (N,), NaN where the task warns that they are not reliable."""
    values = np.full(len(theta), np.nan)
    for n in range(len(theta)):
        with warnings.catch_warnings(), suppress(ConvergenceWarning):
            warnings.simplefilter("error", ConvergenceWarning)
            values[n] = task.log_posterior(theta[n : n + 1], y[n : n + 1])[0]
    return values


def table(result: dict[str, Any]) -> str:
    """Return one row per task: the mean gap over the seeds."""
    rows = []
    for task, seeds in result["tasks"].items():
        cells = [estimate(_over_seeds([row["gap"][method] for row in seeds.values()])) for method in METHODS]
        minutes = np.nanmean([row["minutes"]["processor"] for row in seeds.values()])
        of_rows = "/".join(sorted({str(row["rows"]) for row in seeds.values()}))
        rows.append([task, *cells, number(float(minutes), 1), str(len(seeds)), of_rows])
    return grid(["task", *METHODS, "processor minutes", "seeds", "rows"], rows)


def _over_seeds(gaps: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean; its error is that of the rows, which all seeds share, or of the seeds if it is larger."""
    values, errors = (np.array([gap[key] for gap in gaps]) for key in ("value", "se"))
    spread = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return {"value": float(values.mean()), "se": float(max(errors.mean(), spread))}


EXPERIMENT = Experiment(run, table)
