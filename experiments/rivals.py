"""Baselines of stacking, the best member and uniform weights, and the log densities of all."""

from __future__ import annotations

import numpy as np

from drystone.stacking.result import Stacking
from drystone.stacking.stack import stack
from drystone.table import Table
from drystone.training.ensemble import Ensemble
from experiments.ensembles import Plan, Setting, Use, shown, simulations

__all__ = ["best_and_uniform", "density_table", "log_densities", "mean", "rivals"]


def rivals(validation: Table) -> dict[str, Stacking]:
    """Return the best member by log density, uniform weights and the stack by log score, all as stackings."""
    return {**best_and_uniform(validation), "stacked": stack(validation)}


def best_and_uniform(validation: Table) -> dict[str, Stacking]:
    """Return the best member by log density and uniform weights, as stackings."""
    best = int(validation.log_q.mean(1).argmax())
    return {
        "best": Stacking.single(validation.names, best, parameters=validation.parameters),
        "uniform": Stacking.uniform(validation.names, parameters=validation.parameters),
    }


def log_densities(fits: dict[str, Stacking], test: Table) -> dict[str, np.ndarray]:
    """Return each method's log density at the true parameters, (N,)."""
    return {name: fit.apply(test).log_q for name, fit in fits.items()}


def mean(rows: np.ndarray) -> dict[str, float]:
    """Return the mean of rows and its standard error."""
    return {"value": float(rows.mean()), "se": float(rows.std(ddof=1) / np.sqrt(len(rows)))}


def density_table(ensemble: Ensemble, setting: Setting, plan: Plan, use: Use) -> Table:
    """Return a table of densities alone, which take little time, on the setting's simulations for one use."""
    theta, y = simulations(setting, plan, use)
    y = shown(setting.task, y)
    return Table(theta, y, log_q=ensemble.log_prob(theta, y, workers=plan.workers), names=ensemble.names)
