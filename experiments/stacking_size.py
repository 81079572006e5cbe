"""Figure 6, right: how many simulations fifty weights need, with and without a Dirichlet prior on them."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from drystone.forms import Mixture
from drystone.stacking.result import Stacking
from drystone.stacking.stack import stack
from drystone.table import Table
from experiments.ensembles import Plan, members
from experiments.figures import COLOURS, panel
from experiments.markdown import grid, number
from experiments.record import Experiment
from experiments.rivals import density_table, log_densities, mean, rivals
from experiments.settings import spline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

SETTING = spline("slcp")
POOL = 10_000
SIZES, REPETITIONS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000), 30
QUICK_SIZES, QUICK_REPETITIONS = (20, 100), 3
# Worth a fifth of a simulation per member that it alone explains: ten in all, for fifty members.
PRIOR = Mixture(concentration=1.2)


def fits(validation: Table) -> dict[str, Stacking]:
    """Stack with and without the prior; add the best member and uniform weights."""
    return rivals(validation) | {"with a Dirichlet prior": stack(validation, PRIOR)}


def run(plan: Plan) -> dict[str, Any]:
    """Return form → N → log density on the test simulations for each repetition, best chosen on the N as well."""
    ensemble = members(SETTING, plan)
    pool = density_table(ensemble, replace(SETTING, stacking=POOL), plan, "stacking")
    test = density_table(ensemble, SETTING, plan, "test")
    sizes, repetitions = (QUICK_SIZES, QUICK_REPETITIONS) if plan.quick else (SIZES, REPETITIONS)
    rng = np.random.default_rng(plan.seed)
    curves: dict[str, list[list[float]]] = {"best": [], "stacked": [], "with a Dirichlet prior": []}
    for N in sizes:
        parts = [pool.select(rows=rng.permutation(pool.N)[:N]) for _ in range(min(repetitions, pool.N // N))]
        densities = [log_densities(fits(part), test) for part in parts]
        for name, runs in curves.items():
            runs.append([float(log_q[name].mean()) for log_q in densities])
    whole = log_densities(fits(pool), test)
    return {
        "config": asdict(SETTING.under(plan)), "sizes": list(sizes), "log density": curves,
        "uniform": mean(whole["uniform"]), "all": {"N": pool.N, **mean(whole["stacked"])},
        "concentration": PRIOR.concentration,
    }  # fmt: skip


def table(result: dict[str, Any]) -> str:
    """Return one row per number of simulations: medians over the repetitions."""
    curves = result["log density"]
    rows = [
        [f"{N:,}", *(number(float(np.median(curves[name][i])), 3) for name in curves)]
        for i, N in enumerate(result["sizes"])
    ]
    return grid(["stacking simulations", *curves], rows)


def draw(result: dict[str, Any]) -> Figure:
    """Draw log density against the number of simulations."""
    figure, ax = panel("SLCP: how many simulations the weights need", "stacking simulations", "log density")
    for name, runs in result["log density"].items():
        low, middle, high = np.array([np.quantile(run, [0.25, 0.5, 0.75]) for run in runs]).T
        ax.fill_between(result["sizes"], low, high, color=COLOURS[name], alpha=0.15, linewidth=0)
        ax.plot(result["sizes"], middle, "o-", color=COLOURS[name], label=name, markersize=4)
    ax.axhline(result["uniform"]["value"], color=COLOURS["uniform"], linewidth=1, label="uniform")
    ax.set_xscale("log")
    ax.legend(frameon=False)
    return figure


EXPERIMENT = Experiment(run, table, {"slcp_stacking_size": draw})
