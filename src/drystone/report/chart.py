"""Line charts as data for the template: everything in units of the picture, paths as compact as they can be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from drystone.report.tables import Grid, number

__all__ = ["BACKGROUND", "Axis", "Figure", "Mark", "Panel", "axis", "fitted", "path"]

# The method that the curves behind the others are marked with.
BACKGROUND = "members"


@dataclass(frozen=True)
class Axis:
    """A linear scale: values from ``low`` to ``high`` onto positions from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[tuple[float, str], ...] = ()
    label: str = ""

    def __call__(self, values: np.ndarray | float) -> np.ndarray:
        """Positions of values."""
        share = (np.asarray(values, float) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


@dataclass(frozen=True)
class Mark:
    """Lines or an area of one colour.

    Attributes:
        d: the path.
        colour: a name of the palette.
        kind: "line", "thin", "faint", "dashed" or "area".
        method: what it belongs to, for the legend's switches; "" for what is always shown.
    """

    d: str
    colour: str
    kind: str = "line"
    method: str = ""


@dataclass(frozen=True)
class Panel:
    """One pair of axes with marks."""

    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    title: str = ""


@dataclass(frozen=True)
class Figure:
    """A picture: its panels, what it shows in words, and its numbers.

    Attributes:
        heading: printed above.
        description: for who cannot see it.
        width: of the drawing, in its own units.
        height: of the drawing.
        panels: what is drawn.
        numbers: the same as a table.
    """

    heading: str
    description: str
    width: float
    height: float
    panels: tuple[Panel, ...]
    numbers: Grid = field(repr=False)

    @property
    def methods(self) -> tuple[str, ...]:
        """What has marks in it, but for the members in the background."""
        marked = dict.fromkeys(mark.method for panel in self.panels for mark in panel.marks)
        return tuple(method for method in marked if method not in ("", BACKGROUND))


def axis(low: float, high: float, start: float, end: float, *, ticks: int = 5, label: str = "") -> Axis:
    """A scale with about ``ticks`` round numbers on it.

    Example:
        >>> [text for _, text in axis(-0.1, 1.1, 0, 100).ticks]
        ['0', '0.25', '0.5', '0.75', '1']
    """
    if not high > low:  # a single value, in the middle of its axis
        low, high = low - max(abs(low), 1) / 2, high + max(abs(high), 1) / 2
    scale = Axis(low, high, start, end)
    values = _round_numbers(low, high, ticks)
    return Axis(
        low, high, start, end, tuple((float(scale(v)), number(v)) for v in values), fitted(label, abs(end - start))
    )


def fitted(text: str, length: float) -> str:
    """The text, cut to a length in units of the picture; a letter takes about seven."""
    most = max(int(length / 7), 4)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def path(curves: Iterable[tuple[np.ndarray, np.ndarray]], closed: bool = False) -> str:
    """Curves of positions (x, y) as one SVG path, in tenths of a unit, each point relative to the one before.

    Example:
        >>> path([(np.array([0.0, 10.0, 20.04]), np.array([5.0, 5.0, 4.5]))])
        'M0 5l10 0 10-.5'
    """
    return "".join(_curve(x, y) + ("z" if closed else "") for x, y in curves)


def _curve(x: np.ndarray, y: np.ndarray) -> str:
    # Rounded before differences are taken, so that errors do not add up along the curve.
    points = np.rint(10 * np.column_stack([x, y])).astype(int)
    steps = np.diff(points, axis=0)
    steps = steps[steps.any(1)]
    first = " ".join(map(_tenths, points[0].tolist()))
    rest = "".join(_joined(_tenths(dx), _tenths(dy), i > 0) for i, (dx, dy) in enumerate(steps.tolist()))
    return f"M{first}l{rest or '0 0'}"


def _joined(dx: str, dy: str, after: bool) -> str:
    """Two numbers after others, with a space only where a sign does not part them."""
    return (" " if after and dx[0] != "-" else "") + dx + (" " if dy[0] != "-" else "") + dy


def _tenths(value: int) -> str:
    """15 → 1.5, −3 → -.3, 20 → 2."""
    whole, tenth = divmod(abs(value), 10)
    digits = (str(whole) if whole or not tenth else "") + (f".{tenth}" if tenth else "")
    return f"-{digits}" if value < 0 else digits


def _round_numbers(low: float, high: float, most: int) -> Sequence[float]:
    """Multiples of 1, 2, 2.5 or 5 times a power of ten in [low, high]: as many as fit into ``most``."""
    rough = (high - low) / most
    power = 10 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10, 20) if (high - low) / (m * power) <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    # Rounded to the step's digits: 3 × 0.1 is not 0.3.
    return [round(i * step, 12 - math.floor(math.log10(step))) + 0.0 for i in range(first, last + 1)]
