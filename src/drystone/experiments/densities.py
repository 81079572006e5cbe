"""Log densities at the true parameters, row by row, of what stacking is held against; and their means."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from drystone.ensemble import Ensemble
from drystone.experiments.ensembles import Plan, Setting, Use, shown, simulations
from drystone.table import Table

__all__ = ["best", "density_table", "mean", "uniform"]


def best(validation: Table, test: Table) -> np.ndarray:
    """Return the log density of the member that is best on the validation rows, (N,)."""
    return test.log_q[int(validation.log_q.mean(1).argmax())]


def uniform(test: Table) -> np.ndarray:
    """Return the log density of all members with the same weight, (N,)."""
    return logsumexp(test.log_q, axis=0) - np.log(test.K)


def mean(rows: np.ndarray) -> dict[str, float]:
    """Return the mean of rows and its standard error."""
    return {"value": float(rows.mean()), "se": float(rows.std(ddof=1) / np.sqrt(len(rows)))}


def density_table(ensemble: Ensemble, setting: Setting, plan: Plan, use: Use) -> Table:
    """Return the members' densities alone, which take no time, on some of the setting's simulations."""
    theta, y = simulations(setting, plan, use)
    y = shown(setting.task, y)
    return Table(theta, y, log_q=ensemble.log_prob(theta, y, workers=plan.workers), names=ensemble.names)
