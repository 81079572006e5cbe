"""Pictures of posteriors at one observation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from scipy.ndimage import gaussian_filter

from drystone._arrays import as_numpy
from drystone.plots.palette import COLOURS, SMALL, colours_of, short, tidy

__all__ = ["pairs"]

BINS = 60  # of each parameter: fine enough for thin crescents


def pairs(
    draws: Mapping[str, Any],
    *,
    parameters: Sequence[str] | None = None,
    truth: Any = None,
    axes: np.ndarray | None = None,
) -> np.ndarray:
    """Marginals and pairs of several posteriors at one observation: regions of highest density, 50% and 90%.

    Args:
        draws: by name, (S, d) each; "members", "uniform", "stacked" and "reference" have colours of their own, and
            "members" may hold several, (M, S, d).
        parameters: names of θ.
        truth: the true θ, (d,).
        axes: where to draw, (d, d).

    Returns:
        the axes, (d, d); those above the diagonal are switched off.
    """
    samples = _checked(draws)
    d = next(iter(samples.values())).shape[-1]
    names = [f"theta_{i}" for i in range(d)] if parameters is None else list(parameters)
    if len(names) != d:
        raise ValueError(f"`parameters` must name all d = {d}; got {len(names)}.")
    if axes is None:
        side = max(4.5, 2.2 * d)
        axes = np.asarray(plt.subplots(d, d, figsize=(side, side), squeeze=False, layout="constrained")[1])
    colours = colours_of(samples)
    pooled = np.concatenate([sample.reshape(-1, d) for sample in samples.values()])
    low, high = np.quantile(pooled, [0.005, 0.995], axis=0)
    low, high = low - 0.1 * (high - low), high + 0.1 * (high - low)
    for i, j in np.ndindex(d, d):
        ax: Any = axes[i, j]
        if j > i:
            ax.set_axis_off()
            continue
        for name, sample in samples.items():
            for one in sample:
                width = 0.8 if name == "members" else 1.6
                if i == j:
                    _marginal(ax, one[:, i], (low[i], high[i]), colours[name], width)
                else:
                    _regions(ax, one[:, [j, i]], (low[[j, i]], high[[j, i]]), colours[name], width)
        if truth is not None:
            _mark(ax, as_numpy(truth), i, j)
        ax.set_xlim(low[j], high[j])
        ax.xaxis.set_major_locator(MaxNLocator(4))
        ax.set_xlabel(names[j]) if i == d - 1 else ax.tick_params(labelbottom=False)
        if i == j:
            ax.set_yticks([])
            ax.set_ylim(bottom=0)
            ax.spines["left"].set_visible(False)
        else:
            ax.set_ylim(low[i], high[i])
            ax.yaxis.set_major_locator(MaxNLocator(4))
            ax.set_ylabel(names[i]) if j == 0 else ax.tick_params(labelleft=False)
        tidy(ax)
    handles = [Line2D([], [], color=colours[name], label=short(name)) for name in samples]
    corner = axes[0, -1]
    corner.legend(handles=handles, loc="upper right", frameon=False, fontsize=SMALL)
    return axes


def _checked(draws: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Draws by name, (M, S, d) each: of one posterior, M = 1."""
    if not isinstance(draws, Mapping) or not draws:
        raise TypeError('`draws` must be a mapping of names to draws (S, d), such as {"stacked": draws}.')
    samples = {name: np.asarray(as_numpy(value), float) for name, value in draws.items()}
    shapes = {name: sample.shape for name, sample in samples.items()}
    if not all(len(shape) in (2, 3) for shape in shapes.values()) or len({s[-1] for s in shapes.values()}) > 1:
        raise ValueError(f"`draws` must have shapes (S, d) or (M, S, d) with the same d; got {shapes}.")
    for name, sample in samples.items():
        strange = sample.size - np.count_nonzero(np.isfinite(sample))
        if strange:
            raise ValueError(
                f"`draws` must be finite; {strange} of {sample.size} numbers of {name!r} are not. "
                "Leave out that posterior, or those draws."
            )
    return {name: sample.reshape(-1, *sample.shape[-2:]) for name, sample in samples.items()}


def _marginal(ax: Axes, x: np.ndarray, ends: tuple[float, float], colour: str, width: float) -> None:
    """A smoothed histogram."""
    counts, edges = np.histogram(x, BINS, ends)
    density = counts / (len(x) * (edges[1] - edges[0]))
    ax.plot((edges[1:] + edges[:-1]) / 2, gaussian_filter(density, 1.0), color=colour, linewidth=width)


def _regions(ax: Axes, points: np.ndarray, ends: tuple[np.ndarray, np.ndarray], colour: str, width: float) -> None:
    """Contours of the smallest regions that hold 50% and 90% of the points."""
    counts, x, y = np.histogram2d(points[:, 0], points[:, 1], BINS, np.transpose(ends).tolist())
    if not counts.any():  # a member far outside the picture
        return
    density = gaussian_filter(counts, 1.0)
    falling = np.sort(density.ravel())[::-1]
    held = np.cumsum(falling) / falling.sum()
    levels = sorted({float(falling[np.searchsorted(held, share)]) for share in (0.9, 0.5)})
    ax.contour((x[1:] + x[:-1]) / 2, (y[1:] + y[:-1]) / 2, density.T, levels, colors=colour, linewidths=width)


def _mark(ax: Axes, truth: np.ndarray, i: int, j: int) -> None:
    if i == j:
        ax.axvline(truth[i], color=COLOURS["reference"], linewidth=0.8, linestyle=":")
    else:
        ax.plot(truth[j], truth[i], "+", color=COLOURS["reference"], markersize=9, markeredgewidth=1.5)
