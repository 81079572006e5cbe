"""The frozen result of stacking: what was asked, what was found, how good it is, and what it can do."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from drystone import forms, scores
from drystone._files import replacing
from drystone._messages import require
from drystone.errors import IntractableError
from drystone.forms import Form, View
from drystone.forms.view import GatheredView
from drystone.scores import Score, Sum
from drystone.stacking.checks import check_provided, check_tractable, needed
from drystone.table import Table, blocks
from drystone.table.inputs import as_levels, each_level
from drystone.table.nonfinite import drop_zero_weight_rows

if TYPE_CHECKING:
    from drystone.posterior import StackedPosterior

__all__ = ["Applied", "Stacking", "as_tensors", "frozen", "losses", "view_of"]

FORMAT, VERSION = "drystone-stacking", 1


@dataclass(frozen=True, eq=False, repr=False)
class Stacking:
    """A fitted stack: what was asked, what was found, and how good it is known to be.

    Attributes:
        form: how members are combined.
        score: what was minimised.
        params: the form's parameters, arrays by name; for a mixture, ``weights`` (K,).
        loss: the score on the rows it was fitted to.
        terms: the same for each term of a sum, before its coefficient.
        gap: certified bound on how far the objective (the score on the rows fitted, and any Dirichlet or ridge
            penalty) is above its optimum, or None where no certificate exists.
        stationarity: first-order measure that is 0 at a stationary point, or None.
        converged: whether the tolerance was met.
        iterations: steps of the solver.
        seconds: wall time; NaN for a fit that was read from a file.
        solver: which one.
        names: the members' names, in the order of the parameters.
        parameters: the names of θ.
        dropped: what ``nonfinite="drop"`` left out: member names and row numbers.
        notes: what else the user should know.
    """

    form: Form
    score: Score
    params: Mapping[str, np.ndarray]
    loss: float
    terms: Mapping[str, float]
    gap: float | None
    stationarity: float | None
    converged: bool
    iterations: int
    seconds: float
    solver: str
    names: tuple[str, ...]
    parameters: tuple[str, ...]
    dropped: Mapping[str, list[Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

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
        """A score on the rows of another table: ``loss``, and each term before its coefficient.

        Args:
            table: with the members of the fit.
            score: None for the one that was fitted.
        """
        score = self.score if score is None else score
        check_tractable(self.form, score)
        check_provided(table, self.form, score)
        loss, terms = losses(
            self.view(blocks.prepare(drop_zero_weight_rows(table), needed(self.form, score))), score
        )
        return {"loss": loss, **terms}

    def apply(self, table: Table) -> Applied:
        """The stacked posterior on the rows of a table: log_q, rank, mean, cov, interval, draws."""
        return Applied(self.view(table), self.form)

    def posterior(self, members: Mapping[str, Any] | Sequence[Any]) -> StackedPosterior:
        """The stacked posterior at new data, out of the members themselves."""
        from drystone.posterior import stacked_posterior

        return stacked_posterior(self, members)

    def view(self, table: Table) -> View:
        """What a score sees: our form on the rows of a table."""
        if set(table.names) != set(self.names):
            unknown = sorted(set(table.names) ^ set(self.names))
            raise ValueError(
                f"the table's members are not those of the fit; only one of the two has {unknown[:5]}."
            )
        return view_of(self.form, self.params, table.select(members=list(self.names)))

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit as one JSON file, whole or not at all; without ``seconds``, so that reruns are equal."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "seconds"}
        plain |= {"form": self.form.describe(), "score": self.score.describe()}
        plain["params"] = {
            name: {"shape": array.shape, "dtype": str(array.dtype), "values": array.ravel().tolist()}
            for name, array in self.params.items()
        }
        plain = {"format": FORMAT, "version": VERSION, **plain}
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(plain, indent=1, default=lambda number: number.item()))

    @classmethod
    def load(cls, path: str | os.PathLike[str], score: Score | None = None, form: Form | None = None) -> Stacking:
        """Read what :meth:`save` wrote.

        Args:
            path: the file.
            score: the score, if it is one of your own: code is never stored.
            form: the form, if it holds code: a local mixture with an embedding.
        """
        try:
            plain = json.loads(Path(path).read_text())
        except json.JSONDecodeError as error:
            raise ValueError(f"{os.fspath(path)!r} is not a complete JSON file: {error}.") from None
        kind, version = plain.pop("format", None), plain.pop("version", 0)
        if kind != FORMAT or version > VERSION:
            raise ValueError(
                f"{os.fspath(path)!r} is {kind!r} version {version}; expected {FORMAT!r} up to version {VERSION}."
            )
        if form is None and plain["form"].get("embedding"):
            raise ValueError(
                "the fit has an embedding, which is code and not stored; pass it: load(path, form=...)."
            )
        plain["form"] = _revive(plain["form"], forms) if form is None else form
        plain["score"] = _revive_score(plain["score"]) if score is None else score
        plain["params"] = {
            name: frozen(np.array(a["values"], a["dtype"]).reshape(a["shape"]))
            for name, a in plain["params"].items()
        }
        for name in ("names", "parameters", "notes"):
            plain[name] = tuple(plain[name])
        return cls(**{"seconds": math.nan, **plain})

    # ── words ────────────────────────────────────────────────────────────────────────────────────────────

    def summary(self) -> str:
        """Who carries weight, the loss by term, the certificate."""
        lines = [repr(self), ""]
        lines += [f"  {term:<40} {value: .6g}" for term, value in self.terms.items()]
        lines += ["", *self.form.describe_params(self.params, self.names)]
        lines += [f"  note: {note}" for note in self.notes]
        lines += [f"  dropped {kind}: {items}" for kind, items in self.dropped.items() if items]
        return "\n".join(lines)

    def __repr__(self) -> str:
        proof = f"gap ≤ {self.gap:.1e}" if self.gap is not None else "no certificate"
        state = "" if self.converged else ", NOT CONVERGED"
        carry = ""
        if "weights" in self.params:
            carry = f"{np.count_nonzero(self.weights)} of {len(self.names)} members carry weight, "
        duration = "" if math.isnan(self.seconds) else f", {self.seconds:.2g} s"
        return (
            f"Stacking({self.form!r} × {self.score!r}: loss {self.loss:.6g}, {proof}{state}, "
            f"{carry}{self.solver} in {self.iterations} steps{duration})"
        )


class Applied:
    """A stacked posterior on the rows of a table, as NumPy arrays; computed when asked for."""

    def __init__(self, view: View, form: Form) -> None:
        self._view, self._form = view, form

    @property
    def log_q(self) -> np.ndarray:
        """Log density at the true parameters, (N,)."""
        return self._array("log_q", self._view.log_q)

    @property
    def rank(self) -> np.ndarray:
        """Ranks of the true parameters, (N, d)."""
        return self._array("rank", self._view.rank)

    @property
    def mean(self) -> np.ndarray:
        """Posterior means, (N, d)."""
        return self._array("mean", self._view.mean)

    @property
    def cov(self) -> np.ndarray:
        """Posterior covariances, (N, d, d)."""
        return self._array("moments", self._view.cov)

    def interval(self, alpha: float) -> np.ndarray:
        """Central 1 − alpha intervals, (N, d, 2)."""
        (level,) = each_level(as_levels(alpha))
        return self._array("interval", lambda: self._view.interval(level))

    def draws(self, n: int | None = None, seed: int = 0) -> np.ndarray:
        """Draws of the stacked posterior out of the table's draws, (N, n, d)."""
        return self._array("draws", lambda: self._view.draws(n, seed))

    def to_arviz(self) -> Any:
        """The ranks as simulation-based calibration for ArviZ: group ``prior_sbc``, for ``plot_ecdf_pit``.

        A ``DataTree``, or ``InferenceData`` if ArviZ is older than 1.0. Row weights have no place in it.
        """
        require("xarray", "files", "to_arviz")
        from drystone.adapters.to_arviz import ranks_group

        return ranks_group(self._view.table.parameters, self.rank)

    def _array(self, statistic: str, make: Any) -> np.ndarray:
        if statistic not in self._form.gives:
            raise IntractableError(
                f"{type(self._form).__name__} does not give `{statistic}` "
                f"(it gives: {', '.join(sorted(self._form.gives))})."
            )
        needed = self._form.requires(statistic)
        if needed not in self._view.table.gives:
            raise ValueError(f"the table has no `{needed}`, which `{statistic}` of {self._form!r} needs.")
        with torch.no_grad():
            return make().numpy()


