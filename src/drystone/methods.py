"""The methods on a table, side by side: single members, uniform weights, and fitted stacks."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch

from drystone.forms import Mixture, View
from drystone.stacking import Stacking
from drystone.table import Table

__all__ = ["Fits", "methods", "named", "single", "uniform"]

# What users hand over to be judged or drawn: one stacking, several by name, or none.
Fits = Mapping[str, Stacking] | Stacking | None
# Names that our own methods bear.
TAKEN = frozenset({"best", "uniform"})


def named(fits: Fits) -> dict[str, Stacking]:
    """Stackings by name; a single one is called "stacked"."""
    if fits is None:
        return {}
    if isinstance(fits, Stacking):
        return {"stacked": fits}
    if not isinstance(fits, Mapping):
        raise TypeError(
            f"`fits` must be a Stacking or a mapping of names to Stackings; got {type(fits).__name__}."
        )
    clash = TAKEN & set(fits)
    if clash:
        raise ValueError(f"`fits` may not be called {sorted(clash)}; these names are taken.")
    return dict(fits)


def single(table: Table, k: int) -> View:
    """Member k alone, as a mixture of one."""
    return Mixture().combine({"weights": torch.ones(1, dtype=torch.float64)}, table.select(members=[k]))


def uniform(table: Table) -> View:
    """All members with the same weight."""
    return Mixture().combine({"weights": torch.full((table.K,), 1 / table.K, dtype=torch.float64)}, table)


def methods(table: Table, fits: Fits, needs: Collection[str]) -> dict[str, View]:
    """Uniform weights and every fit that can give what is needed, on the rows of a table.

    Fits that cannot are left out: a sampler has no density, an aggregated interval no ranks.

    Args:
        table: with the members of the fits.
        fits: a stacking, or several by name.
        needs: the statistics that will be asked for, of log_q, rank, mean, moments, interval, draws.
    """
    views = {"uniform": uniform(table)}
    for name, fit in named(fits).items():
        if all(need in fit.form.gives and fit.form.requires(need) in table.gives for need in needs):
            views[name] = fit.view(table)
    return views
