r"""Truth table: how far each kind of member and each way to combine them is from the exact posterior, in nats.

.. math:: \mathrm{gap} = \mathrm E_{p(\theta, y)} [\log p(\theta \mid y) - \log q(\theta \mid y)]

One call of :func:`drystone.infer` with 11,000 simulations is opened: its eight posteriors and sixteen likelihoods,
stacked apart and together, as mixture and as product, before and after the members were trained again on all
simulations. Beside it stand, for the first seed, fifty posteriors that were trained on the same rows, and two that
were trained on 50,000 pairs of the stacked likelihoods and on the real ones. Every seed has simulations of its
own; the test simulations and their exact densities are the same for all seeds. Test rows where the task warns
that its own exact density is not reliable are left out.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from drystone import tasks
from drystone._resume import digest_array
from drystone.errors import ConvergenceWarning
from drystone.inference import Inference
from drystone.inference.disk import LIKELIHOODS_IN, REFITTED_IN
from drystone.inference.infer import split_rows
from drystone.simulation.simulate import simulate
from drystone.stacking import stack
from drystone.table import Table
from drystone.training.distill import distill
from drystone.training.ensemble import Ensemble
from drystone.training.train import train
from experiments.ensembles import TASKS, Plan
from experiments.markdown import estimate, grid, number
from experiments.opened import POINTS, call, epochs, log_densities, stackings
from experiments.record import Experiment
from experiments.rivals import mean
from experiments.stored import Minutes, by_blocks, timed

__all__ = [
    "EXACT",
    "EXPERIMENT",
    "SLOW",
    "beside",
    "digest",
    "exact_log_posterior",
    "folder",
    "inferred",
    "kept",
    "names",
    "summary",
    "truth",
]

# Tasks on which exact densities of the test simulations take half an hour, and where `publish` brings these.
SLOW, EXACT = ("sir", "lotka_volterra"), Path(__file__).parent / "results" / "exact"
SIMULATIONS, TEST, SEEDS = 11_000, 1_000, 3
# Far from the seeds with which defaults were chosen, and from those of the other experiments.
FIRST_SEED, TEST_SEED = 20_000, 19_999
# Posteriors and likelihoods of the call, and posteriors beside it.
MEMBERS, FIFTY = (8, 16), 50
# Emulated pairs, and the posteriors that are trained on them.
PAIRS, DISTILLED = 50_000, 2


def run(plan: Plan) -> dict[str, Any]:
    """Return task → seeds → method → gap, and minutes."""
    seeds = range(plan.seed, plan.seed + (plan.seeds or (1 if plan.quick else SEEDS)))
    results = {name: {str(seed): _measured(name, seed, plan) for seed in seeds} for name in names(plan)}
    sizes = {"simulations": _simulations(plan), "points": POINTS, "pairs": _pairs(plan), "members": list(MEMBERS)}
    return sizes | {"tasks": results}


def names(plan: Plan) -> tuple[str, ...]:
    """Return the tasks to be run: those that were asked for, or one if quick, or all."""
    return plan.tasks or (TASKS[:1] if plan.quick else TASKS)


def inferred(name: str, seed: int, plan: Plan, simulations: int | None = None) -> Inference:
    """Return everything that one call with so many simulations of a task gives; None for 11,000."""
    return _inferred_in_time(name, seed, plan, simulations)[0]


def _inferred_in_time(
    name: str, seed: int, plan: Plan, simulations: int | None = None
) -> tuple[Inference, Minutes]:
    """Return the same, and what it took, whichever experiment asked for it first."""
    task = tasks.get(name)
    drawn = simulate(task, n=simulations or _simulations(plan), seed=FIRST_SEED + seed, workers=1)
    theta, y = np.asarray(drawn.theta, float), np.asarray(drawn.y, float)
    at = folder(name, seed, plan, simulations)
    return timed(
        at / "inference", lambda: call(theta, y, task.prior, seed=seed, folder=at, plan=plan, members=MEMBERS)
    )


def folder(name: str, seed: int, plan: Plan, simulations: int | None = None) -> Path:
    """Return the directory of one call."""
    size = "" if simulations in (None, _simulations(plan)) else f"{simulations}-"
    return _home(name, plan) / f"{size}seed{seed}"


def _fifty(inference: Inference, seed: int, plan: Plan, at: Path) -> Ensemble[Any]:
    """Return fifty posteriors, trained as those of the call are."""
    theta, y = inference.simulations
    training, stopping = split_rows(len(theta), seed)
    return train(
        theta[training], y[training], prior=inference.prior, validation=(theta[stopping], y[stopping]),
        members=2 if plan.quick else FIFTY, seed=seed, directory=at,
        epochs=epochs(plan), workers=1,
    )  # fmt: skip


def _distilled(inference: Inference, seed: int, plan: Plan, at: Path) -> Ensemble[Any]:
    """Return posteriors trained on pairs of the stacked likelihoods and on the rows that these were trained on."""
    theta, y = inference.simulations
    training, _ = split_rows(len(theta), seed)
    return distill(
        Ensemble.load(at.with_name("inference") / LIKELIHOODS_IN),
        prior=inference.prior,
        weights=stackings(inference)["likelihoods"].member_weights,
        n=_pairs(plan),
        theta=theta[training],
        y=y[training],
        members=DISTILLED,
        seed=seed,
        directory=at,
        epochs=epochs(plan),
        workers=1,
    )


def _simulations(plan: Plan) -> int:
    return 1_000 if plan.quick else SIMULATIONS


def _pairs(plan: Plan) -> int:
    return 2_000 if plan.quick else PAIRS


def _home(name: str, plan: Plan) -> Path:
    return plan.directory / "truth" / f"{name}{'-quick' if plan.quick else ''}"


def _measured(name: str, seed: int, plan: Plan) -> dict[str, Any]:
    """Return the gap of each method on one task with one seed, and how long its parts took."""
    at = folder(name, seed, plan)
    theta, y, log_p = truth(name, plan)
    inference, taken = _inferred_in_time(name, seed, plan)
    minutes = _minutes(inference, taken, Ensemble.load(at / "inference" / REFITTED_IN))
    log_q = log_densities(inference, theta, y, seed=seed, folder=at)
    for method in BESIDE if seed == 0 else ():
        log_q[method], spent = beside(method, inference, theta, y, seed=seed, plan=plan, folder=at)
        minutes[method] = spent.processor
    known = np.isfinite(log_p)
    gaps = {method: (log_p - of)[known] for method, of in log_q.items()}
    return {
        "rows": int(known.sum()),
        "gap": {method: mean(rows) for method, rows in gaps.items()},
        "gain over posteriors": {m: mean(gaps["posteriors"] - gaps[m]) for m in gaps if "posterior" not in m},
        "form": repr(inference.fit.form),
        "weights": {member: round(float(w), 4) for member, w in inference.fit.member_weights.items()},
        # Of a part that was interrupted nobody knows.
        "minutes": {part: taken for part, taken in minutes.items() if np.isfinite(taken)},
    }


def beside(
    method: str, inference: Inference, theta: np.ndarray, y: np.ndarray, *, seed: int, plan: Plan, folder: Path
) -> tuple[np.ndarray, Minutes]:
    """Return the log density at further rows of what stands beside a call, stacked as it is, and what it took."""
    stopping = split_rows(len(inference.simulations[0]), seed)[1]
    ensemble, spent = timed(folder / method, partial(BESIDE[method], inference, seed, plan, folder / method))
    stacked = stack(_densities(ensemble, *(of[stopping] for of in inference.simulations)))
    return stacked.apply(_densities(ensemble, theta, y)).log_q, spent


def _densities(ensemble: Ensemble[Any], theta: np.ndarray, y: np.ndarray) -> Table:
    return Table(theta, y, log_q=ensemble.log_prob(theta, y, workers=1), names=ensemble.names)


def _minutes(inference: Inference, whole: Minutes, refitted: Ensemble[Any]) -> dict[str, float]:
    """Return the processor minutes of the parts of a call, which are divided as its clock minutes are."""
    seconds, kind = (inference.frame[name].to_numpy() for name in ("seconds", "kind"))
    clock = {
        "posteriors": seconds[kind == "posterior"].sum() / 60,
        "likelihoods": seconds[kind == "likelihood"].sum() / 60,
        "refitting": refitted.frame["seconds"].to_numpy().sum() / 60,
    }
    clock["normalizing and stacking"] = whole.clock - sum(clock.values())
    parts = {part: float(minutes * whole.processor / whole.clock) for part, minutes in clock.items()}
    return {"clock": whole.clock, **parts, "whole call": whole.processor}


def truth(name: str, plan: Plan) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return test simulations and their exact log densities, NaN where these are not reliable."""
    task = tasks.get(name)
    drawn = simulate(task, n=20 if plan.quick else TEST, seed=TEST_SEED, workers=1)
    theta, y = np.asarray(drawn.theta, float), np.asarray(drawn.y, float)
    log_p = kept(EXACT / f"{name}.npz", theta, y)
    if log_p is None:
        log_p = by_blocks(_home(name, plan) / "test", partial(exact_log_posterior, task), theta, y)
        np.savez(_home(name, plan) / f"{name}.npz", log_p=log_p, digest=digest(theta, y))
    return theta, y, log_p


