"""What is compared: fits by name, the best single member, uniform weights."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from drystone._arrays import as_numpy
from drystone.comparison.drawn import DrawnView
from drystone.estimate import Estimate, mean_over_rows
from drystone.forms import View
from drystone.stacking.result import Stacking
from drystone.table import Table

__all__ = [
    "BASELINES",
    "BEST",
    "UNIFORM",
    "UNIFORM_ENDS",
    "Fits",
    "UniformEnds",
    "able",
    "drawn",
    "gap_to_exact",
    "methods",
    "missing",
    "name_fits",
    "single",
    "uniform",
    "uniform_fit",
]

# One stacking, several by name, or none.
Fits = Mapping[str, Stacking] | Stacking | None

BEST, UNIFORM, UNIFORM_ENDS = "best", "uniform", "uniform ends"
# What fits are compared with, so no fit can have their names.
BASELINES = (BEST, UNIFORM, UNIFORM_ENDS)


def name_fits(fits: Fits) -> dict[str, Stacking]:
    """Return stackings by name; a single one is called "stacked"."""
    if fits is None:
        return {}
    if isinstance(fits, Stacking):
        return {"stacked": fits}
    if not isinstance(fits, Mapping):
        raise TypeError(
            f"`fits` must be a Stacking or a mapping of names to Stackings; got {type(fits).__name__}."
        )
    clash = sorted(set(BASELINES) & set(fits))
    if clash:
        raise ValueError(f"`fits` may not be called {clash}; these names are taken.")
    return dict(fits)


def single(table: Table, k: int) -> View:
    """Return member k alone, as a mixture of one."""
    return Stacking.single(table.names, k).view(table)


def able(table: Table, needs: Collection[str]) -> np.ndarray:
    """Return which members have some statistics, (K,) of bool."""
    return np.logical_and.reduce([np.ones(table.K, bool), *(table.has(need) for need in needs)])


def uniform(table: Table, needs: Collection[str]) -> View:
    """Return the mixture of all members that have some statistics, with the same weight."""
    return uniform_fit(table, needs).view(table)


def uniform_fit(table: Table, needs: Collection[str]) -> Stacking:
    """Return the same as a stacking that was not fitted."""
    names = [table.names[k] for k in np.flatnonzero(able(table, needs))]
    return Stacking.uniform(table.names, members=names)


class UniformEnds(View):
    """Intervals whose ends are the averages of the members' ends: uniform weights of aggregated intervals."""

    def interval(self, alpha: float) -> Tensor:
        """Return (N, d, 2)."""
        has = self.table.has("interval")
        ends = [self.table.quantile(level)[has].mean(0) for level in (alpha / 2, 1 - alpha / 2)]
        return torch.as_tensor(np.stack(ends, -1))


def drawn(fit: Stacking, table: Table, seed: int = 0) -> DrawnView:
    """Return a fit on the rows of a table as S draws per row show it, as many as each member has."""
    # A product has draws where the members have none; its moments are then taken as theirs are.
    return DrawnView(fit.view(table), "draws" in table.gives and not missing(fit, table, {"draws"}), seed)


def methods(table: Table, fits: Fits, needs: Collection[str], seed: int = 0) -> dict[str, View]:
    """Return uniform weights and every fit that can give some statistics, as S draws per row show them.

    Fits that cannot are not among them: a sampler has no density, an aggregated interval no ranks.

    Args:
        table: with the members of the fits.
        fits: a stacking, or several by name.
        needs: the statistics that are looked at, of log_q, rank, mean, moments, interval, draws.
        seed: of the choice among the members' draws.
    """
    every = {UNIFORM: uniform_fit(table, needs), **name_fits(fits)}
    return {name: drawn(fit, table, seed) for name, fit in every.items() if not missing(fit, table, needs)}


def missing(fit: Stacking, table: Table, needs: Collection[str]) -> list[str]:
    """Return the statistics that a fit cannot give on the rows of a table."""
    form, active = fit.form, {fit.names[k] for k in fit.form.active_members(fit.params)[0]}
    used = [name in active for name in table.names]
    return [
        need for need in sorted(needs) if need not in form.gives or not table.has(form.requires(need))[used].all()
    ]


def gap_to_exact(exact: ArrayLike, test: Table, fits: Fits, best: str) -> dict[str, Estimate]:
    r"""Estimate how far each method that has a density is from the exact posterior, E KL(p ‖ q) in nats.

    .. math::
        \sum_n a_n (\log p(\theta_n | y_n) - \log q(\theta_n | y_n))

    Args:
        exact: log density of the exact posterior at the test truths, (N,).
        test: the rows.
        fits: a stacking, or several by name.
        best: name of the best member.

    Returns:
        estimates by method, the best member first; infinite where q has density 0 in a row, and empty if the table
        has no densities.
    """
    log_p, a = np.asarray(as_numpy(exact), float), test.row_weights
    if log_p.shape != (test.N,):
        raise ValueError(f"`exact` must hold one log density per test row, (N,) = ({test.N},); got {log_p.shape}.")
    if "log_q" not in test.gives:
        return {}
    log_q = {BEST: test.log_q[test.names.index(best)]}
    with torch.no_grad():
        log_q |= {name: view.log_q().numpy() for name, view in methods(test, fits, {"log_q"}).items()}
    with np.errstate(invalid="ignore"):
        return {name: mean_over_rows(np.where(a > 0, log_p - q, 0.0), a) for name, q in log_q.items()}
