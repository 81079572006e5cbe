"""The page's pictures: what :mod:`drystone.plots` draws, in the page's sizes, with texts and numbers beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from drystone._messages import counted, digits_for
from drystone.diagnostics import Calibration
from drystone.plots.axes import RoomyLocator, tidy
from drystone.plots.calibration import draw_curves
from drystone.plots.palette import Style
from drystone.plots.posterior import draw_pairs
from drystone.report.posteriors import Observation
from drystone.report.svg import UNIT, svg
from drystone.report.tables import Cell, Grid, grid, interval, number
from drystone.report.theme import TEXTS
from drystone.table.statistics import quantile

__all__ = ["BACKGROUND", "MOST", "Picture", "coverage_pictures", "pair_picture", "rank_pictures"]

# The method that the curves behind the others are marked with.
BACKGROUND = "members"
# So many parameters fit on a page; a pair plot of more is not read.
MOST = 6
# Margins of a calibration picture, and the heights of the two kinds as shares of their width.
LEFT, RIGHT, TOP, BOTTOM = 44.0, 8.0, 26.0, 38.0
FLAT, SQUARE = 0.68, 0.92
# The panels of a pair plot, the gaps between them, and its margins.
PANEL, GAP, PAIR_BOTTOM, EDGE = 100.0, 8.0, 40.0, 4.0
# Left of the panels: the ticks and a space, a letter of the numbers, and the name of y.
TICK, LETTER, NAME = 8.0, 6.4, 13.0
# From the axis to the name of y: past the widest numbers there are.
LABEL = 33.0
# Steps between ticks, times powers of ten.
ROUND = (1, 2, 2.5, 5, 10)
# Rows of the table behind a calibration picture.
LEVELS = np.arange(1, 10) / 10
# Sizes are those of the style sheet.
INK, SOFT = TEXTS["ink"][0], TEXTS["soft"][0]
LOOK: Any = {
    "font.size": 11,
    "axes.edgecolor": SOFT,
    "axes.facecolor": "none",
    "axes.labelcolor": SOFT,
    "axes.linewidth": 0.75,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 13,
    "axes.titleweight": "bold",
    "figure.dpi": UNIT,
    "figure.facecolor": "none",
    "xtick.color": SOFT,
    "xtick.labelsize": 11,
    "xtick.major.size": 4,
    "xtick.major.width": 0.75,
    "ytick.color": SOFT,
    "ytick.labelsize": 11,
    "ytick.major.size": 4,
    "ytick.major.width": 0.75,
}


@dataclass(frozen=True)
class Picture:
    """A picture: its SVG, what it shows in words, and its numbers.

    Attributes:
        heading: printed above.
        svg: the drawing, with its text alternative.
        methods: the methods in it, but for the members in the background.
        numbers: the same as a table.
    """

    heading: str
    svg: Markup = field(repr=False)
    methods: tuple[str, ...]
    numbers: Grid = field(repr=False)


def rank_pictures(
    ranks: Calibration, best: str | None, styles: Mapping[str, Style], members: Sequence[str]
) -> list[Picture]:
    """Draw the ECDF of the ranks less the diagonal, one picture per parameter, all on the same scale.

    Args:
        ranks: from ``ds.diagnostics.rank_ecdf``.
        best: name of the member to draw as the best.
        styles: of the methods.
        members: names of the members to draw in the background.
    """
    diagonal = ranks.grid[:, None]
    behind = [ranks.members[ranks.names.index(name)] for name in members]
    bands = [ranks.band.lower[:, None], ranks.band.upper[:, None]]
    curves = [*bands, *_methods(ranks, best).values(), *behind]
    reach = 1.05 * max(np.nanmax(np.abs(curve - diagonal), initial=0.0) for curve in curves)
    pictures = []
    for i in range(len(ranks.parameters)):
        with _axes(ranks, i, FLAT) as ax:
            draw_curves(ax, ranks, i, styles, less_diagonal=True, members=members, best=best)
            ax.set(ylim=(-reach, reach), xlabel="rank z")
            pictures.append(_calibration_picture(ax, ranks, i, best, members, less_diagonal=True))
    return pictures


def coverage_pictures(
    coverage: Calibration, best: str | None, styles: Mapping[str, Style], members: Sequence[str]
) -> list[Picture]:
    """Draw the coverage of central intervals against their nominal level, one picture per parameter."""
    pictures = []
    for i in range(len(coverage.parameters)):
        with _axes(coverage, i, SQUARE) as ax:
            draw_curves(ax, coverage, i, styles, less_diagonal=False, members=members, best=best)
            ax.set(ylim=(0, 1), xlabel="nominal level", ylabel="coverage")
            pictures.append(_calibration_picture(ax, coverage, i, best, members, less_diagonal=False))
    return pictures


def pair_picture(observation: Observation, parameters: Sequence[str], styles: Mapping[str, Style]) -> Picture:
    """Draw marginals on the diagonal, contours that hold 50 % and 90 % of the draws below it."""
    d = min(len(parameters), MOST)
    # Few parameters get larger panels, so that labels keep their size on the page.
    side = max(PANEL, (3 * PANEL + 2 * GAP - (d - 1) * GAP) / d)
    tall = side if d > 1 else side / 2
    samples = {name: sample[None, :, :d] for name, sample in observation.draws.items()}
    with _look():
        figure = Figure()
        axes = np.full((d, d), None)
        places = list(zip(*np.tril_indices(d), strict=True))
        for i, j in places:
            axes[i, j] = figure.add_axes((0, 0, 1, 1))
        labels = [_fitted(name, side) for name in parameters[:d]]
        bounds = None if observation.bounds is None else observation.bounds[:d]
        draw_pairs(axes, samples, labels, observation.truth, styles, bounds)
        for ax in figure.axes:
            _ticks(ax, 3 if d > 2 else 5)
        numbers = TICK + LETTER * max((_longest(axes[i, 0]) for i in range(1, d)), default=0)
        left = numbers + NAME
        width = left + d * side + (d - 1) * GAP + EDGE
        height = EDGE + d * tall + (d - 1) * GAP + PAIR_BOTTOM
        figure.set_size_inches(width / UNIT, height / UNIT)
        for i, j in places:
            x, bottom = left + j * (side + GAP), PAIR_BOTTOM + (d - 1 - i) * (tall + GAP)
            axes[i, j].set_position((x / width, bottom / height, side / width, tall / height))
            locator = RoomyLocator(3 if d > 2 else 5)
            locator.set_params(steps=ROUND)
            axes[i, j].xaxis.set_major_locator(locator)
            axes[i, j].yaxis.set_label_coords(-numbers / side, 0.5)
        part = "" if d == len(parameters) else f" (first {d} of {len(parameters)} parameters)"
        description = (
            f"Posterior draws at {observation.label}{part}: {', '.join(observation.draws)}. "
            "The table below has their means and intervals."
        )
        drawing = svg(figure, description, {name: name for name in samples})
    return Picture(
        f"{observation.label}{part}", drawing, tuple(samples), _posterior_numbers(observation, parameters)
    )


@contextmanager
def _look() -> Iterator[None]:
    """Draw as the page looks, whatever matplotlib's settings are; they are restored afterwards."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(LOOK)
        yield


