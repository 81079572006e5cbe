"""The directive ``cells``: the table of forms and scores, or one row or column of it, from the registry."""

from __future__ import annotations

from typing import Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from drystone.forms import FORMS
from drystone.scores import SCORES
from drystone.solvers.table1 import Cell, cells

PAGES: dict[type, str] = {
    **{form: f"/forms/{form.__module__.rpartition('.')[2]}" for form in FORMS},
    **{score: f"/scores/{score.__name__.lower()}" for score in SCORES},
}


class Cells(SphinxDirective):
    """A table of solvers: of all cells, or of those of the form or score that is named."""

    optional_arguments: ClassVar = 1

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        lines = _whole() if not self.arguments else _of(self.arguments[0])
        self.state.nested_parse(
            StringList(lines, source="cells"), self.content_offset, holder := nodes.container()
        )
        return holder.children


def _whole() -> list[str]:
    table = cells()
    lines = ["| | " + " | ".join(_link(score) for score in SCORES) + " |", "|---" * (len(SCORES) + 1) + "|"]
    for form in FORMS:
        lines.append(f"| {_link(form)} | " + " | ".join(_shown(table[form, score]) for score in SCORES) + " |")
    return lines


def _of(name: str) -> list[str]:
    rows = {
        other: cell
        for (form, score), cell in cells().items()
        for mine, other in ((form, score), (score, form))
        if mine.__name__ == name
    }
    if not rows:
        raise ValueError(f"`cells` takes the name of a form or a score; got {name!r}.")
    lines = ["| with | solved by | |", "|---|---|---|"]
    return [*lines, *(f"| {_link(other)} | {_shown(cell)} | {cell.why_blank} |" for other, cell in rows.items())]


def _shown(cell: Cell) -> str:
    if not cell.solver:
        return "–"
    name = f"[`{cell.solver}`](/api/generated/drystone.solvers.{cell.solver})"
    return f"**{name}** ✓" if cell.certified else name


def _link(cls: type) -> str:
    return f"[`{cls.__name__}`]({PAGES[cls]}.md)"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("cells", Cells)
    return {"parallel_read_safe": True}
