"""The frozen result of stacking: form, score, parameters, how good they are, and what can be done with them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from drystone._arrays import frozen
from drystone._messages import html_table
from drystone.errors import DamagedError, IntractableError
from drystone.forms import Form, Mixture, Shares, View
from drystone.forms.view import members_in_use, view_of
from drystone.scores import LogScore, Score
from drystone.solvers import Solver, Status
from drystone.stacking import files
from drystone.stacking.applied import Applied
from drystone.stacking.checks import check_members, check_provided, check_tractable, required_statistics
from drystone.table import Table, blocks
from drystone.table.nonfinite import drop_zero_weight_rows

if TYPE_CHECKING:
    from drystone.posterior import StackedPosterior

__all__ = ["Stacking", "losses"]

# What is said of a loss that estimates the quantity from below.
LOWER_BOUND = " (lower bound)"


@dataclass(frozen=True, eq=False, repr=False)
class Stacking:
    """A stack: form, score, parameters, and how good they are known to be.

    :func:`drystone.stack` fits one; :meth:`single` and :meth:`uniform` are what it is held against.

    Attributes:
        form: how members are combined.
        score: what was minimized, and is evaluated on other rows.
        params: the form's parameters, arrays by name; for a mixture, ``weights`` (K,).
        loss: the score on the rows it was fitted to; NaN if it was not fitted.
        terms: the same for each term of a sum, before its coefficient.
        gap: certified bound on how far the objective (the score on the rows fitted, and any Dirichlet or ridge
            penalty) is above its optimum, or None where no certificate exists.
        stationarity: first-order measure that is 0 at a stationary point, or None.
        status: how the solver ended, as a sentence.
        iterations: steps of the solver.
        seconds: wall time; NaN for a fit that was read from a file.
        solver: the solver; only its name, if a file was read and it is not one of Drystone's, or the file is of
            version 0.1; None if nothing was fitted.
        names: the members' names, in the order of the parameters.
        parameters: the names of θ.
        dropped: what was left out: names of members that cannot give what the score needs and, with
            ``nonfinite="drop"``, of those that are not finite; row numbers.
        notes: what else the user should know.
        choice: what was chosen where the form leaves it open, as ``weights="auto"`` does; empty otherwise.

    Example:
        >>> import drystone as ds, tempfile
        >>> table = ds.toy.table(200, seed=1)
        >>> fit = ds.stack(table)
        >>> {name: round(weight, 2) for name, weight in fit.member_weights.items()}
        {'right': 0.14, 'left': 0.25, 'narrow': 0.61}
        >>> fit.loss < ds.Stacking.uniform(table.names).evaluate(table)["loss"]
        True
        >>> fit.save(path := f"{tempfile.mkdtemp()}/fit.json")
        >>> ds.Stacking.load(path).weights.round(2)
        array([0.14, 0.25, 0.61, 0.  ])
    """

    form: Form
    score: Score
    params: Mapping[str, np.ndarray]
    loss: float
    terms: Mapping[str, float]
    gap: float | None
    stationarity: float | None
    status: Status
    iterations: int
    seconds: float
    solver: Solver | str | None
    names: tuple[str, ...]
    parameters: tuple[str, ...]
    dropped: Mapping[str, list[Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    choice: str = ""

    def __post_init__(self) -> None:
        self.form.check_params(self.params, len(self.names), len(self.parameters))

    @classmethod
    def single(
        cls,
        names: Sequence[str] | Table,
        member: int | str,
        *,
        parameters: Sequence[str] = (),
        score: Score = LogScore(),
    ) -> Stacking:
        """Return one member alone, as a mixture that was not fitted: its loss is NaN, and it has no solver.

        Args:
            names: of all members, or a table of them.
            member: its position or its name.
            parameters: the names of θ, for a posterior.
            score: evaluated unless another is passed.

        Example:
            >>> Stacking.single(["left", "right"], "right").weights
            array([0., 1.])
        """
        names, parameters = _names_of(names, parameters)
        known = member in names if isinstance(member, str) else -len(names) <= member < len(names)
        if not known:
            listed = ", ".join(names[:5]) + ("…" if len(names) > 5 else "")
            raise ValueError(
                f"`member` must be the name or the position of one of {len(names)} members ({listed}); got "
                f"{member!r}."
            )
        weights = np.zeros(len(names))
        weights[names.index(member) if isinstance(member, str) else member] = 1.0
        return cls._given(weights, names, parameters, score)

    @classmethod
    def uniform(
        cls,
        names: Sequence[str] | Table,
        *,
        members: Sequence[str] | None = None,
        parameters: Sequence[str] = (),
        score: Score = LogScore(),
    ) -> Stacking:
        """Return all members with the same weight, as a mixture that was not fitted; see :meth:`single`.

        Args:
            names: of all members, or a table of them.
            members: names of those that share the weight; None for all.
            parameters: the names of θ, for a posterior.
            score: evaluated unless another is passed.

        Example:
            >>> Stacking.uniform(["left", "right"]).weights
            array([0.5, 0.5])
        """
        names, parameters = _names_of(names, parameters)
        sharing = np.array([members is None or name in members for name in names])
        return cls._given(sharing / max(sharing.sum(), 1), names, parameters, score)

    @classmethod
    def _given(
        cls, weights: np.ndarray, names: Sequence[str], parameters: Sequence[str], score: Score
    ) -> Stacking:
        return cls(
            form=Mixture(),
            score=score,
            params={"weights": frozen(weights)},
            loss=math.nan,
            terms={},
            gap=None,
            stationarity=None,
            status=Status.NOT_FITTED,
            iterations=0,
            seconds=math.nan,
            solver=None,
            names=tuple(names),
            parameters=tuple(parameters),
        )

    @property
    def converged(self) -> bool:
        """Whether the solver ended as it should; see ``status``."""
        return self.status.converged

    @property
    def weights(self) -> np.ndarray:
        """Weights on the simplex, (K,)."""
        if "weights" not in self.params:
            raise IntractableError(
                f"{type(self.form).__name__} has no single set of weights; see `params`: {', '.join(self.params)}."
            )
        return self.params["weights"]

    @property
    def member_weights(self) -> dict[str, float]:
        """The members that carry weight, by name: what BayesFlow's ensembles take as ``member_weights``."""
        return {name: float(w) for name, w in zip(self.names, self.weights, strict=True) if w > 0}

    def evaluate(self, table: Table, score: Score | None = None) -> dict[str, float]:
        """Return a score on the rows of another table: ``loss``, and each term before its coefficient.

        Args:
            table: with the members of the fit.
            score: None for the one that was fitted.
        """
        score = self.score if score is None else score
        check_tractable(self.form, score)
        check_provided(table, self.form, score)
        needs = required_statistics(self.form, score)
        view = self.view(blocks.prepare(drop_zero_weight_rows(table), needs))
        check_members(view.table, needs)
        loss, terms = losses(view, score)
        return {"loss": loss, **terms}

    def apply(self, table: Table) -> Applied:
        """Return the stacked posterior on the rows of a table: log_q, rank, mean, cov, interval, draws."""
        return Applied(self.view(table), self.form)

    def posterior(
        self, members: Mapping[str, Any] | Sequence[Any], reference: Table | None = None
    ) -> StackedPosterior:
        """Return the stacked posterior at new data.

        Args:
            members: the members themselves, in order or by name; by name (a mapping, or an
                :class:`~drystone.Ensemble`), those without weight may be missing.
            reference: simulations that had no part in the weights, nor in the training of members, with y: test
                rows, say. ``posterior.at(y_o)`` holds an observation against them.
        """
        # Imported here because fits, which are many, need neither adapters nor members.
        from drystone.adapters.member import lacking_names, name_members
        from drystone.posterior import StackedPosterior

        fit = self._without(lacking_names(members, self.names))
        if not fit.parameters:  # one member, or uniform weights, of names alone
            if reference is None:
                raise ValueError(
                    "this fit does not know the parameters: give `parameters` to Stacking.single or "
                    "Stacking.uniform, or a table in the place of names."
                )
            fit = replace(fit, parameters=reference.parameters)
        if reference is not None and fit is not self:
            reference = reference.select(members=list(fit.names))
        return StackedPosterior(fit, name_members(members, fit.names, fit.parameters), reference)

    def _without(self, names: Sequence[str]) -> Stacking:
        """Return the same stack of fewer members, if these carry no weight; itself if they do."""
        if not names:
            return self
        active, params = members_in_use(self.form, self.params, len(self.names))
        carrying = tuple(self.names[int(k)] for k in active)
        if set(names) & set(carrying):
            return self
        return replace(self, names=carrying, params={key: frozen(array) for key, array in params.items()})

    def shares(self, table: Table) -> Shares:
        """Return what each member contributes; weights that depend on the data are averaged over ``table``."""
        return self.form.shares(self.params, table)

    def view(self, table: Table) -> View:
        """Return what a score sees: the form on the rows of a table."""
        if set(table.names) != set(self.names):
            unknown = sorted(set(table.names) ^ set(self.names))
            raise ValueError(
                f"the table's members are not those of the fit; only one of the two has {unknown[:5]}."
            )
        return view_of(self.form, self.params, table.select(members=list(self.names)))

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit as one JSON file, whole or not at all; without ``seconds``, so that reruns are equal.

        It holds the checksum of its own text, which :meth:`load` compares.
        """
        fit = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "seconds"}
        files.write(Path(path), fit)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        score: Score | None = None,
        form: Form | None = None,
        solver: Solver | None = None,
    ) -> Stacking:
        """Read what :meth:`save` wrote, and check it as a new fit is.

        Args:
            path: the file.
            score: the score, if it is one of your own or holds code: code is never stored.
            form: the form, if it is one of your own or holds code, as a local mixture with an embedding does.
            solver: the solver, if it is one of your own; None to have its name instead.

        Raises:
            DamagedError: if the file is not what was written; names it.
        """
        path = Path(path)
        fit = files.read(path, score, form, solver)
        try:
            return cls(**fit, seconds=math.nan)
        except (TypeError, ValueError) as error:
            raise DamagedError(f"{path} is damaged: {error}") from error

    # ── words ────────────────────────────────────────────────────────────────────────────────────────────

    def summary(self) -> str:
        """Return the members that carry weight, the loss by term and the certificate, in words."""
        lines = [repr(self), ""]
        for (_, score), (term, value) in zip(self.score.terms, self.terms.items(), strict=False):
            lines.append(f"  {term:<40} {value: .6g}{LOWER_BOUND if score.lower_bound else ''}")
        lines += ["", *self.form.describe_params(self.params, self.names)]
        lines += [f"  note: {note}" for note in self.notes]
        lines += [f"  dropped {kind}: {items}" for kind, items in self.dropped.items() if items]
        return "\n".join(lines)

    def __repr__(self) -> str:
        carry = ""
        if "weights" in self.params:
            carry = f"{np.count_nonzero(self.weights)} of {len(self.names)} members carry weight"
        if self.status is Status.NOT_FITTED:
            return f"Stacking({self.form!r}: not fitted, {carry})"
        proof = f"gap ≤ {self.gap:.1e}" if self.gap is not None else "no certificate"
        state = "" if self.converged else ", NOT CONVERGED"
        carry = ", ".join(part for part in (self.choice, carry) if part)
        duration = "" if math.isnan(self.seconds) else f", {self.seconds:.2g} s"
        bound = LOWER_BOUND if self.score.lower_bound else ""
        return (
            f"Stacking({self.form!r} × {self.score!r}: loss {self.loss:.6g}{bound}, {proof}{state}, "
            f"{carry + ', ' if carry else ''}{self.solver} in {self.iterations} steps{duration})"
        )

    def _repr_html_(self) -> str:
        """Return the members that carry weight, heaviest first, with the loss and the notes."""
        shares = self.params.get("weights")
        rows = []
        if shares is not None and shares.ndim == 1:
            heaviest = [k for k in np.argsort(-shares, kind="stable") if shares[k] > 0]
            rows = [[self.names[k], f"{shares[k]:.4f}"] for k in heaviest]
        terms = [f"{term}: {value:.6g}" for term, value in self.terms.items()]
        return html_table(repr(self), ["member", "weight"], rows, [*terms, *self.notes])


def losses(view: View, score: Score) -> tuple[float, dict[str, float]]:
    """Return the score, and each of its terms before its coefficient."""
    with torch.no_grad():
        values = [float(term(view)) for _, term in score.terms]
    terms: dict[str, float] = {}
    for (_, term), value in zip(score.terms, values, strict=True):
        if value == math.inf and term.infinite:
            raise ValueError(f"{term!r} is infinite: {term.infinite}.")
        # Two functions of the same name print alike.
        key = repr(term) if repr(term) not in terms else f"{term!r} ({len(terms) + 1})"
        terms[key] = value
    return sum(c * value for (c, _), value in zip(score.terms, values, strict=True)), terms


def _names_of(names: Sequence[str] | Table, parameters: Sequence[str]) -> tuple[tuple[str, ...], Sequence[str]]:
    """Return the names of members, or those of a table, and with these its parameters unless others are named."""
    if isinstance(names, Table):
        return names.names, parameters or names.parameters
    if isinstance(names, str):
        raise TypeError(f"`names` must be the names of all members, or a table of them; got {names!r}.")
    return tuple(names), parameters
