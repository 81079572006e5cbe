"""Tables as the template prints them: every table of the report is a :class:`Grid`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from typing import TYPE_CHECKING, Any

from drystone.estimate import Estimate

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Cell", "Grid", "bound", "cell", "grid", "interval", "number", "with_error"]


@dataclass(frozen=True)
class Cell:
    """What stands in one place of a table.

    Attributes:
        text: as printed.
        key: what the column is sorted by; None sorts last.
        tone: "better", "worse", "same" or "" – a mark for the eye; the text says the same in words.
        bar: length of a bar behind the number, in [0, 1], or None.
        tint: the bar's colour, a name of the palette; "" for that of the first fit.
    """

    text: str
    key: float | str | None = None
    tone: str = ""
    bar: float | None = None
    tint: str = ""

    @property
    def numeric(self) -> bool:
        """Whether it is a number, to be aligned right."""
        return isinstance(self.key, int | float)

    @property
    def sort_key(self) -> str:
        """The key as an attribute a script can read; empty where there is none."""
        if self.key is None or (isinstance(self.key, float) and math.isnan(self.key)):
            return ""
        return str(self.key).replace("inf", "Infinity") if self.numeric else str(self.key)


@dataclass(frozen=True)
class Grid:
    """A table: its caption, the heads of its columns, and rows of cells.

    Attributes:
        caption: what it shows; also its name for screen readers.
        head: one title per column.
        rows: cells, one per title in each row.
        numeric: for each column, whether it holds numbers.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numeric: tuple[bool, ...]


def grid(caption: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> Grid:
    """Return a table of cells, or of plain values, which become cells."""
    made = tuple(tuple(value if isinstance(value, Cell) else cell(value) for value in row) for row in rows)
    numeric = tuple(any(row[j].numeric for row in made) for j in range(len(head)))
    return Grid(caption, tuple(head), made, numeric)


def cell(value: Any) -> Cell:
    """Return a plain value as a cell: numbers short, other things as they print."""
    if value is None:
        return Cell("–")
    if isinstance(value, bool) or type(value).__name__ == "bool_":
        return Cell("yes" if value else "no", str(bool(value)))
    try:
        as_float = float(value)
    except (TypeError, ValueError):
        return Cell(str(value), str(value))
    return Cell("–") if math.isnan(as_float) else Cell(number(as_float), as_float)


def interval(ends: Sequence[float] | np.ndarray, digits: int = 4) -> str:
    """Return the two ends of an interval for a reader.

    Example:
        >>> interval((-0.5, 1234.5), digits=6)
        '[−0.5, 1234.5]'
    """
    low, high = ends
    return f"[{number(low, digits)}, {number(high, digits)}]"


def number(value: float, digits: int = 4) -> str:
    """Return a number for a reader: a few significant digits, a true minus, powers of ten, ∞ for infinity.

    Example:
        >>> number(1234567.0), number(-0.012345), number(8.3e-05), number(float("-inf")), number(50.0)
        ('1.235×10⁶', '−0.01235', '8.3×10⁻⁵', '−∞', '50')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    short = f"{value:.0f}" if value == round(value) and abs(value) < 1e6 else f"{value:.{digits}g}"
    mantissa, _, exponent = short.partition("e")
    power = f"×10{str(int(exponent)).translate(_SUPERSCRIPT)}" if exponent else ""
    return f"{mantissa}{power}".replace("-", "−")


def bound(value: float, digits: int) -> str:
    """Return an upper bound for a reader: as :func:`number`, but never rounded down.

    Example:
        >>> bound(3.5e-11, 1), bound(3.01e-11, 2), bound(2.0, 1)
        ('4×10⁻¹¹', '3.1×10⁻¹¹', '2')
    """
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal_from_float(value)
    return number(float(rounded), digits)


def with_error(estimate: Estimate, sign: str = "") -> str:
    """Return an estimate as text with a true minus; a standard error of NaN is unknown, an infinite value ∞.

    Example:
        >>> with_error(Estimate(-0.5, 0.1)), with_error(Estimate(0.5, float("nan")), "+")
        ('−0.50 ± 0.10', '+0.5000 ± unknown')
    """
    if not math.isfinite(estimate.value):
        return number(estimate.value)
    return f"{estimate:{sign}}".replace("-", "−").replace("± nan", "± unknown")


_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
