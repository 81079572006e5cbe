"""What is known of each fit: how it was found, how near the optimum it is, and what it weighs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drystone._messages import count_and_first_few
from drystone.forms import Shares
from drystone.report.tables import Cell, Grid, bound, cell, grid, number
from drystone.solvers import Status
from drystone.stacking.result import Stacking
from drystone.table import Table

__all__ = ["Certificate", "certificate"]

# So many of the heaviest members are drawn; all of them stand in the members' table.
BARS = 12


@dataclass(frozen=True)
class Certificate:
    """A fit, for the template.

    Attributes:
        name: of the fit.
        asked: form × score.
        converged: whether the solver met its tolerance.
        facts: (term, description) pairs.
        terms: the terms of the score: λ, and values on the rows fitted and on the test rows.
        heaviest: the members that matter most, with bars.
        meaning: what the bars are.
        rest: the members not drawn, in words.
        notes: what else the reader should know.
    """

    name: str
    asked: str
    converged: bool
    facts: tuple[tuple[str, str], ...]
    terms: Grid
    heaviest: Grid
    meaning: str
    rest: str
    notes: tuple[str, ...]


def certificate(name: str, fit: Stacking, contribution: Shares, test: Table, tint: str) -> Certificate:
    """Return all that the result says of itself, and its score on the test rows."""
    values = contribution.values
    order = np.argsort(-values, kind="stable")
    shown = [int(k) for k in order[:BARS] if values[k] > 0]
    rest = [int(k) for k in order[len(shown) :] if values[k] > 0]
    longest = max(float(values.max()), np.finfo(float).tiny)
    bars = [
        [fit.names[k], Cell(f"{values[k]:.4f}", float(values[k]), bar=values[k] / longest, tint=tint)]
        for k in shown
    ]
    dropped = [
        f"Left out of the fit: {kind} {count_and_first_few(items)}."
        for kind, items in fit.dropped.items()
        if items
    ]
    return Certificate(
        name=name,
        asked=f"{fit.form!r} × {fit.score!r}",
        converged=fit.converged,
        facts=_facts(fit, contribution),
        terms=_terms(fit, test),
        heaviest=grid(f"Heaviest members of {name}", ("member", contribution.meaning), bars),
        meaning=contribution.meaning,
        rest=_rest(values, rest, contribution.simplex),
        notes=(*fit.notes, *dropped),
    )


def _facts(fit: Stacking, contribution: Shares) -> tuple[tuple[str, str], ...]:
    K = len(fit.names)
    facts = [("members that matter", f"{np.count_nonzero(contribution.values)} of {K}")]
    if contribution.simplex:
        facts.append(("effective number of members", f"{contribution.effective:.1f}"))
    if fit.status is Status.NOT_FITTED:
        return (*facts, ("fitted", "no"))
    facts.append(("converged", "yes" if fit.converged else "no"))
    gap = "no certificate for this form and score" if fit.gap is None else f"at most {bound(fit.gap, 2)}"
    facts.append(("distance from the optimum", gap))
    if fit.stationarity is not None:
        facts.append(("stationarity", number(fit.stationarity, 2)))
    facts += [("solver", str(fit.solver)), ("steps", str(fit.iterations))]
    if not np.isnan(fit.seconds):
        facts.append(("time", f"{fit.seconds:.2g} s"))
    return tuple(facts)


def _terms(fit: Stacking, test: Table) -> Grid:
    """Return each term of the score with its coefficient λ, on the rows fitted and on the test rows."""
    try:
        on_test = fit.evaluate(test)
    except ValueError:  # the test table lacks what the score needs
        on_test = {}
    not_fitted = dict.fromkeys((repr(score) for _, score in fit.score.terms), None)
    fitted = not_fitted if fit.status is Status.NOT_FITTED else fit.terms
    rows = [
        [
            Cell(f"{term}, a lower bound" if score.lower_bound else term),
            cell(coefficient),
            cell(value),
            cell(on_test.get(term)),
        ]
        for (coefficient, score), (term, value) in zip(fit.score.terms, fitted.items(), strict=True)
    ]
    if len(rows) > 1:
        rows.append([Cell("sum"), Cell(""), cell(fit.loss), cell(on_test.get("loss"))])
    return grid(f"Score of {fit.form!r}", ("score (lower is better)", "λ", "validation", "test"), rows)


def _rest(values: np.ndarray, rest: list[int], simplex: bool) -> str:
    if not rest:
        return ""
    together = f", {number(float(values[rest].sum()))} together" if simplex else ""
    return f"and {len(rest)} more{together}"
