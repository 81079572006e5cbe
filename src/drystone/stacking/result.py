"""The frozen result of stacking: form, score, parameters, how good they are, and what can be done with them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from drystone import forms, scores, solvers
from drystone._files import read_sealed_json, without_seal, write_sealed_json
from drystone._messages import html_table, require
from drystone.errors import DamagedError, IntractableError
from drystone.forms import Form, Mixture, Shares, View
from drystone.forms.view import members_in_use, view_of
from drystone.scores import LogScore, Score, Sum
from drystone.solvers import Solver, Status
from drystone.stacking.checks import check_members, check_provided, check_tractable, required_statistics
from drystone.table import Table, blocks
from drystone.table.inputs import as_levels, each_level
from drystone.table.nonfinite import drop_zero_weight_rows

if TYPE_CHECKING:
    from drystone.posterior import StackedPosterior

__all__ = ["Applied", "Stacking", "frozen", "losses"]

# What is said of a loss that estimates the quantity from below.
LOWER_BOUND = " (lower bound)"

FORMAT, VERSION = "drystone-stacking", 2


@dataclass(frozen=True, eq=False, repr=False)
class Stacking:
    """A stack: form, score, parameters, and how good they are known to be.

    :func:`drystone.stack` fits one; :meth:`single` and :meth:`uniform` are what it is held against.

    Attributes:
        form: how members are combined.
        score: what was minimised, and is evaluated on other rows.
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
        names: Sequence[str],
        member: int | str,
        *,
        parameters: Sequence[str] = (),
        score: Score = LogScore(),
    ) -> Stacking:
        """Return one member alone, as a mixture that was not fitted: its loss is NaN, and it has no solver.

        Args:
            names: of all members.
            member: its position or its name.
            parameters: the names of θ, for a posterior.
            score: evaluated unless another is passed.

        Example:
            >>> Stacking.single(["left", "right"], "right").weights
            array([0., 1.])
        """
        names = tuple(names)
        if isinstance(member, str) and member not in names:
            raise ValueError(f"`member` must be the name of a member; got {member!r}, not one of {names[:5]}….")
        weights = np.zeros(len(names))
        weights[names.index(member) if isinstance(member, str) else member] = 1.0
        return cls._given(weights, names, parameters, score)

    @classmethod
    def uniform(
        cls,
        names: Sequence[str],
        *,
        members: Sequence[str] | None = None,
        parameters: Sequence[str] = (),
        score: Score = LogScore(),
    ) -> Stacking:
        """Return all members with the same weight, as a mixture that was not fitted; see :meth:`single`.

        Args:
            names: of all members.
            members: names of those that share the weight; None for all.
            parameters: the names of θ, for a posterior.
            score: evaluated unless another is passed.

        Example:
            >>> Stacking.uniform(["left", "right"]).weights
            array([0.5, 0.5])
        """
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
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "seconds"}
        plain |= {"form": self.form.describe(), "score": self.score.describe(), "status": self.status.name}
        if isinstance(self.solver, Solver):
            plain["solver"] = self.solver.describe()
        plain["params"] = {
            name: {"shape": array.shape, "dtype": str(array.dtype), "values": array.ravel().tolist()}
            for name, array in self.params.items()
        }
        plain = {"format": FORMAT, "version": VERSION, "checksum": "", **plain}
        write_sealed_json(Path(path), plain, default=lambda number: number.item())

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
        try:
            plain = _read(path)
            plain["form"] = _revive(plain["form"], forms, "form") if form is None else form
            plain["score"] = _revive_score(plain["score"]) if score is None else score
            plain["solver"] = _revive_solver(plain["solver"]) if solver is None else solver
        except (KeyError, TypeError, AttributeError) as error:
            raise DamagedError(f"{path} is not a complete fit ({type(error).__name__}: {error}).") from error
        except DamagedError:
            raise
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        try:
            plain["status"] = Status[plain["status"]]
            plain["params"] = {
                name: frozen(np.array(a["values"], _number(a["dtype"])).reshape(a["shape"]))
                for name, a in plain["params"].items()
            }
            for name in ("names", "parameters", "notes"):
                plain[name] = tuple(plain[name])
            return cls(**{"seconds": math.nan, **plain})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
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


