"""Form × score → weights: the one function the rest of the library is built around."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import LARGEST, frozen
from drystone._defaults import NONFINITE
from drystone._messages import first_few
from drystone._parallel import Executor, check_client, one_thread
from drystone.errors import ConvergenceWarning, IntractableError
from drystone.estimate import UNRELIABLE_PARETO
from drystone.forms import Form, Mixture
from drystone.forms.view import view_of
from drystone.likelihood.report import width_in_words
from drystone.scores import LogScore, Score
from drystone.solvers import Solution, Solver
from drystone.solvers.table1 import pick
from drystone.stacking.checks import check_provided, check_tractable, required_statistics
from drystone.stacking.near import near
from drystone.stacking.result import Stacking, losses
from drystone.table import Table, blocks
from drystone.table.nonfinite import count_nonfinite, drop_zero_weight_rows, name_members

__all__ = ["fitted_rows", "stack"]

# Solvers hold the statistics, what they make of them (densities, say, of log densities), and parts of both.
COPIES = 4


def stack(
    table: Table,
    form: Form = Mixture(),
    score: Score = LogScore(),
    *,
    solver: Solver | None = None,
    tol: float = 1e-8,
    seed: int = 0,
    nonfinite: str = NONFINITE,
    at: ArrayLike | None = None,
    bandwidth: float | None = None,
    client: Executor | None = None,
) -> Stacking:
    """Find the parameters of ``form`` that minimize ``score`` on ``table``.

    Args:
        table: K members on N simulations that none of them was trained on.
        form: how to combine them.
        score: what to be good at; scores add and scale.
        solver: overrides the one registered for this form and score.
        tol: stop when the certificate (or the stationarity, where there is none) is below this.
        seed: of random starts.
        nonfinite: what to do with members whose statistics are NaN or +inf, and rows where every density is 0:
            "raise", or "drop" them and list them in the result. Members that lack a statistic the score needs
            (:meth:`drystone.Table.has`) get weight 0 either way, and are listed and named in a note.
        at: an observation; rows whose y is near it count more, so that the weights are those for this y.
        bandwidth: how near, in standard deviations of y; None for one that leaves a quarter of the rows.
        client: a Dask client, or any executor with ``submit``, to work through a table on disk
            (:meth:`drystone.Table.open`) that does not fit in memory; other tables are solved here.

    Raises:
        IntractableError: the form cannot give what the score needs; before anything is solved.

    Example:
        >>> import drystone as ds
        >>> fit = ds.stack(ds.toy.table(500, seed=1))
        >>> fit.weights.round(2), fit.gap < 1e-8
        (array([0.28, 0.36, 0.37, 0.  ]), True)
    """
    _check_types(table, form, score)
    check_tractable(form, score)
    check_provided(table, form, score)
    solver = pick(form, score) if solver is None else solver
    _check_solver(solver, form, score)
    if all(term.calibration_only for _, term in score.terms):
        warnings.warn(
            "ranks alone are not a strict criterion: the prior itself is perfectly rank-calibrated. "
            "Add a strict score, such as LogScore() + 10 * RankCvM().",
            stacklevel=2,
        )
    begun = time.perf_counter()
    notes = _normalization(table)
    if at is not None:
        table, note = near(table, at, bandwidth)
        notes.append(note)
    elif bandwidth is not None:
        raise ValueError("`bandwidth` goes with `at`, the observation to be near to.")
    if not tol > 0:
        raise ValueError(f"`tol` must be positive; got {tol}.")
    check_client(client)
    table = blocks.prepare(table, required_statistics(form, score), client)
    able, note = _able(table, form, score)
    form.check_table(able)
    notes += [note] if note else []
    cleaned, dropped = _clean(able, form, score, nonfinite)
    dropped["members"] = [name for name in table.names if name not in able.names or name in dropped["members"]]
    cleaned, note = _without_hopeless(cleaned, form, score)
    notes += [note] if note else []
    kept = np.array([table.names.index(name) for name in cleaned.names])
    with one_thread():
        rows_to_fit, note = _rows_to_fit(cleaned, solver, form, score, seed)
        solution = solver.solve(rows_to_fit, form, score, tol, seed)
        form = solution.form or form
        params = solution.params if len(kept) == table.K else form.expand_params(solution.params, kept, table.K)
        loss, terms = losses(view_of(form, solution.params, rows_to_fit), score)
        if note:
            notes.append(f"{note} Over all rows the score is {_overall(form, solution.params, cleaned, score)}.")
    fit = Stacking(
        form=form,
        score=score,
        params={name: frozen(array) for name, array in params.items()},
        loss=loss,
        terms=terms,
        gap=solution.gap,
        stationarity=solution.stationarity,
        status=solution.status,
        iterations=solution.iterations,
        seconds=time.perf_counter() - begun,
        solver=solver,
        names=table.names,
        parameters=table.parameters,
        dropped=dropped,
        notes=(*notes, *_notes(solution, cleaned, form)),
        choice=solution.choice,
    )
    if not solution.converged:
        warnings.warn(_unconverged(solution, solver), ConvergenceWarning, stacklevel=2)
    return fit


def _check_types(table: Table, form: Form, score: Score) -> None:
    for name, value, kind, such_as in (
        ("table", table, Table, "ds.Table(theta, log_q=...)"),
        ("form", form, Form, "one such as ds.Mixture()"),
        ("score", score, Score, "one such as ds.LogScore()"),
    ):
        if not isinstance(value, kind):
            hint = f" Give {such_as}."
            if isinstance(value, type):
                hint = f" Did you mean {value.__name__}()?"
            elif name == "form" and isinstance(value, Score):
                hint = " Is it `score=...` that you mean?"
            got = repr(value) if isinstance(value, str | type | Form | Score) else type(value).__name__
            raise TypeError(f"`{name}` must be a {kind.__name__}; got {got}.{hint}")


def _check_solver(solver: Solver, form: Form, score: Score) -> None:
    why = solver.unsupported_reason(form, score)
    if why:
        raise IntractableError(f"{solver!r} cannot solve {form!r} × {score!r}: {why}.")


def _rows_to_fit(table: Table, solver: Solver, form: Form, score: Score, seed: int) -> tuple[Table, str]:
    """Return the rows to solve on, and a note if they are not all of them.

    Of a table on disk: all rows in memory if they fit, with what solvers make of them; else all rows in blocks, if
    the score is a sum over rows that the solver can add up; else as many rows as fit, chosen at random and alike.
    """
    memory = blocks.memory_limit(table)
    if memory is None:
        return table, ""
    needs = required_statistics(form, score)
    n = _rows_that_fit(table, form, score)
    if n == table.N:
        return blocks.load(table, needs), ""
    if solver.in_blocks(score):
        return table, ""
    if n == 0:
        raise MemoryError(f"not even one row fits into the {memory} bytes that Table.open allows; allow more.")
    rows = np.sort(np.random.default_rng(seed).choice(table.N, n, replace=False, shuffle=False))
    return blocks.extract(table, needs, rows), (
        f"fitted to {n} of {table.N} rows, chosen at random by seed {seed}: what fits into the {memory:.3g} "
        "bytes that Table.open allows, and the score is not a sum over rows that can be had in blocks."
    )


def _rows_that_fit(table: Table, form: Form, score: Score) -> int:
    """Return how many rows a solver can hold in memory."""
    memory = blocks.memory_limit(table)
    if memory is None:
        return table.N
    return min(table.N, memory // (COPIES * blocks.bytes_per_row(table, required_statistics(form, score))))


def fitted_rows(table: Table, form: Form, score: Score) -> int:
    """Return how many rows of a table its memory limit lets :func:`stack` fit to, if no member is left out."""
    return table.N if pick(form, score).in_blocks(score) else _rows_that_fit(table, form, score)


def _overall(form: Form, params: Mapping[str, np.ndarray], table: Table, score: Score) -> str:
    """Return the score on rows that were not all fitted to, in words."""
    try:
        return f"{losses(view_of(form, params, table), score)[0]:.6g}"
    except (IntractableError, MemoryError) as error:
        return f"not known: {error}"


def _able(table: Table, form: Form, score: Score) -> tuple[Table, str]:
    """Return the table of the members that can give what the score needs, and a note that names the others."""
    needs = sorted(required_statistics(form, score))
    lacking = {need: ~table.has(need) for need in needs}
    unable = np.logical_or.reduce(list(lacking.values()))
    if not unable.any():
        return table, ""
    if unable.all():
        without = "; ".join(f"`{need}`: {_names(table, lacking[need])}" for need in needs if lacking[need].any())
        raise ValueError(
            f"no member has all that {score!r} with {form!r} needs. Members without {without}. Use a score that "
            "needs less, or tabulate members that have it."
        )
    reasons = [f"{_names(table, lacking[need])} (no `{need}`)" for need in needs if lacking[need].any()]
    return table.select(members=~unable), (
        f"without weight, because the score needs what they cannot give: {', '.join(reasons)}."
    )


def _names(table: Table, members: np.ndarray) -> str:
    return first_few([table.names[k] for k in np.flatnonzero(members)])


def _clean(table: Table, form: Form, score: Score, nonfinite: str) -> tuple[Table, dict[str, list[Any]]]:
    """Return the table without what cannot be used, and the list of that; or an error that names it."""
    if nonfinite not in ("raise", "drop"):
        raise ValueError(f'`nonfinite` must be "raise" or "drop"; got {nonfinite!r}.')
    numbers = np.flatnonzero(table.row_weights > 0) if table.weighted else np.arange(table.N)
    table = drop_zero_weight_rows(table)
    names = sorted(required_statistics(form, score))
    found = count_nonfinite(table, names)
    if found.counts.any() and nonfinite == "raise":
        name, counts = next(
            (name, counts) for name, counts in zip(names, found.counts, strict=True) if counts.any()
        )
        raise ValueError(
            f"`{name}` is NaN or infinite for {name_members(table, counts)}, where numbers above {LARGEST:g} "
            'count as infinite; leave them out, or pass `nonfinite="drop"` (--drop on the command line).'
        )
    useless = found.rows
    if 0 < len(useless) < table.N:  # failed simulations, say: for them no member is to blame
        table = table.select(rows=np.delete(np.arange(table.N), useless))
        found = count_nonfinite(table, names)
    bad_members = found.counts.any(0)
    if bad_members.all():
        raise ValueError("no member is left: every one has NaN or infinite entries.")
    dropped = {"members": [table.names[k] for k in np.flatnonzero(bad_members)], "rows": []}
    if bad_members.any():
        table = table.select(members=~bad_members)
        found = count_nonfinite(table, names)
    empty = np.empty(0, int) if form.positive else found.empty
    rows = [int(n) for n in np.delete(numbers, useless)[empty]]
    if rows and nonfinite == "raise":
        listed = ", ".join(map(str, rows[:5])) + (", …" if len(rows) > 5 else "")
        raise ValueError(
            f"every member has density 0 (log density −inf) at {len(rows)} of {table.N} rows ({listed}), so no "
            'weights explain them; drop the rows or pass `nonfinite="drop"`.'
        )
    if len(empty) == table.N:
        raise ValueError("no row is left: every member has density 0 at every row.")
    if rows:
        table = table.select(rows=np.delete(np.arange(table.N), empty))
    dropped["rows"] = sorted(rows + [int(n) for n in numbers[useless]])
    return table, dropped


def _without_hopeless(table: Table, form: Form, score: Score) -> tuple[Table, str]:
    """Return the table without members that cannot help, and a note that names them."""
    if required_statistics(form, score) <= {"log_q", "rank"}:  # bounded, or in log space: nothing can drown
        return table, ""
    hopeless = form.hopeless_members(table)
    if not hopeless.any() or hopeless.all():
        return table, ""
    return table.select(members=~hopeless), (
        f"{_names(table, hopeless)}: a thousand times further from the truth than parameters drawn at random, so "
        "without weight; the fit and its certificate are those of the other members."
    )


def _normalization(table: Table) -> list[str]:
    """Return a note on how well the members are normalized that must be, if there are any."""
    if not blocks.has_array(table, "effective") or not blocks.in_memory(table):
        return []
    having = ~np.isnan(table.effective).all(1)
    if not having.any():
        return []
    effective, unreliable = table.effective[having], table.pareto[having] > UNRELIABLE_PARETO
    note = (
        f"{having.sum()} of {table.K} members are normalized at points: {np.median(effective):.0f} effective ones "
        f"per row (median), {effective.min():.1f} at worst; Pareto shape above {UNRELIABLE_PARETO} in "
        f"{unreliable.mean():.1%} of their rows."
    )
    return [f"{note} {width_in_words(table.width[having])}" if blocks.has_array(table, "width") else note]


def _notes(solution: Solution, table: Table, form: Form) -> list[str]:
    return ([solution.note] if solution.note else []) + form.fit_notes(table)


def _unconverged(solution: Solution, solver: Solver) -> str:
    steps, said = solution.iterations, f" {solution.note}" if solution.note else ""
    which = "stationarity" if solution.gap is None else "gap"
    reached = solution.stationarity if solution.gap is None else solution.gap
    if reached is None:  # part of the way from an optimum to doing nothing
        return f"{solver!r} stopped after {steps} steps.{said}"
    return f"{solver!r} stopped after {steps} steps with {which} {reached:.1e}.{said}"
