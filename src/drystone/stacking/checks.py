"""What a score needs, a form gives and a table holds: checked before anything is solved."""

from __future__ import annotations

from collections.abc import Collection

from drystone import forms
from drystone._messages import first_few
from drystone.errors import IntractableError
from drystone.forms import Form
from drystone.scores import SCORES, Score
from drystone.solvers.table1 import pick
from drystone.table import Table

__all__ = ["check_members", "check_provided", "check_tractable", "required_statistics"]


def check_tractable(form: Form, score: Score) -> None:
    """Raise if the form cannot give what a term of the score needs, naming the forms that can."""
    for _, term in score.terms:
        for missing in sorted(term.needs - form.gives):
            able = [f"{cls.__name__}()" for cls in forms.FORMS if _fitted(cls(), term)]
            scores = [f"{cls.__name__}()" for cls in SCORES if _fitted(form, cls())]
            raise IntractableError(
                f"{term!r} needs `{missing}`, which {type(form).__name__} does not give "
                f"(it gives: {', '.join(sorted(form.gives))}). Forms that do: {', '.join(able) or 'none'}. "
                f"Scores of {type(form).__name__}: {', '.join(scores)}."
            )
    if not score.terms:
        raise ValueError("the score has no term with a coefficient above 0.")


def _fitted(form: Form, term: Score) -> bool:
    """Return whether a form can be fitted by a score."""
    return term.needs <= form.gives and not pick(form, term).unsupported_reason(form, term)


def required_statistics(form: Form, score: Score) -> frozenset[str]:
    """Return the statistics a table must give for the score of the form."""
    return frozenset(form.requires(statistic) for _, term in score.terms for statistic in term.needs)


def check_provided(table: Table, form: Form, score: Score) -> None:
    """Raise if the table lacks what the form needs for the score, naming what would do."""
    for _, term in score.terms:
        for statistic in sorted(term.needs):
            needed = form.requires(statistic)
            if needed not in table.gives:
                has, remedy = ", ".join(sorted(table.gives)), _REMEDIES.get(needed, "")
                raise ValueError(
                    f"{term!r} with {form!r} needs {_SOURCES[needed]}; the table gives: {has}.{remedy}"
                )
            if statistic == "interval" and table.S == 1 and (needed == "draws" or not table.levels):
                raise ValueError(
                    f"{term!r} needs intervals, which take at least 2 draws per member and simulation; the table "
                    "has 1. Tabulate more draws, or give `quantiles`."
                )


def check_members(table: Table, needs: Collection[str]) -> None:
    """Raise if a member of the table, which holds those that a fit uses, lacks a statistic."""
    for need in sorted(needs):
        if not (has := table.has(need)).all():
            names = first_few([name for name, able in zip(table.names, has, strict=True) if not able])
            raise ValueError(f"the fit uses {names}, which have no {_SOURCES[need]} in this table.")


_SOURCES = {
    "log_q": "`log_q`",
    "rank": "`rank` or `draws`",
    "mean": "`mean` or `draws`",
    "moments": "`mean` and `cov`, or `draws`",
    "interval": "`quantiles` or `draws`",
    "draws": "`draws`",
    "points": "shared points",
}
_REMEDIES = {
    "log_q": " For members without densities there is EnergyScore() (--score energy).",
    "draws": " Tabulate with keep_draws=True (--keep-draws).",
    "points": " Tabulate with points=1000 and prior=....",
}
