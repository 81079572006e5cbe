"""Pair plots of draws at one observation, as contours: several posteriors stay legible on top of each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.ndimage import gaussian_filter, gaussian_filter1d

from drystone.report.chart import Axis, Figure, Mark, Panel, axis, path
from drystone.report.contour import level_lines
from drystone.report.posteriors import Observation
from drystone.report.tables import Grid, grid, number

__all__ = ["MOST", "corner"]

# So many parameters fit on a page; a pair plot of more is not read.
MOST = 6
# Cells of a panel a side, and the width of the smoothing in cells for a thousand draws: fine enough to keep two
# moons apart. Fewer draws are smoothed more widely, so that as many of them lie within the kernel's reach.
CELLS, SMOOTHING, DRAWS = 72, 1.6, 1000
# Shares of the draws inside the contours.
INSIDE = (0.5, 0.9)
PANEL, GAP, LEFT, BOTTOM = 100.0, 8.0, 46.0, 40.0


def corner(observation: Observation, parameters: Sequence[str], colours: Mapping[str, str]) -> Figure:
    """Marginals on the diagonal, contours that hold 50 % and 90 % of the draws below it."""
    d = min(len(parameters), MOST)
    # Few parameters get larger panels, so that labels keep their size on the page.
    side = max(PANEL, (3 * PANEL + 2 * GAP - (d - 1) * GAP) / d)
    tall = side if d > 1 else side / 2
    size = LEFT + d * side + (d - 1) * GAP + 4
    ranges = [_range([sample[:, j] for sample in observation.draws.values()], j, observation) for j in range(d)]
    panels = []
    for i in range(d):
        for j in range(i + 1):
            left, top = LEFT + j * (side + GAP), 4 + i * (tall + GAP)
            ticks = 3 if d > 2 else 5
            x = axis(*ranges[j], left, left + side, ticks=ticks, label=parameters[j] if i == d - 1 else "")
            y = axis(*ranges[i], top + tall, top, ticks=ticks, label=parameters[i] if j == 0 and i > 0 else "")
            x = x if i == d - 1 else Axis(x.low, x.high, x.start, x.end)
            y = y if j == 0 and i > 0 else Axis(y.low, y.high, y.start, y.end)
            panels.append(_panel(observation, i, j, x, y, colours))
    shown = "" if d == len(parameters) else f" (first {d} of {len(parameters)} parameters)"
    return Figure(
        heading=f"{observation.label}{shown}",
        description=f"Posterior draws at {observation.label}{shown}: {', '.join(observation.draws)}. "
        "The table below has their means and intervals.",
        width=size,
        height=4 + d * tall + (d - 1) * GAP + BOTTOM,
        panels=tuple(panels),
        numbers=_numbers(observation, parameters),
    )


def _panel(observation: Observation, i: int, j: int, x: Axis, y: Axis, colours: Mapping[str, str]) -> Panel:
    marks = []
    if i == j:
        densities = {name: _density(sample[:, i], x) for name, sample in observation.draws.items()}
        highest = 1.08 * max(density.max() for density in densities.values())
        centres = x.start + (np.arange(CELLS) + 0.5) / CELLS * (x.end - x.start)
        for name, density in densities.items():
            heights = y.start + density / highest * (y.end - y.start)
            marks.append(Mark(path([(centres, heights)]), colours[name], "line", name))
    else:
        for name, sample in observation.draws.items():
            for share, kind in zip(INSIDE, ("line", "thin"), strict=True):
                marks.append(Mark(_contour(sample[:, j], sample[:, i], share, x, y), colours[name], kind, name))
    if observation.truth is not None:
        lines = [(x(observation.truth[j]) * np.ones(2), np.array([y.start, y.end]))]
        if i != j:
            lines.append((np.array([x.start, x.end]), y(observation.truth[i]) * np.ones(2)))
        marks.append(Mark(path(lines), "reference", "dashed"))
    return Panel(x, y, tuple(mark for mark in marks if mark.d))


def _range(samples: Sequence[np.ndarray], j: int, observation: Observation) -> tuple[float, float]:
    """Where nearly all draws of every method lie, and the truth, with a margin."""
    ends = np.array([np.quantile(sample, [0.004, 0.996]) for sample in samples])
    low, high = ends[:, 0].min(), ends[:, 1].max()
    if observation.truth is not None:
        low, high = min(low, observation.truth[j]), max(high, observation.truth[j])
    margin = 0.06 * (high - low)
    return float(low - margin), float(high + margin)


def _density(sample: np.ndarray, x: Axis) -> np.ndarray:
    """Smoothed histogram on the cells of an axis, (CELLS,)."""
    counts, _ = np.histogram(sample, CELLS, (x.low, x.high))
    return gaussian_filter1d(counts / len(sample), _width(len(sample)))


def _width(draws: int) -> float:
    return max(SMOOTHING * (DRAWS / draws) ** 0.5, 1.0)


def _contour(a: np.ndarray, b: np.ndarray, share: float, x: Axis, y: Axis) -> str:
    """The line around the smallest region with that share of the draws."""
    counts, _, _ = np.histogram2d(a, b, CELLS, [(x.low, x.high), (y.low, y.high)])
    density = gaussian_filter(counts, _width(len(a)))
    ordered = np.sort(density.ravel())[::-1]
    level = ordered[min(np.searchsorted(np.cumsum(ordered), share * ordered.sum()), ordered.size - 1)]
    # Values belong to the middles of the cells.
    shares = [(line + 0.5).T / CELLS for line in level_lines(density, level)]
    positions = [(x.start + u * (x.end - x.start), y.start + v * (y.end - y.start)) for u, v in shares]
    return path(positions, closed=True)


def _numbers(observation: Observation, parameters: Sequence[str]) -> Grid:
    """Mean, standard deviation and central 90 % interval of each parameter by each method."""
    rows = []
    for j, parameter in enumerate(parameters):
        if observation.truth is not None:
            rows.append([parameter, "truth", number(observation.truth[j]), "", ""])
        for name, sample in observation.draws.items():
            low, high = np.quantile(sample[:, j], [0.05, 0.95])
            spread = sample[:, j].std(ddof=1) if len(sample) > 1 else np.nan
            interval = f"[{number(low)}, {number(high)}]"
            rows.append([parameter, name, sample[:, j].mean(), spread, interval])
    head = ("parameter", "method", "mean", "standard deviation", "90 % interval")
    return grid(f"Posteriors at {observation.label}", head, rows)
