"""Form × score → weights: the one function the rest of the library is built around."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from drystone import solvers
from drystone.errors import ConvergenceWarning, IntractableError
from drystone.forms import Form, Mixture
from drystone.kernel import near
from drystone.provision import check_provided, check_tractable
from drystone.scores import LogScore, RankCvM, RankMoments, Score
from drystone.solvers import Solution, Solver
from drystone.stacking import Stacking, frozen, losses, view_of
from drystone.table import Table
from drystone.threads import one_thread

__all__ = ["stack"]


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
    check_tractable(form, score)
    check_provided(table, form, score)
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
        loss, terms = losses(view_of(form, solution.params, cleaned), score)
    fit = Stacking(
        form=form,
        score=score,
        params={name: frozen(array) for name, array in params.items()},
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
