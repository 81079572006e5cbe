"""Numbers and tables as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["estimate", "grid", "number"]

MINUS = str.maketrans("-", "−")


def number(value: float | None, digits: int = 2, sign: str = "") -> str:
    """Return a number, or a dash if there is none.

    Example:
        >>> number(-5.236), number(None)
        ('−5.24', '–')
    """
    return "–" if value is None else f"{value:{sign}.{digits}f}".translate(MINUS)


def estimate(value: Mapping[str, Any], sign: str = "") -> str:
    """Return a value with its standard error and the digits that supports.

    Example:
        >>> estimate({"value": -5.2364, "se": 0.071})
        '−5.236 ± 0.071'
    """
    v, se = value["value"], value["se"]
    digits = 3 if not 1e-6 < se < np.inf else int(np.clip(1 - np.floor(np.log10(se)), 1, 6))
    return f"{number(v, digits, sign)} ± {se:.{digits}f}"


def grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