@contextmanager
def _axes(c: Calibration, i: int, shape: float) -> Iterator[Axes]:
    """Give the axes of one parameter's picture, so high as a share of its width."""
    # Pictures of one or two parameters are printed larger; drawn larger too, their labels keep their size.
    width = 420.0 if len(c.parameters) < 3 else 300.0
    height = shape * width
    inner = width - LEFT - RIGHT, height - TOP - BOTTOM
    with _look():
        figure = Figure(figsize=(width / UNIT, height / UNIT))
        ax = figure.add_axes((LEFT / width, BOTTOM / height, inner[0] / width, inner[1] / height))
        ax.set_title(_fitted(c.parameters[i], inner[0])).set_parse_math(False)
        ax.yaxis.set_label_coords(-LABEL / inner[0], 0.5)
        yield tidy(ax)


def _calibration_picture(
    ax: Axes, c: Calibration, i: int, best: str | None, members: Sequence[str], *, less_diagonal: bool
) -> Picture:
    """Return the picture with its description and numbers."""
    _ticks(ax, 5)
    curves = {name: curve[:, i] for name, curve in _methods(c, best).items() if np.isfinite(curve[:, i]).all()}
    inside = [name for name, curve in curves.items() if c.band.holds(curve[:, None]).all()]
    outside = [name for name in curves if name not in inside]
    what = "Ranks" if less_diagonal else "Coverage of central intervals"
    parameter = c.parameters[i]
    description = (
        f"{what} of {parameter}. In the 95 % band of an exact posterior: {', '.join(inside) or 'none'}; "
        f"outside: {', '.join(outside) or 'none'}."
    )
    labels = {counted(len(members), "member"): BACKGROUND} | {name: name for name in curves}
    figure = ax.figure
    assert isinstance(figure, Figure)
    numbers = _curve_numbers(c, curves, f"{what} of {parameter}", less_diagonal)
    return Picture(parameter, svg(figure, description, labels), tuple(curves), numbers)


