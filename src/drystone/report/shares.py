r"""How much each member matters in a fit, whatever its form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drystone.estimate import effective_number
from drystone.forms import IntervalAggregation, LocalMixture, Mixture, SampleAggregation
from drystone.stacking.result import Stacking, as_tensors
from drystone.table import Table

__all__ = ["Shares", "shares"]


@dataclass(frozen=True)
class Shares:
    """A number a member.

    Attributes:
        meaning: what the numbers are.
        values: in the order of the fit's names, (K,), ≥ 0.
        simplex: whether they are weights that sum to one.
    """

    meaning: str
    values: np.ndarray
    simplex: bool

    @property
    def effective(self) -> float:
        r"""exp(−Σ w log w): how many members of equal weight are as diverse."""
        return effective_number(self.values)


def shares(fit: Stacking, table: Table) -> Shares:
    """What each member contributes; weights that depend on the data are averaged over the rows of ``table``."""
    form, params = fit.form, fit.params
    if isinstance(form, Mixture):
        return Shares("weight", fit.weights, True)
    if isinstance(form, LocalMixture):
        at_rows = form.weights_at(as_tensors(params), np.asarray(table.y)).numpy()
        return Shares("weight w(y), averaged over the test rows", table.row_weights @ at_rows, True)
    if isinstance(form, SampleAggregation):
        return Shares("largest entry of |W|", np.abs(params["matrix"]).max((1, 2)), False)
    if isinstance(form, IntervalAggregation):
        ends = np.abs(params["lower"]) + np.abs(params["upper"])
        return Shares("largest |lower| + |upper|", ends.reshape(-1, len(fit.names)).max(0), False)
    used = np.zeros(len(fit.names))  # a form of the user's own: only that it is used is known
    used[form.used(params)[0]] = 1.0
    return Shares("used", used, False)
