"""What a solver is, and what it hands back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from drystone._spec import Described
from drystone.forms import Form
from drystone.scores import JensenShannon, RowScore, Score
from drystone.solvers.simplex.newton import Minimum
from drystone.table import Table

__all__ = ["Solution", "Solver", "needs_critic", "tolerance"]


@dataclass(frozen=True)
class Solution:
    """Parameters of a form, and how good they are known to be.

    Attributes:
        params: arrays by name.
        gap: certified bound on loss − optimum, or None where there is no certificate.
        stationarity: first-order measure that is 0 at a stationary point, or None.
        converged: whether the tolerance was met.
        iterations: steps taken.
        note: anything the user should read, such as why it stopped.
        form: the form that was fitted, where the solver chose among variants of the one asked for.
    """

    params: dict[str, np.ndarray]
    gap: float | None
    stationarity: float | None
    converged: bool
    iterations: int
    note: str = ""
    form: Form | None = None

    @classmethod
    def certified(cls, minimum: Minimum, tol: float) -> Solution:
        """Of a convex problem: the Frank–Wolfe gap is the certificate."""
        return cls({"weights": minimum.weights}, minimum.gap, minimum.gap, minimum.gap <= tol, minimum.iterations)


class Solver(Described, ABC):
    """How the parameters of a form are found.

    Attributes:
        solves: the (form, score) pairs it is made for; empty if it takes any score.
        handles: the forms it is made for, if it takes any score.
        certifies: whether its results on those carry a proof of how far from the optimum they can be.
        streams: whether it works through tables larger than memory, where the score is a sum over rows.
    """

    solves: ClassVar[tuple[tuple[type[Form], type[Score]], ...]] = ()
    handles: ClassVar[tuple[type[Form], ...]] = ()
    certifies: ClassVar[bool] = False
    streams: ClassVar[bool] = False

    def refuses(self, form: Form, score: Score) -> str:
        """Why it cannot solve this pair, or nothing; asked before anything is solved."""
        if not self.solves:
            return "" if isinstance(form, self.handles) else f"it is made for {_names(self.handles)}"
        terms = [type(term) for _, term in score.terms]
        if len(terms) == 1 and (type(form), terms[0]) in self.solves:
            return ""
        return "it solves " + ", ".join(f"{form.__name__} × {score.__name__}" for form, score in self.solves)

    def in_blocks(self, score: Score) -> bool:
        """Whether it minimises this score on a table it sees in blocks of rows."""
        return self.streams and score.smooth and all(isinstance(term, RowScore) for _, term in score.terms)

    def solve(self, table: Table, form: Form, score: Score, tol: float, seed: int) -> Solution:
        """Minimise the score of the form on the table.

        A single score with a coefficient is solved without it: only penalties of the form then weigh less, and
        the gap more. The tolerance is that of the score itself.
        """
        if len(score.terms) != 1:
            return self._solve(table, form, score, tol, seed)
        c, term = score.terms[0]
        solution = self._solve(table, form.penalised(1 / c), term, tol, seed)
        return replace(
            solution,
            gap=None if solution.gap is None else c * solution.gap,
            stationarity=None if solution.stationarity is None else c * solution.stationarity,
            form=None if solution.form is None else solution.form.penalised(c),
        )

    @abstractmethod
    def _solve(self, table: Table, form: Form, score: Score, tol: float, seed: int) -> Solution:
        """The same for a single score without a coefficient, or a sum."""


def needs_critic(score: Score) -> str:
    """Why only an adversary can minimise a score, or nothing."""
    if any(isinstance(term, JensenShannon) for _, term in score.terms):
        return "JensenShannon has no gradient of its own; leave `solver` out, or use Minimax"
    return ""


def _names(classes: tuple[type, ...]) -> str:
    return " and ".join(cls.__name__ for cls in classes)


def tolerance(tol: float, score: Score, value: float) -> float:
    """How small a gap must be: ``tol``, relative to the loss where that carries the parameters' units.

    A log score is in nats and a rank distance has no unit, so 1e-8 means the same everywhere; a squared error in
    solar masses does not.
    """
    if all(term.has_units for _, term in score.terms):
        return tol * abs(value)
    return tol * max(1.0, abs(value))