def _ticks(ax: Axes, most: int) -> None:
    """Put few round numbers on the axes, as the page prints numbers; names are text, not mathematics."""
    for axis in (ax.xaxis, ax.yaxis):
        if len(axis.get_major_locator()()):
            axis.set_major_locator(MaxNLocator(most, steps=ROUND))
            axis.set_major_formatter(FuncFormatter(lambda value, _: number(float(value))))
        axis.label.set_parse_math(False)


def _longest(ax: Axes) -> int:
    """Return how many letters the longest number at the axis of y has."""
    low, high = ax.get_ylim()
    return max((len(number(float(v))) for v in ax.yaxis.get_major_locator()() if low <= v <= high), default=0)


def _fitted(text: str, length: float) -> str:
    """Return the text, cut to a length in units of the picture; a letter takes about seven."""
    most = max(int(length / 7), 4)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _methods(c: Calibration, best: str | None) -> dict[str, np.ndarray]:
    """Return the curves in color, (G, d) by name."""
    of_best = {} if best is None else {"best": c.members[c.names.index(best)]}
    return {**of_best, **c.methods}


def _curve_numbers(c: Calibration, curves: Mapping[str, np.ndarray], caption: str, less_diagonal: bool) -> Grid:
    """Return the curves at nine levels, with the band."""
    base = LEVELS if less_diagonal else 0 * LEVELS

    def at_levels(curve: np.ndarray) -> np.ndarray:
        return np.interp(LEVELS, c.grid, curve) - base

    columns = {name: at_levels(curve) for name, curve in curves.items()}
    columns |= {"band from": at_levels(c.band.lower), "to": at_levels(c.band.upper)}
    rows = [
        [
            Cell(f"{level:.1f}"),
            *(Cell(f"{values[i]:.3f}".replace("-", "−"), values[i]) for values in columns.values()),
        ]
        for i, level in enumerate(LEVELS)
    ]
    return grid(caption, ["rank z" if less_diagonal else "nominal", *columns], rows)


def _posterior_numbers(observation: Observation, parameters: Sequence[str]) -> Grid:
    """Return mean, standard deviation and central 90 % interval of each parameter by each method."""
    rows = []
    for j, parameter in enumerate(parameters):
        spreads = {n: of[:, j].std(ddof=1) if len(of) > 1 else np.nan for n, of in observation.draws.items()}
        if observation.truth is not None:
            digits = digits_for(observation.truth[j], min(spreads.values(), default=np.nan))
            rows.append([parameter, "truth", number(observation.truth[j], digits), "", ""])
        for name, sample in observation.draws.items():
            mean, ends = float(sample[:, j].mean()), quantile(sample[:, j], [0.05, 0.95], 0)
            digits = digits_for(mean, spreads[name])
            rows.append([parameter, name, Cell(number(mean, digits), mean), spreads[name], interval(ends, digits)])
    head = ("parameter", "method", "mean", "standard deviation", "90 % interval")
    return grid(f"Posteriors at {observation.label}", head, rows)