def view_of(form: Form, params: Mapping[str, np.ndarray], table: Table) -> View:
    """The form on a table of its members, of which only those that matter are looked at."""
    used, of_used = form.used(params)
    if len(used) == 0:  # all parameters are 0: then any member will do
        used, of_used = np.arange(table.K), dict(params)
    table = table.select(members=used) if len(used) < table.K else table
    if not blocks.in_memory(table):
        return GatheredView(form, as_tensors(of_used), table)
    return form.combine(as_tensors(of_used), table)


def losses(view: View, score: Score) -> tuple[float, dict[str, float]]:
    """The score, and each of its terms before its coefficient."""
    with torch.no_grad():
        values = [float(term(view)) for _, term in score.terms]
    terms: dict[str, float] = {}
    for (_, term), value in zip(score.terms, values, strict=True):
        # Two functions of the same name print alike.
        key = repr(term) if repr(term) not in terms else f"{term!r} ({len(terms) + 1})"
        terms[key] = value
    return sum(c * value for (c, _), value in zip(score.terms, values, strict=True)), terms


def as_tensors(params: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """Parameters as a form takes them."""
    return {name: torch.tensor(array) for name, array in params.items()}


def frozen(array: np.ndarray) -> np.ndarray:
    """A copy that cannot be written to."""
    array = np.array(array)
    array.flags.writeable = False
    return array


def _revive(plain: dict[str, Any], module: Any) -> Any:
    plain = dict(plain)
    name = plain.pop("name")
    cls = getattr(module, name, None)
    if cls is None:
        known = ", ".join(module.__all__)
        raise ValueError(
            f"the file names {name!r}, which is not one of Drystone's ({known}). If it is a score of your own, "
            "pass it: Stacking.load(path, score=...)."
        )
    code = [key for key, value in plain.items() if isinstance(value, dict)]
    if code:
        raise ValueError(
            f"`{code[0]}` of {name} is code, which is not stored; pass the object again: "
            "Stacking.load(path, score=...) or (path, form=...)."
        )
    return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()})


def _revive_score(plain: dict[str, Any]) -> Score:
    if plain["name"] == "Sum":
        return Sum(tuple((coefficient, _revive(term, scores)) for coefficient, term in plain["terms"]))
    return _revive(plain, scores)
