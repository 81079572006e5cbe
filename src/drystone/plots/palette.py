"""What all pictures share: colours, axes, legends."""

from __future__ import annotations

from collections.abc import Iterable

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

__all__ = ["COLOURS", "SMALL", "axes_or_new", "colours_of", "legend_above", "short", "tidy"]

COLOURS = {
    "members": "#c6c6c6",
    "best": "#dd9b1f",
    "uniform": "#3b6ea5",
    "stacked": "#c8553d",
    "reference": "#222222",
    "band": "#ebebeb",
}
# Second and further stacks in one picture: as far from the colours above as can be for colour-blind readers too.
MORE_STACKS = ("#8723eb", "#81b6eb", "#804663", "#2d2d80", "#761400", "#cb62ff", "#00e57c")
SMALL = 9  # points, of labels inside a picture
LONGEST = 32  # letters of a name: more would leave no room for the picture


def axes_or_new(ax: Axes | None, bars: float | None = None) -> Axes:
    """``ax``, or a new one of 6 × 4 inches; high enough for so many bars."""
    if ax is not None:
        return ax
    height = 4.0 if bars is None else float(np.clip(0.9 + 0.28 * bars, 1.8, 8))
    return plt.subplots(figsize=(6, height), layout="constrained")[1]


def tidy(ax: Axes, grid: str = "") -> Axes:
    """Without the box; with faint lines to read values by if ``grid`` is "x"."""
    ax.spines[["top", "right"]].set_visible(False)
    if grid == "x":
        ax.grid(axis="x", color=COLOURS["band"])
        ax.set_axisbelow(True)
        ax.tick_params(axis="y", length=0)
    return ax


def legend_above(ax: Axes, columns: int = 5) -> None:
    """In a row above the picture, out of the curves' way."""
    ax.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=columns,
        frameon=False,
        fontsize=SMALL,
        handlelength=1.4,
        columnspacing=1.3,
    )


def short(name: str) -> str:
    """A name of at most LONGEST letters: long ones without their middle, because they differ at their ends."""
    half = (LONGEST - 1) // 2
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1 - half]}…{name[-half:]}"


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """A colour for each name: its own if it has one, else the next of the stacks'."""
    names = list(names)
    more = iter(((COLOURS["stacked"],) * ("stacked" not in names) + MORE_STACKS) * len(names))
    return {name: COLOURS[name] if name in COLOURS else next(more) for name in names}
