"""Refits of a stacking to other rows or members."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from drystone._messages import first_few
from drystone.errors import ConvergenceWarning
from drystone.forms import Form
from drystone.scores import Score
from drystone.solvers import Solver
from drystone.stacking.checks import required_statistics
from drystone.stacking.result import Stacking
from drystone.stacking.stack import stack
from drystone.table import Table, blocks
from drystone.table.inputs import Selection

__all__ = ["Problem", "fitted_part", "problem_of"]


@dataclass(frozen=True, eq=False)
class Problem:
    """A stacking problem: a form and a score on the rows of a table.

    Attributes:
        table: the rows and members, with only the statistics that the score looks at.
        form: how members are combined.
        score: the objective.
        seed: of the solver.
        solver: None for the one registered for the form and the score.
    """

    table: Table
    form: Form
    score: Score
    seed: int = 0
    solver: Solver | None = None

    def on(self, table: Table) -> Problem:
        """Return the same problem on another table."""
        return replace(self, table=table)

    def part(self, members: Selection = None, rows: Selection = None) -> Problem:
        """Return the same problem on some members and some rows."""
        return self.on(self.table.select(members, rows))

    @cached_property
    def possible(self) -> bool:
        """Whether every row has a density under some member, if densities are looked at."""
        dense = any("log_q" in term.needs for _, term in self.score.terms)
        return not (dense and bool((self.table.log_q == -np.inf).all(0).any()))

    def solve(self) -> Stacking:
        """Fit, without the warnings that the first fit gave already."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", "ranks alone are not a strict criterion")
            return stack(self.table, self.form, self.score, solver=self.solver, seed=self.seed)

    def loss_on(self, table: Table) -> float:
        """Fit, and return the loss on other rows of the same members; +inf if these cannot explain all rows."""
        return self.solve().evaluate(table)["loss"] if self.possible else np.inf


def fitted_part(fit: Stacking, table: Table) -> Table:
    """Return the members and rows of ``table``, the rows that ``fit`` was fitted to, less those it dropped."""
    if differing := sorted(set(table.names) ^ set(fit.names)):
        raise ValueError(
            f"`table` must have the members of `fit`; only one of the two has {first_few(differing)}."
        )
    members = [name for name in fit.names if name not in fit.dropped.get("members", [])]
    dropped = fit.dropped.get("rows", [])
    table = table.select(members=members, rows=np.setdiff1d(np.arange(table.N), dropped) if dropped else None)
    loss = fit.evaluate(table)["loss"] if len(members) == len(fit.names) else fit.loss
    if not np.isclose(loss, fit.loss, rtol=1e-6, atol=1e-9):
        raise ValueError(
            f"`table` must hold the rows that `fit` was fitted to: its loss there was {fit.loss:.6g}, "
            f"on these rows it is {loss:.6g}. (A fit near one observation, `at=`, cannot be advised on.)"
        )
    return table


def problem_of(fit: Stacking, table: Table, seed: int = 0) -> Problem:
    """Return the problem that ``fit`` solves, on ``table``, its :func:`fitted_part`."""
    needs = required_statistics(fit.form, fit.score)
    if needs == {"log_q"}:  # then selecting rows and members need not copy draws
        table = blocks.extract(table, needs, slice(None))
    return Problem(table, fit.form, fit.score, seed, _solver_of(fit))


def _solver_of(fit: Stacking) -> Solver | None:
    """Return the solver of a fit, or None where only its name is known, or it gave up on its own form.

    (A local mixture that fell back is a global one, which the solver of local ones does not solve.)
    """
    solver = fit.solver if isinstance(fit.solver, Solver) else None
    return None if solver is None or solver.unsupported_reason(fit.form, fit.score) else solver
