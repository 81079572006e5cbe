"""Table 1: which (form, score) cells exist and how each is solved.

``python -m drystone.solvers.table1`` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass

from drystone.forms import FORMS, Form
from drystone.scores import SCORES, Score
from drystone.solvers import EXACT, Solver, pick

__all__ = ["Cell", "cells", "markdown"]


@dataclass(frozen=True)
class Cell:
    """One cell: the solver's name, whether its result is certified, or why the cell is blank."""

    solver: str = ""
    certified: bool = False
    why_blank: str = ""


def cells() -> dict[tuple[type[Form], type[Score]], Cell]:
    """All cells, from what forms give, what scores need, and which solver is registered."""
    return {(form, score): _cell(form(), score()) for form in FORMS for score in SCORES}


def _cell(form: Form, score: Score) -> Cell:
    missing = sorted(score.needs - form.gives)
    if missing:
        return Cell(why_blank=f"{type(form).__name__} has no {', '.join(missing)}")
    solver: Solver = pick(form, score)
    why = solver.refuses(form, score)
    if why:
        return Cell(why_blank=why)
    exact = (type(form), type(score)) in EXACT
    return Cell(type(solver).__name__, exact and solver.certifies)


def markdown() -> str:
    """The table in Markdown, with links to the files."""
    table = cells()
    lines = ["| | " + " | ".join(_link("scores", score) for score in SCORES) + " |"]
    lines.append("|---" * (len(SCORES) + 1) + "|")
    for form in FORMS:
        row = [table[form, score] for score in SCORES]
        shown = [f"**{cell.solver}** ✓" if cell.certified else cell.solver or "–" for cell in row]
        lines.append(f"| {_link('forms', form)} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def _link(folder: str, cls: type) -> str:
    return f"[`{cls.__name__}`](src/drystone/{folder}/{cls.__module__.rpartition('.')[2]}.py)"


if __name__ == "__main__":
    print(markdown())
