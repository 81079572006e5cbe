"""One sentence for a name that is not known: which are, and which was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["unknown"]


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The sentence that answers a name nobody has.

    Example:
        >>> unknown("score", "enrgy", ["log", "energy"])
        "unknown score 'enrgy'; known: energy, log. Did you mean 'energy'?"
    """
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1)
    listed = f"unknown {what} {name!r}; known: {', '.join(known)}."
    return f"{listed} Did you mean {near[0]!r}?" if near else listed
