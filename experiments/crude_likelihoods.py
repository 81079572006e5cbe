"""Many short likelihoods or a few long ones: the same number of member-epochs spent on 8, 20 or 80, on SLCP.

The simulations are those of :mod:`experiments.truth`, its first seed, and so are the posteriors that propose the
points at which the likelihoods are normalized, and the test simulations with their exact densities.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drystone.inference.infer import split_rows
from drystone.likelihood import normalize
from drystone.tabulation.tabulate import tabulate
from drystone.training.train import train
from experiments.ensembles import Plan
from experiments.markdown import estimate, grid
from experiments.opened import held_out_posteriors
from experiments.record import Experiment
from experiments.rivals import log_densities, mean, rivals
from experiments.truth import folder, inferred, truth

__all__ = ["EXPERIMENT"]

TASK = "slcp"
# Members × epochs = 800 in all of them.
SPLIT = {8: 100, 20: 40, 80: 10}
QUICK_SPLIT = {2: 4, 4: 2}


def run(plan: Plan) -> dict[str, Any]:
    """Return for each number of members the gap of best, uniform and stacked."""
    split, results = QUICK_SPLIT if plan.quick else SPLIT, {}
    inference, (theta, y, log_p) = inferred(TASK, plan.seed, plan), truth(TASK, plan)
    known, proposal = np.isfinite(log_p), held_out_posteriors(inference)
    both = split_rows(len(inference.simulations[0]), plan.seed)
    first, rows = ((inference.simulations[0][at], inference.simulations[1][at]) for at in both)
    for K, epochs in split.items():
        at = folder(TASK, plan.seed, plan) / f"crude-{K}x{epochs}"
        likelihoods = train(
            *first, target="likelihood", members=K, seed=plan.seed, prior=inference.prior, validation=rows,
            epochs=epochs, patience=None, lr_drops=0, workers=1, directory=at / "members",
        )  # fmt: skip
        members = normalize(likelihoods, prior=inference.prior, proposal=proposal, seed=plan.seed)
        stacking, test = (
            tabulate(members, *of, draws=0, seed=plan.seed, workers=1, directory=at / use)
            for use, of in (("stacking", rows), ("test", (theta, y)))
        )
        fits = rivals(stacking)
        log_q = log_densities(fits, test)
        results[str(K)] = {
            "epochs": epochs,
            "gap": {method: mean((log_p - of)[known]) for method, of in log_q.items()},
            "gain over best": mean(log_q["stacked"] - log_q["best"]),
            "members with weight": int(np.count_nonzero(fits["stacked"].weights)),
            "seconds of training": round(sum(member.history.seconds for member in likelihoods), 1),
        }
    return {"task": TASK, "members": results}


def table(result: dict[str, Any]) -> str:
    """Return one row per number of members."""
    methods = ("best", "uniform", "stacked")
    rows = [
        [f"{K} × {row['epochs']}", *(estimate(row["gap"][m]) for m in methods), str(row["members with weight"])]
        for K, row in result["members"].items()
    ]
    return grid(["members × epochs", *methods, "members with weight"], rows)


EXPERIMENT = Experiment(run, table)
