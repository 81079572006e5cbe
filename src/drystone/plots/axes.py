"""Axes, legends and names, as all pictures have them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from drystone.plots.palette import COLOURS, Style

__all__ = ["SMALL", "axes_or_new", "legend_above", "legend_handles", "short", "tidy"]

SMALL = 9  # points, of labels inside a picture
LONGEST = 32  # letters of a name: more would leave no room for the picture


def axes_or_new(ax: Axes | None, bars: float | None = None) -> Axes:
    """Return ``ax``, or new axes of 6 × 4 inches; high enough for so many bars."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt  # here only: the report draws without pyplot

    height = 4.0 if bars is None else float(np.clip(0.9 + 0.28 * bars, 1.8, 8))
    return plt.subplots(figsize=(6, height), layout="constrained")[1]


def tidy(ax: Axes, grid: str = "") -> Axes:
    """Remove the box; add faint lines to read values by if ``grid`` is "x"."""
    ax.spines[["top", "right"]].set_visible(False)
    if grid == "x":
        ax.grid(axis="x", color=COLOURS["band"])
        ax.set_axisbelow(True)
        ax.tick_params(axis="y", length=0)
    return ax


def legend_above(ax: Axes, columns: int = 5) -> None:
    """Draw the legend in rows above the picture, out of the curves' way."""
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(
        handles,
        [short(label) for label in labels],
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=columns,
        frameon=False,
        fontsize=SMALL,
        handlelength=2.2,
        columnspacing=1.3,
    )


def legend_handles(styles: Mapping[str, Style]) -> list[Line2D]:
    """Return one line per method, for a legend apart from the curves."""
    return [
        Line2D([], [], color=style.color, linestyle=style.linestyle, label=short(name))
        for name, style in styles.items()
    ]


def short(name: str) -> str:
    """Return a name of at most LONGEST letters, without its middle: names differ at their ends."""
    half = (LONGEST - 1) // 2
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1 - half]}…{name[-half:]}"
