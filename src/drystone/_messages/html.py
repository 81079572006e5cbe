"""Tables and lists for notebooks: plain HTML in the page's own colors, light or dark, without scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["html_list", "html_table"]

# Rows that are shown; the rest is counted.
MOST = 20


def html_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    notes: Iterable[str] = (),
    most: int = MOST,
) -> str:
    """Return a table with a title above and notes below; a narrow page scrolls it.

    Args:
        title: one line, or "" for none.
        columns: heads of the columns; the first column holds names.
        rows: their cells; a row of one cell is a heading within the table.
        notes: lines below the table.
        most: how many rows are shown.

    Example:
        >>> html_table("Two members", ["member", "weight"], [["a < b", 0.25]]).count("a &lt; b")
        1
    """
    head = "".join(f'<th style="{_style(j)}">{escape(name)}</th>' for j, name in enumerate(columns))
    body = "".join(f"<tr>{_cells(row, len(columns))}</tr>" for row in rows[:most])
    more = [f"and {len(rows) - most} more"] if len(rows) > most else []
    return (
        f'<div style="color:inherit">{_title(title)}<div style="overflow-x:auto">'
        f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        f"</div>{''.join(f'<p>{_text(note)}</p>' for note in [*more, *notes])}</div>"
    )


def html_list(title: str, sentences: Iterable[str]) -> str:
    """Return sentences as a list under a title."""
    items = "".join(f"<li>{_text(sentence)}</li>" for sentence in sentences)
    return f'<div style="color:inherit">{_title(title)}<ul>{items}</ul></div>'


def _title(title: str) -> str:
    return f"<p><strong>{escape(title)}</strong></p>" if title else ""


def _text(sentence: str) -> str:
    """Return an escaped sentence, with what is between backquotes as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(sentence))


def _cells(row: Sequence[object], columns: int) -> str:
    if len(row) == 1:
        return f'<th colspan="{columns}" style="{_style(0)};padding-top:0.8em">{escape(str(row[0]))}</th>'
    return "".join(f'<td style="{_style(j)}">{escape(str(cell))}</td>' for j, cell in enumerate(row))


def _style(column: int) -> str:
    """Return the style of a cell: names to the left, numbers to the right, none of them broken."""
    return f"text-align:{'left' if column == 0 else 'right'};padding:0.1em 0.8em;white-space:nowrap"
