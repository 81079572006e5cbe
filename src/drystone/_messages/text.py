"""Words of messages: lists of names, near misses, what to install."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["count_and_first_few", "counted", "digits_for", "first_few", "require", "unknown"]


def counted(n: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one.

    Example:
        >>> counted(1, "member"), counted(12000, "member")
        ('1 member', '12000 members')
    """
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def digits_for(value: float, spread: float) -> int:
    """Return how many significant digits show a value to a hundredth of its spread; four at least.

    Example:
        >>> f"{1000.517:.{digits_for(1000.517, 0.12)}g}", f"{2.0593:.{digits_for(2.0593, 0.14)}g}"
        ('1000.517', '2.059')
    """
    if not (math.isfinite(value) and math.isfinite(spread) and value and spread > 0):
        return 4
    return min(max(4, math.floor(math.log10(abs(value))) - math.floor(math.log10(spread)) + 3), 15)


def first_few(names: Sequence[str], most: int = 5) -> str:
    """Return the first few names, and how many more there are.

    Example:
        >>> first_few(["a", "b", "c"], most=2)
        'a, b and 1 more'
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def count_and_first_few(items: np.ndarray | Sequence[Any]) -> str:
    """Return how many there are, and which, or the first few of many.

    Example:
        >>> count_and_first_few([3, 7])
        '2 (3, 7)'
    """
    return f"{len(items)} ({first_few([str(item) for item in items])})"


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return the sentence that answers an unknown name.

    Example:
        >>> unknown("score", "enrgy", ["log", "energy"])
        "unknown score 'enrgy'; known: energy, log. Did you mean 'energy'?"
    """
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1)
    sentence = f"unknown {what} {name!r}; known: {', '.join(known)}."
    return f"{sentence} Did you mean {near[0]!r}?" if near else sentence


def require(module: str, extra: str, what: str) -> None:
    """Raise, saying what to install, if a library is missing."""
    if find_spec(module) is None:
        raise ImportError(f"{what} needs {module}, which is not installed: pip install 'drystone[{extra}]'.")
