"""What a solver is, and what it hands back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drystone.described import Described
from drystone.forms import Form
from drystone.scores import Score
from drystone.solvers.newton import Minimum
from drystone.table import Table

__all__ = ["Solution", "Solver", "tolerance"]


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
        solves: the (form, score) pairs it is made for; empty if it takes any.
        certifies: whether its results on those carry a proof of how far from the optimum they can be.
    """

    solves: ClassVar[tuple[tuple[type[Form], type[Score]], ...]] = ()
    certifies: ClassVar[bool] = False

    def refuses(self, form: Form, score: Score) -> str:
        """Why it cannot solve this pair, or nothing; asked before anything is solved."""
        terms = [type(term) for _, term in score.terms]
        if not self.solves or (len(terms) == 1 and (type(form), terms[0]) in self.solves):
            return ""
        pairs = ", ".join(f"{form.__name__} × {score.__name__}" for form, score in self.solves)
        return f"it solves {pairs}"

    @abstractmethod
    def solve(self, table: Table, form: Form, score: Score, tol: float, seed: int) -> Solution:
        """Minimise the score of the form on the table."""


def tolerance(tol: float, score: Score, value: float) -> float:
    """How small a gap must be: ``tol``, relative to the loss where that carries the parameters' units.

    A log score is in nats and a rank distance has no unit, so 1e-8 means the same everywhere; a squared error in
    solar masses does not.
    """
    if all(term.has_units for _, term in score.terms):
        return tol * abs(value)
    return tol * max(1.0, abs(value))