def kept(path: Path, theta: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """Return exact log densities from a file, if it is there and of these simulations."""
    if not path.exists():
        return None
    with np.load(path) as stored:
        return stored["log_p"] if str(stored["digest"]) == digest(theta, y) else None


def digest(theta: np.ndarray, y: np.ndarray) -> str:
    # Of six digits, so that the last bits of another machine's simulator do not matter.
    return digest_array(np.array([f"{value:.6g}" for value in np.concatenate([theta, y], 1).ravel()]))


def exact_log_posterior(task: tasks.Task, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return exact log densities, (N,), NaN where the task warns that they are not reliable."""
    values = np.full(len(theta), np.nan)
    for n in range(len(theta)):
        with warnings.catch_warnings(), suppress(ConvergenceWarning):
            warnings.simplefilter("error", ConvergenceWarning)
            values[n] = task.log_posterior(theta[n : n + 1], y[n : n + 1])[0]
    return values


def table(result: dict[str, Any]) -> str:
    """Return two tables with a row per task: gaps, with the lowest and highest seed, and minutes."""
    gaps, minutes = [], []
    methods, parts = (_in_any_row(result, key) for key in ("gap", "minutes"))
    for task, seeds in result["tasks"].items():
        by_method = {m: [row["gap"][m] for row in seeds.values() if m in row["gap"]] for m in methods}
        of_rows = "/".join(sorted({str(row["rows"]) for row in seeds.values()}))
        gaps.append([task, *(estimate(_over_seeds(of)) if of else "" for of in by_method.values()), of_rows])
        if len(seeds) > 1:
            gaps.append(["", *map(_range, by_method.values()), ""])
        taken = {part: np.array([row["minutes"].get(part, np.nan) for row in seeds.values()]) for part in parts}
        minutes.append([task, *(number(_known_mean(values), 1) for values in taken.values())])
    return "\n\n".join([grid(["task", *methods, "rows"], gaps), grid(["minutes", *parts], minutes)])


def summary(result: dict[str, Any]) -> str:
    """Return the best posterior, the stacked ones and what one call returns, one row per task."""
    shown = {"best posterior": "best posterior", "posteriors": "stacked posteriors", "refitted": "`ds.infer`"}
    rows = [
        [task, *(estimate(_over_seeds([row["gap"][method] for row in seeds.values()])) for method in shown)]
        for task, seeds in result["tasks"].items()
    ]
    return grid(["divergence, nats", *shown.values()], rows)


def _in_any_row(result: dict[str, Any], key: str) -> list[str]:
    """Return the methods, or parts, of all tasks and seeds; some are measured with the first seed alone."""
    rows = (row for seeds in result["tasks"].values() for row in seeds.values())
    return list(dict.fromkeys(name for row in rows for name in row[key]))


def _over_seeds(gaps: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean; its error is that of the rows, which all seeds share, or of the seeds if it is larger."""
    values, errors = (np.array([gap[key] for gap in gaps]) for key in ("value", "se"))
    spread = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return {"value": float(values.mean()), "se": float(max(errors.mean(), spread))}


def _range(gaps: list[dict[str, float]]) -> str:
    values = [gap["value"] for gap in gaps]
    return "" if len(values) < 2 else f"{number(min(values), 3)} … {number(max(values), 3)}"


def _known_mean(values: np.ndarray) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else None


# What stands beside the call, by method, for the first seed.
BESIDE = {"fifty posteriors": _fifty, "distilled": _distilled}

EXPERIMENT = Experiment(run, table, tasks=TASKS, seeds=SEEDS)
