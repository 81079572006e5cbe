"""Members that could go: the loss without each of them, and groups that are nearly the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from drystone.advice.refit import Problem
from drystone.estimate import standard_error
from drystone.scores.score import row_scores
from drystone.solvers.solver import unit_of_loss
from drystone.stacking.result import Stacking
from drystone.table import Table

__all__ = ["ROUNDING", "DropOne", "drop_one", "duplicates"]

# Nats, root mean square: members whose log densities differ by less are worth the same to that many nats, and a
# mixture of both gains at most an eighth of its square over one of them.
ALIKE = 0.01
# A loss smaller than this, in nats or of the loss itself, is the solver's, not the member's.
ROUNDING = 1e-7


@dataclass(frozen=True, eq=False)
class DropOne:
    """Increase of the loss, on the rows fitted to, if one member is dropped and the others are refitted.

    Attributes:
        loss: increase of the loss, (K,); 0 for members that are not used.
        se: its standard error, paired over rows, (K,); NaN if the score is not a mean over rows.
        rounding: a smaller increase is the solver's, not the member's.
    """

    loss: np.ndarray
    se: np.ndarray
    rounding: float = ROUNDING

    @property
    def redundant(self) -> np.ndarray:
        """Whether dropping a member costs nothing, or less than the standard error, (K,).

        For the log score this is the likelihood ratio test at 5%: with a score of z standard errors for the
        member's weight the loss is z²/2N, its standard error z/N, so their ratio is below one for z below 2.
        """
        return (self.loss < self.rounding) | (self.loss < self.se)


def drop_one(problem: Problem, fit: Stacking) -> DropOne:
    """Drop each member that is used, one at a time, and refit.

    Args:
        problem: form, score and rows.
        fit: its solution with all members.
    """
    table = problem.table
    loss, se = np.zeros(table.K), np.zeros(table.K)
    with_all = _rows(fit, table)
    for k in fit.form.active_members(fit.params)[0]:
        others = problem.part(members=np.delete(np.arange(table.K), k))
        if not others.possible:
            loss[k], se[k] = np.inf, np.nan
            continue
        without = others.solve()
        loss[k] = max(without.loss - fit.loss, 0.0)
        without_it = _rows(without, others.table)
        paired = None if with_all is None or without_it is None else without_it - with_all
        se[k] = np.nan if paired is None else standard_error(paired, table.row_weights)
    return DropOne(loss, se, ROUNDING * unit_of_loss(fit.score, fit.loss))


def duplicates(table: Table) -> list[tuple[str, ...]]:
    r"""Return groups of members whose log densities are nearly the same.

    .. math::
        \sum_n a_n (\log q_i - \log q_j)^2 = \text{mean}^2 + \text{sd}^2 < \text{ALIKE}^2

    and their densities are 0 on the same rows. There are none if the table has no ``log_q``.
    """
    if "log_q" not in table.gives:
        return []
    finite, weights = np.isfinite(table.log_q), table.row_weights
    log_q = np.where(finite, table.log_q, 0.0)
    alike = np.empty((table.K, table.K), bool)
    for i in range(table.K):
        alike[i] = (finite == finite[i]).all(1) & ((log_q - log_q[i]) ** 2 @ weights < ALIKE**2)
    groups = connected_components(csr_array(alike), directed=False)[1]
    members = [np.flatnonzero(groups == group) for group in range(groups.max() + 1)]
    return [tuple(table.names[k] for k in group) for group in members if len(group) > 1]


def _rows(fit: Stacking, table: Table) -> np.ndarray | None:
    """Return the loss of each row, (N,), or None if the score is not a mean over rows."""
    with torch.no_grad():
        rows = row_scores(fit.score, fit.view(table))
    return None if rows is None else rows.numpy()
