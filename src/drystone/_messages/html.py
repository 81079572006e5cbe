"""Tables and lists for notebooks: plain HTML in the page's own colors, light or dark, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["html_list", "html_table"]

# Rows that are shown; the rest is counted.
MOST = 20


def html_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], notes: Iterable[str] = ()
) -> str:
    """Return a table with a title above and notes below.

    Args:
        title: one line.
        columns: heads of the columns; the first column holds names.
        rows: their cells; the first twenty are shown.
        notes: lines below the table.

    Example:
        >>> html_table("Two members", ["member", "weight"], [["a < b", 0.25]]).count("a &lt; b")
        1
    """
    head = "".join(f'<th style="{_style(j)}">{escape(name)}</th>' for j, name in enumerate(columns))
    body = "".join(f"<tr>{''.join(_cell(j, cell) for j, cell in enumerate(row))}</tr>" for row in rows[:MOST])
    more = [f"and {len(rows) - MOST} more"] if len(rows) > MOST else []
    return (
        f'<div style="color:inherit"><p><strong>{escape(title)}</strong></p>'
        f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        f"{''.join(f'<p>{escape(note)}</p>' for note in [*more, *notes])}</div>"
    )


def html_list(title: str, sentences: Iterable[str]) -> str:
    """Return sentences as a list under a title."""
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f'<div style="color:inherit"><p><strong>{escape(title)}</strong></p><ul>{items}</ul></div>'


def _cell(column: int, value: object) -> str:
    return f'<td style="{_style(column)}">{escape(str(value))}</td>'


def _style(column: int) -> str:
    """Return the style of a cell: names to the left, numbers to the right."""
    return f"text-align:{'left' if column == 0 else 'right'};padding:0.1em 0.8em"