class Applied:
    """A stacked posterior on the rows of a table, as NumPy arrays that are computed on access."""

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
        """Return central 1 − alpha intervals, (N, d, 2)."""
        (level,) = each_level(as_levels(alpha))
        return self._array("interval", lambda: self._view.interval(level))

    def draws(self, n: int | None = None, seed: int = 0) -> np.ndarray:
        """Return draws of the stacked posterior out of the table's draws, (N, n, d)."""
        return self._array("draws", lambda: self._view.draws(n, seed))

    def to_arviz(self) -> Any:
        """Return the ranks as simulation-based calibration for ArviZ: group ``prior_sbc``, for ``plot_ecdf_pit``.

        A ``DataTree``, or ``InferenceData`` if ArviZ is older than 1.0. Row weights have no place in it.
        """
        require("xarray", "files", "to_arviz")
        from drystone.adapters.to_arviz import ranks_group

        return ranks_group(self._view.table.parameters, self.rank)

    def _array(self, statistic: str, make: Callable[[], torch.Tensor]) -> np.ndarray:
        self._form.check_gives(statistic)
        needed = self._form.requires(statistic)
        if needed not in self._view.table.gives:
            raise ValueError(f"the table has no `{needed}`, which `{statistic}` of {self._form!r} needs.")
        check_members(self._view.table, {needed})
        with torch.no_grad():
            return make().numpy()


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


def frozen(array: np.ndarray) -> np.ndarray:
    """Return a copy that cannot be written to."""
    array = np.array(array)
    array.flags.writeable = False
    return array


def _read(path: Path) -> dict[str, Any]:
    """Return what the file of a fit holds, if it is unchanged, with the fields of the present version."""
    plain, has_checksum = read_sealed_json(path, follow=True)
    kind, version = plain.pop("format", None), plain.pop("version", 0)
    if not isinstance(version, int):
        raise DamagedError(f"{path} is damaged: its version is {version!r}.")
    if kind != FORMAT or version > VERSION:
        raise ValueError(f"it is {kind!r} version {version}; expected {FORMAT!r} up to version {VERSION}.")
    if not has_checksum and version > 1:
        raise without_seal(path)
    if not has_checksum:  # version 0.1 wrote none
        converged = plain.pop("converged")
        finished = Status.CONVERGED if plain["gap"] is None else Status.CERTIFIED
        plain["status"] = (finished if converged else Status.STALLED).name
    return plain


def _number(dtype: str) -> np.dtype:
    """Return a type of numbers; text of a billion letters would take the memory, and objects are not stored."""
    if np.dtype(dtype).kind not in "fiub":
        raise ValueError(f"parameters of type {dtype!r}; expected numbers.")
    return np.dtype(dtype)


def _revive(plain: dict[str, Any], module: ModuleType, kind: str) -> Any:
    """Return the form, score or solver that a file describes."""
    plain = dict(plain)
    name = plain.pop("name")
    cls = getattr(module, name) if name in module.__all__ else None
    if not isinstance(cls, type):
        known = ", ".join(module.__all__)
        raise ValueError(
            f"the file names the {kind} {name!r}, which is not one of Drystone's ({known}). If it is one of your "
            f"own, pass it: Stacking.load(path, {kind}=...)."
        )
    code = [key for key, value in plain.items() if isinstance(value, dict) and "code" in value]
    if code:
        raise ValueError(
            f"`{code[0]}` of {name} is code, which is not stored; pass the object again: "
            f"Stacking.load(path, {kind}=...)."
        )
    return cls(**{key: _revive_field(value, module, kind) for key, value in plain.items()})


def _revive_field(value: Any, module: ModuleType, kind: str) -> Any:
    if isinstance(value, dict) and "distribution" in value:
        from drystone.simulation.prior import described_prior

        return described_prior(value)
    if isinstance(value, dict):
        return _revive(value, module, kind)
    return tuple(value) if isinstance(value, list) else value


def _revive_score(plain: dict[str, Any]) -> Score:
    if plain["name"] == "Sum":
        return Sum(tuple((coefficient, _revive(term, scores, "score")) for coefficient, term in plain["terms"]))
    return _revive(plain, scores, "score")


def _revive_solver(plain: dict[str, Any] | str | None) -> Solver | str | None:
    """Return the solver, or its name if it is not one of Drystone's; version 0.1 wrote no more than its repr."""
    if not isinstance(plain, dict):
        return plain
    return _revive(plain, solvers, "solver") if plain["name"] in solvers.__all__ else plain["name"]
