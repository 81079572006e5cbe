r"""Distance from the truth: the Kullback–Leibler divergence of each method from the exact posterior, in nats.

.. math:: \mathrm{KL} = \mathrm E_{p(\theta, y)} [\log p(\theta \mid y) - \log q(\theta \mid y)]

Estimated on the test simulations whose exact posterior is known; the same rows for all methods.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drystone.forms import LocalMixture, Mixture
from drystone.scores import LogScore, RankCvM
from drystone.stacking.result import Stacking
from drystone.stacking.stack import stack
from drystone.table import Table
from experiments.ensembles import TASKS, Plan, exact, tables
from experiments.markdown import estimate, grid, number
from experiments.record import Experiment
from experiments.rivals import log_densities, mean, rivals
from experiments.settings import spline

__all__ = ["EXPERIMENT"]

SETTINGS = [spline(task) for task in TASKS]
# Weight of the ranks in the hybrid: about a hundredth of a nat, for a D of 1e-4.
RANK = 100.0


def fits(validation: Table) -> dict[str, Stacking]:
    """Stack with global, hybrid and local weights; add the best member and uniform weights."""
    return {
        **rivals(validation),
        "hybrid": stack(validation, Mixture(), LogScore() + RANK * RankCvM()),
        "local": stack(validation, LocalMixture(), LogScore()),
    }


def run(plan: Plan) -> dict[str, Any]:
    """Return task → method → divergence and gain over the best member."""
    results = {}
    for setting in filter(lambda of: plan.includes(of.task), SETTINGS):
        log_p = exact(setting, plan)
        validation, test = tables(setting, plan)
        log_q = log_densities(fits(validation), test.select(rows=slice(len(log_p))))
        results[setting.task] = {
            "rows": len(log_p),
            "divergence": {name: mean(log_p - rows) for name, rows in log_q.items()},
            "gain over best": {name: mean(rows - log_q["best"]) for name, rows in log_q.items() if name != "best"},
        }
    return {"config": [asdict(setting.under(plan)) for setting in SETTINGS], "hybrid": RANK, "tasks": results}


def table(result: dict[str, Any]) -> str:
    """Return one row per task."""
    methods = list(next(iter(result["tasks"].values()))["divergence"])
    rows = []
    for task, row in result["tasks"].items():
        divergence = row["divergence"]
        share = 1 - divergence["stacked"]["value"] / divergence["best"]["value"]
        rows.append(
            [task, *(estimate(divergence[m]) for m in methods), f"{number(100 * share, 0)} %", str(row["rows"])]
        )
    return grid(["task", *methods, "gap closed by stacking", "rows"], rows)


EXPERIMENT = Experiment(run, table, tasks=TASKS)
