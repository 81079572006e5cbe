"""A solver, and its result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar, Generic, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from drystone._spec import Spec
from drystone.errors import IntractableError
from drystone.forms import Form, View
from drystone.scores import RowScore, Score
from drystone.solvers.simplex.newton import Minimum
from drystone.table import Table

__all__ = ["Solution", "Solver", "Status", "differentiable", "needs_critic", "tolerance", "unit_of_loss"]

F = TypeVar("F", bound=Form)
S = TypeVar("S", bound=Score)


class Status(Enum):
    """How a fit ended, as a sentence.

    Example:
        >>> import drystone as ds
        >>> fit = ds.stack(ds.toy.table(200, seed=1))
        >>> fit.status is ds.solvers.Status.CERTIFIED, fit.status.converged
        (True, True)
        >>> print(fit.status)
        converged: the certificate is within the tolerance
    """

    CERTIFIED = "converged: the certificate is within the tolerance"
    CONVERGED = "converged, without a certificate"
    NOISE_FLOOR = "converged to the noise of the draws, which the gap includes"
    HELD_OUT = "stopped where held-out rows were fitted best, without a certificate"
    STEP_LIMIT = "not converged: the step limit was reached before the tolerance"
    STALLED = "not converged: no step made progress before the tolerance was met"
    NOT_FITTED = "not fitted: the parameters were given"

    @property
    def converged(self) -> bool:
        """Whether the solver ended as it should."""
        return self in (Status.CERTIFIED, Status.CONVERGED, Status.NOISE_FLOOR, Status.HELD_OUT)

    @classmethod
    def of(cls, gap: float, tol: float, *, certified: bool, at_limit: bool) -> Status:
        """Return the status of a solver that stops when its gap (or stationarity) is within a tolerance."""
        if gap <= tol:
            return cls.CERTIFIED if certified else cls.CONVERGED
        return cls.STEP_LIMIT if at_limit else cls.STALLED

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Solution:
    """Parameters of a form, and how good they are known to be.

    Attributes:
        params: arrays by name.
        gap: certified bound on loss − optimum, or None where there is no certificate.
        stationarity: first-order measure that is 0 at a stationary point, or None.
        status: how the solver ended.
        iterations: steps taken.
        note: a sentence for the user, such as why it stopped.
        form: the form that was fitted, where the solver chose among variants.
        choice: which variant that is, in words; empty where there was nothing to choose.

    Example:
        >>> import drystone as ds
        >>> table = ds.toy.table(200, seed=1)
        >>> solution = ds.solvers.SQP().solve(table, ds.Mixture(), ds.LogScore(), tol=1e-8, seed=0)
        >>> solution.status.name, solution.params["weights"].round(2)
        ('CERTIFIED', array([0.14, 0.25, 0.61, 0.  ]))
    """

    params: dict[str, np.ndarray]
    gap: float | None
    stationarity: float | None
    status: Status
    iterations: int
    note: str = ""
    form: Form | None = None
    choice: str = ""

    @property
    def converged(self) -> bool:
        """Whether the solver ended as it should."""
        return self.status.converged

    @classmethod
    def certified(cls, minimum: Minimum, tol: float, limit: int) -> Solution:
        """Return the solution of a convex problem, whose Frank–Wolfe gap is the certificate."""
        status = Status.of(minimum.gap, tol, certified=True, at_limit=minimum.iterations >= limit)
        return cls({"weights": minimum.weights}, minimum.gap, minimum.gap, status, minimum.iterations)


class Solver(Spec, ABC, Generic[F, S]):
    """An algorithm that fits the parameters of a form.

    A solver of your own defines ``minimize``, and says in ``handles`` or ``solves`` what it is made for.

    Attributes:
        solves: the (form, score) pairs it is made for; empty if it takes any score.
        handles: the forms it is made for, if it takes any score.
        certifies: whether its results on those carry a proof of how far from the optimum they can be.
        streams: whether it works through tables larger than memory, where the score is a sum over rows.

    Example:
        >>> import drystone as ds, numpy as np
        >>> class Best(ds.solvers.Solver):
        ...     handles = (ds.Mixture,)
        ...     def minimize(self, table, form, score, tol, seed):
        ...         alone = [ds.Stacking.single(table.names, name).evaluate(table, score) for name in table.names]
        ...         params = {"weights": np.eye(table.K)[np.argmin([result["loss"] for result in alone])]}
        ...         return ds.solvers.Solution(params, None, None, ds.solvers.Status.CONVERGED, table.K)
        >>> ds.stack(ds.toy.table(200, seed=1), solver=Best()).weights
        array([0., 0., 1., 0.])
    """

    solves: ClassVar[tuple[tuple[type[Form], type[Score]], ...]] = ()
    handles: ClassVar[tuple[type[Form], ...]] = (Form,)
    certifies: ClassVar[bool] = False
    streams: ClassVar[bool] = False

    def unsupported_reason(self, form: Form, score: Score) -> str:
        """Return why it cannot solve this pair, or an empty text; asked before anything is solved."""
        if not self.solves:
            made_for_it = any(cls in self.handles for cls in type(form).__mro__)
            return "" if made_for_it else f"it is made for {' and '.join(cls.__name__ for cls in self.handles)}"
        terms = [type(term) for _, term in score.terms]
        if len(terms) == 1 and (type(form), terms[0]) in self.solves:
            return ""
        return "it solves " + ", ".join(f"{form.__name__} × {score.__name__}" for form, score in self.solves)

    def in_blocks(self, score: Score) -> bool:
        """Return whether it minimizes this score on a table that it sees in blocks of rows."""
        return self.streams and score.smooth and all(isinstance(term, RowScore) for _, term in score.terms)

    def solve(self, table: Table, form: Form, score: Score, tol: float, seed: int) -> Solution:
        """Minimize the score of the form on the table.

        A single score with a coefficient is solved without it: only penalties of the form then weigh less, and
        the gap more. The tolerance is that of the score itself.
        """
        if len(score.terms) != 1:
            return self.minimize(table, cast(F, form), cast(S, score), tol, seed)
        c, term = score.terms[0]
        solution = self.minimize(table, cast(F, form.penalised(1 / c)), cast(S, term), tol, seed)
        return replace(
            solution,
            gap=None if solution.gap is None else c * solution.gap,
            stationarity=None if solution.stationarity is None else c * solution.stationarity,
            form=None if solution.form is None else solution.form.penalised(c),
        )

    @abstractmethod
    def minimize(self, table: Table, form: F, score: S, tol: float, seed: int) -> Solution:
        """Minimize a single score without a coefficient, or a sum.

        Args:
            table: the rows, all finite.
            form: one that ``unsupported_reason`` does not refuse.
            score: the same.
            tol: the gap, or the stationarity, to reach.
            seed: of anything random.
        """


def needs_critic(score: Score) -> str:
    """Return why only an adversary can minimize a score, or an empty text."""
    for _, term in score.terms:
        if term.adversarial:
            return f"{type(term).__name__} has no gradient of its own; leave `solver` out, or use Minimax"
    return ""


def differentiable(score: Score, view: View) -> Tensor:
    """Return the score of a view whose parameters have gradients; raise if one of its terms has none.

    Comparisons, rounding, ``.detach()`` and ``.numpy()`` lose it, and the parameters would be left where they are.
    """
    values = [coefficient * term(view) for coefficient, term in score.terms]
    for value, (_, term) in zip(values, score.terms, strict=True):
        if not value.requires_grad:
            raise IntractableError(
                f"{term!r} has no gradient in what is fitted: comparisons, rounding, .detach() and .numpy() lose "
                "it. Write it with torch operations that can be differentiated; or set `smooth = False` in "
                f"{type(term).__name__} and stack a Mixture(), whose weights are then searched."
            )
    return torch.stack(values).sum()


def tolerance(tol: float, score: Score, value: float) -> float:
    """Return how small a gap must be: ``tol``, relative to the loss where that carries the parameters' units.

    A log score is in nats and a rank distance has no unit, so 1e-8 means the same everywhere; a squared error in
    solar masses does not.
    """
    if all(term.has_units for _, term in score.terms):
        return tol * abs(value)
    return tol * max(1.0, abs(value))


def unit_of_loss(score: Score, value: float) -> float:
    """Return what a penalty of one nat is worth: the loss ``value`` where that carries the parameters' units."""
    return abs(value) if all(term.has_units for _, term in score.terms) else 1.0
