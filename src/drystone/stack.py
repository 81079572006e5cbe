"""Form × score → weights: the one function the rest of the library is built around, and its frozen result."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from drystone import forms, scores, solvers
from drystone.errors import ConvergenceWarning, IntractableError
from drystone.files import replacing
from drystone.forms import Form, Mixture, View
from drystone.kernel import near
from drystone.scores import LogScore, RankCvM, RankMoments, Score, Sum
from drystone.solvers import Solution, Solver
from drystone.table import Table
from drystone.threads import one_thread

if TYPE_CHECKING:
    from drystone.posterior import StackedPosterior

__all__ = ["Applied", "Stacking", "as_tensors", "stack"]

FORMAT, VERSION = "drystone-stacking", 1


def stack(
    table: Table,
    form: Form = Mixture(),
    score: Score = LogScore(),
    *,
    solver: Solver | None = None,
    tol: float = 1e-8,
    seed: int = 0,
    nonfinite: str = "raise",
    at: Any = None,
    bandwidth: float | None = None,
) -> Stacking:
    """Find the parameters of ``form`` that minimise ``score`` on ``table``.

    Args:
        table: K members on N simulations that none of them was trained on.
        form: how to combine them.
        score: what to be good at; scores add and scale.
        solver: overrides the one registered for this form and score.
        tol: stop when the certificate (or the stationarity, where there is none) is below this.
        seed: of random starts.
        nonfinite: what to do with members whose statistics are NaN or +inf, and rows where every density is 0:
            "raise", or "drop" them and list them in the result.
        at: an observation; rows whose y is near it count more, so that the weights are those for this y.
        bandwidth: how near, in standard deviations of y; None for one that leaves a quarter of the rows.

    Raises:
        IntractableError: the form cannot give what the score needs; before anything is solved.

    Example:
        >>> import drystone as ds
        >>> fit = ds.stack(ds.toy.table(500, seed=1))
        >>> fit.weights.round(2), fit.gap < 1e-8
        (array([0.28, 0.36, 0.37, 0.  ]), True)
    """
    _check_tractable(form, score)
    _check_provided(table, form, score)
    solver = solvers.pick(form, score) if solver is None else solver
    _check_solver(solver, form, score)
    if all(isinstance(term, RankCvM | RankMoments) for _, term in score.terms):
        warnings.warn(
            "ranks alone are not a strict criterion: the prior itself is perfectly rank-calibrated. "
            "Add a strict score, such as LogScore() + 0.1 * RankCvM().",
            stacklevel=2,
        )
    begun = time.perf_counter()
    notes = []
    if at is not None:
        table, note = near(table, at, bandwidth)
        notes.append(note)
    elif bandwidth is not None:
        raise ValueError("`bandwidth` goes with `at`, the observation to be near to.")
    cleaned, dropped = _clean(table, form, score, nonfinite)
    kept = np.array([table.names.index(name) for name in cleaned.names])
    with one_thread():
        solution = solver.solve(cleaned, form, score, tol, seed)
        form = solution.form or form
        params = solution.params if len(kept) == table.K else form.embed(solution.params, kept, table.K)
        loss, terms = _losses(_view(form, solution.params, cleaned), score)
    fit = Stacking(
        form=form,
        score=score,
        params={name: _frozen(array) for name, array in params.items()},
        loss=loss,
        terms=terms,
        gap=solution.gap,
        stationarity=solution.stationarity,
        converged=solution.converged,
        iterations=solution.iterations,
        seconds=time.perf_counter() - begun,
        solver=repr(solver),
        names=table.names,
        parameters=table.parameters,
        dropped=dropped,
        notes=(*notes, *_notes(solution, cleaned, form)),
    )
    if not solution.converged:
        warnings.warn(_unconverged(solution, solver, tol), ConvergenceWarning, stacklevel=2)
    return fit


@dataclass(frozen=True, eq=False, repr=False)
class Stacking:
    """A fitted stack: what was asked, what was found, and how good it is known to be.

    Attributes:
        form: how members are combined.
        score: what was minimised.
        params: the form's parameters, arrays by name; for a mixture, ``weights`` (K,).
        loss: the score on the rows it was fitted to.
        terms: the same for each term of a sum, before its coefficient.
        gap: certified bound on loss − optimum, or None where no certificate exists.
        stationarity: first-order measure that is 0 at a stationary point, or None.
        converged: whether the tolerance was met.
        iterations: steps of the solver.
        seconds: wall time.
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

    def evaluate(self, table: Table) -> dict[str, float]:
        """The score on the rows of another table: ``loss``, and each term before its coefficient."""
        _check_provided(table, self.form, self.score)
        loss, terms = _losses(self.view(table), self.score)
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
        return _view(self.form, self.params, table.select(members=list(self.names)))

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit as one JSON file, whole or not at all."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        plain |= {"form": self.form.describe(), "score": self.score.describe()}
        plain["params"] = {
            name: {"shape": array.shape, "dtype": str(array.dtype), "values": array.ravel().tolist()}
            for name, array in self.params.items()
        }
        plain = {"format": FORMAT, "version": VERSION, **plain}
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(plain, default=repr, indent=1))

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
            name: _frozen(np.array(a["values"], a["dtype"]).reshape(a["shape"]))
            for name, a in plain["params"].items()
        }
        for name in ("names", "parameters", "notes"):
            plain[name] = tuple(plain[name])
        return cls(**plain)

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
        return (
            f"Stacking({self.form!r} × {self.score!r}: loss {self.loss:.6g}, {proof}{state}, "
            f"{carry}{self.solver} in {self.iterations} steps, {self.seconds:.2g} s)"
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
        return self._array("interval", lambda: self._view.interval(alpha))

    def draws(self, n: int | None = None, seed: int = 0) -> np.ndarray:
        """Draws of the stacked posterior out of the table's draws, (N, n, d)."""
        return self._array("draws", lambda: self._view.draws(n, seed))

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


# ── checks, before anything is solved ────────────────────────────────────────────────────────────────────────


def _check_tractable(form: Form, score: Score) -> None:
    for _, term in score.terms:
        for missing in sorted(term.needs - form.gives):
            able = [cls.__name__ for cls in forms.FORMS if term.needs <= cls.gives]
            raise IntractableError(
                f"{term!r} needs `{missing}`, which {type(form).__name__} does not give "
                f"(it gives: {', '.join(sorted(form.gives))}). Forms that do: {', '.join(able) or 'none'}."
            )
    if not score.terms:
        raise ValueError("the score has no term with a coefficient above 0.")


def _check_provided(table: Table, form: Form, score: Score) -> None:
    for _, term in score.terms:
        for statistic in sorted(term.needs):
            needed = form.requires(statistic)
            if needed not in table.gives:
                source = _SOURCES[needed]
                raise ValueError(
                    f"{term!r} with {form!r} needs {source}; the table gives: {', '.join(sorted(table.gives))}."
                )


_SOURCES = {
    "log_q": "`log_q`",
    "rank": "`rank` or `draws`",
    "mean": "`mean` or `draws`",
    "moments": "`mean` and `cov`, or `draws`",
    "interval": "`quantiles` or `draws`",
    "draws": "`draws`",
}


def _check_solver(solver: Solver, form: Form, score: Score) -> None:
    why = solver.refuses(form, score)
    if why:
        raise IntractableError(f"{solver!r} cannot solve {form!r} × {score!r}: {why}.")


def _clean(table: Table, form: Form, score: Score, nonfinite: str) -> tuple[Table, dict[str, list[Any]]]:
    """The table without what cannot be used, and the list of that; or an error that names it."""
    if nonfinite not in ("raise", "drop"):
        raise ValueError(f'`nonfinite` must be "raise" or "drop"; got {nonfinite!r}.')
    needed = {form.requires(statistic) for _, term in score.terms for statistic in term.needs}
    bad = {name: _bad_rows(table, name) for name in sorted(needed)}
    bad_members = np.logical_or.reduce([rows.any(1) for rows in bad.values()])
    if bad_members.any() and nonfinite == "raise":
        name, rows = next((name, rows) for name, rows in bad.items() if rows.any())
        counts = [(table.names[k], int(rows[k].sum())) for k in np.flatnonzero(rows.any(1))]
        listed = ", ".join(f"{member!r} at {count} of {table.N} rows" for member, count in counts[:5])
        more = f" and {len(counts) - 5} more members" if len(counts) > 5 else ""
        raise ValueError(f'`{name}` is NaN or infinite for {listed}{more}; drop them or pass `nonfinite="drop"`.')
    if bad_members.all():
        raise ValueError("no member is left: every one has NaN or infinite entries.")
    dropped = {"members": [table.names[k] for k in np.flatnonzero(bad_members)], "rows": []}
    if bad_members.any():
        table = table.select(members=~bad_members)
    if "log_q" in needed:
        empty = np.flatnonzero((table.log_q == -np.inf).all(0))
        if empty.size and nonfinite == "raise":
            listed = ", ".join(map(str, empty[:5])) + (", …" if empty.size > 5 else "")
            raise ValueError(
                f"every member has density 0 (`log_q` = −inf) at {empty.size} of {table.N} rows ({listed}), so no "
                'weights explain them; drop the rows or pass `nonfinite="drop"`.'
            )
        if empty.size == table.N:
            raise ValueError("no row is left: every member has density 0 at every row.")
        if empty.size:
            dropped["rows"] = empty.tolist()
            table = table.select(rows=np.setdiff1d(np.arange(table.N), empty))
    return table, dropped


def _bad_rows(table: Table, name: str) -> np.ndarray:
    """Where a statistic cannot be used, (K, N): NaN or ±inf; for a density, −inf is fine."""
    if name == "log_q":
        return np.isnan(table.log_q) | (table.log_q == np.inf)
    if name == "draws":
        return np.stack([~np.isfinite(np.asarray(table.draws[k])).all((1, 2)) for k in range(table.K)])
    arrays = {"rank": ["rank"], "mean": ["mean"], "moments": ["mean", "cov"]}.get(name, [])
    values = [getattr(table, array) for array in arrays] or [table.quantile(level) for level in table.levels]
    if not values:  # intervals still to be derived from draws
        return _bad_rows(table, "draws")
    return np.logical_or.reduce([~np.isfinite(v).reshape(table.K, table.N, -1).all(2) for v in values])


# ── pieces of the result ─────────────────────────────────────────────────────────────────────────────────────


def _view(form: Form, params: Mapping[str, np.ndarray], table: Table) -> View:
    """The form on a table of its members, of which only those that matter are looked at."""
    used, of_used = form.used(params)
    return form.combine(as_tensors(of_used), table.select(members=used) if len(used) < table.K else table)


def _losses(view: View, score: Score) -> tuple[float, dict[str, float]]:
    with torch.no_grad():
        terms = {repr(term): float(term(view)) for _, term in score.terms}
    return sum(coefficient * terms[repr(term)] for coefficient, term in score.terms), terms


def _notes(solution: Solution, table: Table, form: Form) -> list[str]:
    notes = [solution.note] if solution.note else []
    if table.N < table.K and isinstance(form, Mixture) and form.concentration == 1:
        notes.append(
            f"N = {table.N} rows for K = {table.K} members: the weights may overfit. More simulations, or "
            "Mixture(concentration=1.1), would steady them."
        )
    return notes


def _unconverged(solution: Solution, solver: Solver, tol: float) -> str:
    reached = solution.gap if solution.gap is not None else solution.stationarity
    which = "gap" if solution.gap is not None else "stationarity"
    said = f" {solution.note}" if solution.note else ""
    return (
        f"{solver!r} stopped after {solution.iterations} steps with {which} {reached:.1e}; asked: {tol:g}.{said}"
    )


def as_tensors(params: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """Parameters as a form takes them."""
    return {name: torch.tensor(array) for name, array in params.items()}


def _frozen(array: np.ndarray) -> np.ndarray:
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
    return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()})


def _revive_score(plain: dict[str, Any]) -> Score:
    if plain["name"] == "Sum":
        return Sum(tuple((coefficient, _revive(term, scores)) for coefficient, term in plain["terms"]))
    return _revive(plain, scores)
