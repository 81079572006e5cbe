"""Calibration of the stack on rows that its weights were not fitted to, and remedies for its faults."""

from __future__ import annotations

import numpy as np

from drystone.advice.refit import Problem
from drystone.diagnostics import Faults, ranks
from drystone.diagnostics.faults import faults_of_ranks
from drystone.estimate import split_folds
from drystone.forms import SampleAggregation
from drystone.scores import RankCvM
from drystone.stacking.result import Stacking
from drystone.table import Table

__all__ = ["cross_validated_faults", "remedies"]


def cross_validated_faults(problem: Problem, table: Table, *, folds: int, seed: int) -> Faults:
    """Return bias and width of the stack in each parameter, every row judged by a fit to others.

    Args:
        problem: form and score.
        table: the rows and members of the problem, with ranks.
        folds: of the cross-validation.
        seed: of the folds.
    """
    u = np.empty((table.N, table.d))
    for fitted, held_out in split_folds(table.N, folds, seed):
        part = problem.part(rows=fitted)
        fit = (part if part.possible else problem).solve()
        u[held_out] = ranks(table.select(rows=held_out), fit).methods["stacked"]
    return faults_of_ranks(u, table.S, table.row_weights, table.parameters)


def remedies(fit: Stacking, faults: Faults) -> list[str]:
    """Return what to try against the clear faults of a fit."""
    kinds = {fault.kind.split()[0] if "biased" in fault.kind else fault.kind for fault in faults.clear}
    moves = isinstance(fit.form, SampleAggregation)  # it can shift and scale, which a mixture cannot
    ranked = any(isinstance(term, RankCvM) for _, term in fit.score.terms)
    by_ranks = "a larger factor of RankCvM (ds.tune)" if ranked else "LogScore() + 10 * RankCvM()"
    tried = []
    if "too narrow" in kinds:
        tried.append(
            f"too narrow: {by_ranks} as score, more members or ones stopped earlier; "
            "IntervalAggregation(conformal=True) holds its coverage whatever the members"
        )
    if "too wide" in kinds:
        tried.append(
            "too wide: longer training or more simulations, since a sum of draws shrinks no further"
            if moves
            else "too wide: members trained longer or on more simulations (a mixture is no narrower than they "
            "are), or SampleAggregation(), which can shrink"
        )
    if "biased" in kinds:
        tried.append(
            "biased: look at how θ and y are transformed, and for members that err to the other side"
            if moves
            else f"biased: {by_ranks} as score if members err to both sides, SampleAggregation(), which can "
            "shift, if all err to one; and a look at how θ and y are transformed"
        )
    return tried
