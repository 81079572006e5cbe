"""Colors, dashes and markers of every picture, in :mod:`drystone.plots` and in the report.

Each color has a shade for a light page and one for a dark page. Lines have a contrast of at least 3 with the page
(WCAG 2.2, AA), and readers with any of the three kinds of color blindness can tell them apart; tests compute it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

__all__ = ["COLOURS", "FIT_COLORS", "SHADES", "Style", "method_styles"]

# Name: (on a light page, on a dark page).
SHADES = {
    "fit-0": ("#d6393d", "#e34546"),
    "fit-1": ("#5f1bcb", "#9b5df0"),
    "fit-2": ("#5f965a", "#a9e3a3"),
    "fit-3": ("#5d4c04", "#f8d147"),
    "fit-4": ("#d807a7", "#e424b2"),
    "fit-5": ("#81305a", "#e469a6"),
    "best": ("#c76304", "#f89e5c"),
    "uniform": ("#4689e8", "#7b9de4"),
    "member": ("#8b8e93", "#737881"),
    "reference": ("#222222", "#dddad4"),
    "band": ("#e4e1d8", "#2e3239"),
}
FIT_COLORS = tuple(name for name in SHADES if name.startswith("fit-"))
COLOURS = {
    "members": SHADES["member"][0],
    "best": SHADES["best"][0],
    "uniform": SHADES["uniform"][0],
    "stacked": SHADES["fit-0"][0],
    "reference": SHADES["reference"][0],
    "band": SHADES["band"][0],
}
# Lengths of strokes and gaps, in units of the line's width, and markers: one pair for the first fit of each color,
# the next for the second, and so on.
DASHES = ((), (4.0, 1.5), (1.2, 1.2), (6.0, 1.5, 1.2, 1.5))
MARKERS = ("o", "s", "D", "^")


@dataclass(frozen=True)
class Style:
    """The look of one method.

    Attributes:
        name: of its color in ``SHADES``.
        dashes: lengths of strokes and gaps in units of the line's width; empty for a solid line.
        marker: of its points, in matplotlib's spelling.
    """

    name: str
    dashes: tuple[float, ...] = ()
    marker: str = "o"

    @property
    def color(self) -> str:
        """The shade for a light page."""
        return SHADES[self.name][0]

    @property
    def linestyle(self) -> Literal["-"] | tuple[float, tuple[float, ...]]:
        """The dashes in matplotlib's spelling."""
        return (0.0, self.dashes) if self.dashes else "-"


def method_styles(fits: Iterable[str]) -> dict[str, Style]:
    """Return the style of every method: of the fits by their position, and of what they are compared with.

    Fits differ in color as long as there are colors, and in dashes and markers after that: 24 fits have different
    looks.

    Example:
        >>> styles = method_styles(["log", "energy"])
        >>> styles["log"].name, styles["energy"].name, styles["uniform"].name
        ('fit-0', 'fit-1', 'uniform')
    """
    references = {
        "members": Style("member"),
        "best": Style("best"),
        "uniform": Style("uniform"),
        "uniform ends": Style("uniform", DASHES[1], MARKERS[1]),
        "reference": Style("reference"),
        "exact": Style("reference"),
    }
    return references | {fit: _fit_style(i) for i, fit in enumerate(fits)}


def _fit_style(position: int) -> Style:
    turn, color = divmod(position, len(FIT_COLORS))
    return Style(FIT_COLORS[color], DASHES[turn % len(DASHES)], MARKERS[turn % len(MARKERS)])
