"""Many crude members or a few careful ones: the same number of member-epochs spent on 10, 50, 200 or 1,000."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from drystone.forms import Mixture
from drystone.stacking.stack import stack
from drystone.training.sweep import Sweep
from experiments.ensembles import Plan, Setting, members
from experiments.figures import COLOURS, curve, panel
from experiments.markdown import estimate, grid
from experiments.record import Experiment
from experiments.rivals import density_table, log_densities, mean, rivals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

# Members × epochs = 2,000 in all of them.
SPLIT = {10: 200, 50: 40, 200: 10, 1000: 2}
QUICK_SPLIT = {2: 12, 8: 3}
# As many stacking simulations as members, at the most, so that a prior on the weights may matter.
PRIOR = Mixture(concentration=1.1)


def setting(K: int, epochs: int) -> Setting:
    """Return K members, each trained for the same number of epochs and used at its best one."""
    return Setting("slcp", "nsf", Sweep(), K, epochs=epochs, patience=None, label=f"{K}x{epochs}")


def run(plan: Plan) -> dict[str, Any]:
    """Return for each number of members the log density of best, uniform and stacked."""
    settings = [setting(K, epochs) for K, epochs in (QUICK_SPLIT if plan.quick else SPLIT).items()]
    results = {}
    for at in settings:
        ensemble = members(at, plan)
        validation, test = (density_table(ensemble, at, plan, use) for use in ("stacking", "test"))
        fits = rivals(validation) | {"with a Dirichlet prior": stack(validation, PRIOR)}
        log_q = log_densities(fits, test)
        results[str(at.members)] = {
            "epochs": at.epochs,
            "log density": {method: mean(rows) for method, rows in log_q.items()},
            "gain over best": mean(log_q["stacked"] - log_q["best"]),
            "members with weight": int(np.count_nonzero(fits["stacked"].weights)),
            "seconds of training": round(sum(member.history.seconds for member in ensemble), 1),
        }
    return {
        "config": [asdict(at.under(plan)) for at in settings],
        "concentration": PRIOR.concentration,
        "members": results,
    }


def table(result: dict[str, Any]) -> str:
    """Return one row per number of members."""
    head = ["members × epochs", "best", "uniform", "stacked", "with a Dirichlet prior", "members with weight"]
    rows = [
        [f"{K} × {row['epochs']}", *(estimate(row["log density"][m]) for m in head[1:5]), str(row[head[5]])]
        for K, row in result["members"].items()
    ]
    return grid(head, rows)


def draw(result: dict[str, Any]) -> Figure:
    """Draw log density against the number of members."""
    figure, ax = panel("SLCP: the same work spent on few or on many", "members × epochs", "log density")
    K = [int(k) for k in result["members"]]
    for method in ("best", "uniform", "stacked", "with a Dirichlet prior"):
        values = [row["log density"][method] for row in result["members"].values()]
        curve(ax, K, values, method, COLOURS[method])
    ax.set_xscale("log")
    ax.set_xticks(K, [f"{k} × {row['epochs']}" for k, row in result["members"].items()])
    ax.minorticks_off()
    ax.legend(frameon=False)
    return figure


EXPERIMENT = Experiment(run, table, {"crude": draw})
