"""Axes, legends and names, as all pictures have them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from drystone.plots.palette import COLOURS, Style

__all__ = ["SMALL", "RoomyLocator", "axes_or_new", "legend_above", "legend_handles", "short", "tidy"]

SMALL = 9  # points, of labels inside a picture
LONGEST = 32  # letters of a name: more would leave no room for the picture


class RoomyLocator(MaxNLocator):
    """Ticks of a horizontal axis, as many as their labels have room for, within the axes and beside each other.

    Args:
        most: the largest number of steps.
    """

    LETTER = 0.62  # width of a letter, as a share of the font's size
    BETWEEN = 1.0  # least space between labels, likewise

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.most = most

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        """Return the ticks between two values: two or more, or one if no two labels have room."""
        alone: list[float] = []
        for steps in range(self.most, 0, -1):
            self.set_params(nbins=steps)
            ticks = np.asarray(super().tick_values(vmin, vmax))
            ticks = ticks[(ticks >= vmin) & (ticks <= vmax)]
            label, between = self._widths(ticks, vmax - vmin)
            inside = ticks[(ticks - label / 2 >= vmin) & (ticks + label / 2 <= vmax)]
            for some in (inside, inside[::2]):  # the second are the outer ones of three
                if len(some) > 1 and np.diff(some).min() >= label + between:
                    return some.tolist()
            alone = (inside if len(inside) else ticks)[:1].tolist()
        return alone

    def _widths(self, ticks: np.ndarray, length: float) -> tuple[float, float]:
        """Return the width of the longest label and of the space between labels, in units of the axis."""
        axis = self.axis
        assert isinstance(axis, Axis)
        size = FontProperties(size=axis.get_tick_params().get("labelsize", rcParams["xtick.labelsize"]))
        unit = size.get_size_in_points() * length / (axis.axes.bbox.width * 72 / axis.axes.figure.dpi)
        letters = max((len(label) for label in axis.get_major_formatter().format_ticks(ticks.tolist())), default=0)
        return self.LETTER * letters * unit, self.BETWEEN * unit


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
