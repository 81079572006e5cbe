r"""What made the difference: kinds of members, mixture or product, refitting, distilling; by simulations.

Each cell is one task with one number of simulations: a call of :func:`drystone.infer`, opened, and what sbi's
defaults give for the same simulations. The test simulations and their exact densities are those of
:mod:`experiments.truth`, and so is its call with 11,000 simulations. The largest cells take more than an hour
each: a run without ``--task`` shows them if they have been run by name, and leaves them out otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drystone.likelihood import normalize
from experiments.ensembles import SHOWN, Plan
from experiments.figures import COLOURS, curve
from experiments.markdown import estimate, grid
from experiments.opened import METHODS as OF_THE_CALL
from experiments.opened import held_out_posteriors, log_densities
from experiments.record import Experiment
from experiments.rivals import mean
from experiments.sbi_defaults import Defaults
from experiments.stored import by_blocks, stored
from experiments.truth import SIMULATIONS, beside, folder, inferred, truth

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

TASKS = {"slcp": "SLCP", "lotka_volterra": "Lotka–Volterra"}
SIZES, LARGE = (1_000, 3_000, SIMULATIONS), (30_000,)
QUICK_CELLS = ("slcp-500", "slcp-1000")
METHODS = (*OF_THE_CALL, "distilled", "sbi NPE", "sbi NLE")
CELLS = tuple(f"{task}-{n}" for task in TASKS for n in (*SIZES, *LARGE))
# What the figure shows, with its colours.
DRAWN = {
    "sbi NPE": ("sbi's default NPE", COLOURS["members"]),
    "sbi NLE": ("sbi's default NLE", COLOURS["reference"]),
    "best posterior": ("best posterior member", COLOURS["best"]),
    "posteriors": ("posteriors stacked", COLOURS["uniform"]),
    "refitted": ("everything stacked: ds.infer", COLOURS["stacked"]),
}


def run(plan: Plan) -> dict[str, Any]:
    """Return task → number of simulations → method → gap."""
    results: dict[str, dict[str, Any]] = {}
    for name in plan.tasks or (QUICK_CELLS if plan.quick else tuple(c for c in CELLS if _wanted(c, plan))):
        task, n = name.rsplit("-", 1)
        gaps = stored(_finished(name, plan), lambda task=task, n=n: _gaps(task, int(n), plan))
        known = np.isfinite(gaps).all(0)
        values = {method: mean(rows[known]) for method, rows in zip(METHODS, gaps, strict=True)}
        results.setdefault(task, {})[n] = {"rows": int(known.sum()), "gap": values}
    return {"tasks": results}


def _wanted(name: str, plan: Plan) -> bool:
    return not name.endswith(tuple(f"-{n}" for n in LARGE)) or _finished(name, plan).exists()


def _finished(name: str, plan: Plan) -> Path:
    quick = "-quick" if plan.quick else ""
    return plan.directory / "ablation" / f"{name}{quick}-seed{plan.seed}.npy"


def _gaps(task: str, n: int, plan: Plan) -> np.ndarray:
    """Return the gap of each method at each test row, (methods, N)."""
    at, seed = folder(task, plan.seed, plan, n), plan.seed
    theta, y, log_p = truth(task, plan)
    inference = inferred(task, seed, plan, n)
    log_q = log_densities(inference, theta, y, seed=seed, folder=at)
    log_q["distilled"], _ = beside("distilled", inference, theta, y, seed=seed, plan=plan, folder=at)
    prior, transform = inference.prior, SHOWN.get(task, np.asarray)
    sbi = Defaults(*inference.simulations, prior, seed, at / "sbi", transform, 2 if plan.quick else None)
    # Points are proposed by our posteriors, so that little of the gap is an error of normalizing.
    proposal = held_out_posteriors(inference)
    normalized = normalize({"NLE": sbi.likelihood()}, prior=prior, proposal=proposal, seed=seed)["NLE"]
    log_q["sbi NPE"] = by_blocks(at / "sbi" / "NPE", sbi.posterior().log_prob, theta, y)
    log_q["sbi NLE"] = by_blocks(at / "sbi" / "NLE", normalized.log_prob, theta, y)
    return np.stack([log_p - log_q[method] for method in METHODS])


def _by_size(result: dict[str, Any]) -> dict[str, dict[int, Any]]:
    """Return task → number of simulations → row, in order: cells may have been run in any."""
    found = {task: result["tasks"][task] for task in TASKS if task in result["tasks"]}
    return {task: {n: sizes[str(n)] for n in sorted(map(int, sizes))} for task, sizes in found.items()}


def table(result: dict[str, Any]) -> str:
    """Return one row per task and number of simulations."""
    rows = [
        [task, f"{n:,}", *(estimate(row["gap"][method]) for method in METHODS), str(row["rows"])]
        for task, sizes in _by_size(result).items()
        for n, row in sizes.items()
    ]
    return grid(["task", "simulations", *METHODS, "rows"], rows)


def draw(result: dict[str, Any]) -> Figure:
    """Draw the gap against the number of simulations, one panel per task."""
    import matplotlib.pyplot as plt

    tasks = _by_size(result)
    figure, axes = plt.subplots(
        1, len(tasks), figsize=(5.2 * len(tasks), 3.9), squeeze=False, sharey=True, layout="constrained"
    )
    for ax, (task, sizes) in zip(axes[0], tasks.items(), strict=True):
        x = list(sizes)
        for method, (label, colour) in DRAWN.items():
            curve(ax, x, [row["gap"][method] for row in sizes.values()], label, colour)
        ax.set(title=TASKS[task], xlabel="simulations")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xticks(x, [f"{n:,}" for n in x])
        low, high = ax.get_ylim()
        ticks = [2.0**e for e in range(-4, 6) if low <= 2.0**e <= high]
        ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("nats from the exact posterior")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    return figure


EXPERIMENT = Experiment(run, table, {"ablation": draw}, tasks=(*CELLS, *QUICK_CELLS))
