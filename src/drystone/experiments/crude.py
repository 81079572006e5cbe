"""Many crude members or a few careful ones? The same number of member-epochs spent on 10, 50, 200 or 1000."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from drystone.experiments.ensembles import Plan, Setting, members, shown, simulations
from drystone.experiments.experiment import Experiment
from drystone.experiments.markdown import estimate, grid
from drystone.experiments.scoreboard import mean
from drystone.forms import Mixture
from drystone.stack import stack
from drystone.sweep import Sweep
from drystone.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

# Members × epochs = 5,000 member-epochs each. A thousand members meet a thousand stacking simulations, so that
# a prior on the weights may matter: half a simulation for each member.
SPLIT = {10: 500, 50: 100, 200: 25, 1000: 5}
FORMS = {"stacked": Mixture(), "with a Dirichlet prior": Mixture(concentration=1.5)}


def setting(K: int, plan: Plan) -> Setting:
    """Return K members of equally many epochs, none stopped early."""
    if plan.quick:
        K, epochs = K // 5, max(1, SPLIT[K] // 25)
    else:
        epochs = SPLIT[K]
    return Setting("slcp", "nsf", Sweep(), K, epochs=epochs, patience=None, label=f"crude{K}")


def run(plan: Plan) -> dict[str, Any]:
    """Return for each number of members the log density of best, uniform and stacked."""
    results = {}
    for K in SPLIT:
        at = setting(K, plan)
        ensemble = members(at, plan)
        validation, test = (_densities(ensemble, at, plan, use) for use in ("stacking", "test"))
        best = test.log_q[int(validation.log_q.mean(1).argmax())]
        uniform = Mixture().combine({"weights": _uniform(test.K)}, test).log_q().numpy()
        fits = {name: stack(validation, form) for name, form in FORMS.items()}
        stacked = {name: fit.apply(test).log_q for name, fit in fits.items()}
        results[str(test.K)] = {
            "epochs": at.under(plan).epochs,
            "log density": {m: mean(q) for m, q in {"best": best, "uniform": uniform, **stacked}.items()},
            "gain over best": mean(stacked["stacked"] - best),
            "members with weight": int(np.count_nonzero(fits["stacked"].weights)),
            "member seconds": round(float(ensemble.frame["seconds"].sum()), 1),
        }
    return {"config": [asdict(setting(K, plan)) for K in SPLIT], "members": results}
