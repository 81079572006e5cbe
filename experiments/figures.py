"""Parts that the experiments' figures share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from drystone.plots import palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "curve", "panel", "rank_panels"]

# Those of ds.plots; what stands beside the stacked posterior has the second fit's.
SECOND = palette.SHADES[palette.FIT_COLORS[1]][0]
COLOURS = {**palette.COLOURS, "with a Dirichlet prior": SECOND, "log + rank": SECOND}


def panel(title: str, x: str, y: str) -> tuple[Figure, Axes]:
    """Return a figure of one panel."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6.2, 3.9), layout="constrained")
    ax.set(title=title, xlabel=x, ylabel=y)
    ax.spines[["top", "right"]].set_visible(False)
    return figure, ax


def curve(ax: Axes, x: Sequence[float], values: Sequence[Mapping[str, float]], label: str, colour: str) -> None:
    """Draw values with a band of one standard error."""
    middle, se = np.array([v["value"] for v in values]), np.array([v["se"] for v in values])
    ax.fill_between(x, middle - se, middle + se, color=colour, alpha=0.15, linewidth=0)
    ax.plot(x, middle, "o-", color=colour, label=label, markersize=4)


def rank_panels(ranks: Mapping[str, Any]) -> Figure:
    """Draw the distribution of each parameter's ranks minus the diagonal, over the band of calibrated ones."""
    import matplotlib.pyplot as plt

    from drystone.diagnostics import ecdf_band

    parameters = list(next(iter(ranks["curves"].values())))
    columns = min(5, len(parameters))
    rows = -(-len(parameters) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(2.35 * columns, 2.2 * rows + 0.4), sharex=True, sharey=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    t = np.linspace(0, 1, len(next(iter(ranks["curves"].values()))[parameters[0]]))
    band = ecdf_band(ranks["N"], grid=t[1:-1])
    for ax, parameter in zip(axes.flat, parameters, strict=False):
        for method, curves in ranks["curves"].items():
            dashed = "--" if "+" in method else "-"  # a hybrid often lies on the stack
            ax.plot(t, curves[parameter], dashed, color=COLOURS[method], label=method, linewidth=1.4)
        ax.fill_between(
            t[1:-1], band.lower - t[1:-1], band.upper - t[1:-1], color="#dddddd", linewidth=0, zorder=0,
            label="95 % of calibrated curves",
        )  # fmt: skip
        ax.set_title(parameter, fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes.flat[len(parameters) :]:
        ax.set_visible(False)
    figure.supxlabel("rank", fontsize=10)
    figure.supylabel("distribution − diagonal", fontsize=10)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return figure
