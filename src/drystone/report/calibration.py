"""Calibration curves: ranks and coverage of the best member, of uniform weights and of the fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from drystone.diagnostics import Calibration
from drystone.report.chart import BACKGROUND, Axis, Figure, Mark, Panel, axis, fitted, path
from drystone.report.tables import Cell, Grid, grid

__all__ = ["coverage_figures", "rank_figures"]

LEFT, RIGHT, TOP, BOTTOM = 44.0, 8.0, 26.0, 38.0
# Heights of the two kinds of picture, as shares of their width.
FLAT, SQUARE = 0.68, 0.92
# Rows of the table behind a picture.
LEVELS = np.arange(1, 10) / 10


def rank_figures(
    ranks: Calibration, best: str | None, colours: Mapping[str, str], drawn: Sequence[str]
) -> list[Figure]:
    """ECDF of the ranks less the diagonal, a picture a parameter, all on the same scale.

    Args:
        ranks: what ``ds.diagnostics.rank_ecdf`` gave.
        best: name of the member to be drawn as the best.
        colours: of the methods.
        drawn: names of the members to be drawn in the background.
    """
    straight = ranks.grid
    band = [ranks.band.lower - straight, ranks.band.upper - straight]
    curves = [curve - straight[:, None] for curve in [*_methods(ranks, best).values(), *_members(ranks, drawn)]]
    reach = max(np.nanmax(np.abs(array), initial=0.0) for array in [*band, *curves])
    y = axis(-1.05 * reach, 1.05 * reach, FLAT * _width(ranks) - BOTTOM, TOP)
    return [_figure(ranks, i, best, colours, drawn, y, less_diagonal=True) for i in range(len(ranks.parameters))]


def coverage_figures(
    coverage: Calibration, best: str | None, colours: Mapping[str, str], drawn: Sequence[str]
) -> list[Figure]:
    """Coverage of central intervals against their nominal level, a picture a parameter."""
    y = axis(0, 1, SQUARE * _width(coverage) - BOTTOM, TOP, label="coverage")
    return [
        _figure(coverage, i, best, colours, drawn, y, less_diagonal=False) for i in range(len(coverage.parameters))
    ]


def _figure(
    c: Calibration,
    i: int,
    best: str | None,
    colours: Mapping[str, str],
    drawn: Sequence[str],
    y: Axis,
    less_diagonal: bool,
) -> Figure:
    x = axis(0, 1, LEFT, _width(c) - RIGHT, label="rank z" if less_diagonal else "nominal level")
    z = np.concatenate([[0.0], c.grid, [1.0]])
    base = z if less_diagonal else 0 * z

    def line(curve: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return x(z), y(np.concatenate([[0.0], curve, [1.0]]) - base)

    methods = {name: curve[:, i] for name, curve in _methods(c, best).items() if np.isfinite(curve[:, i]).all()}
    members = [line(curve[:, i]) for curve in _members(c, drawn) if np.isfinite(curve[:, i]).all()]
    (across, low), (_, high) = line(c.band.lower), line(c.band.upper)
    around = np.concatenate([across, across[::-1]]), np.concatenate([low, high[::-1]])
    marks = [
        Mark(path([around], closed=True), "band", "area"),
        Mark(path(members), "member", "faint", BACKGROUND),
        Mark(path([line(c.grid)]), "reference", "thin"),
        *(Mark(path([line(curve)]), colours[name], "line", name) for name, curve in methods.items()),
    ]
    inside = [name for name, curve in methods.items() if c.band.holds(curve[:, None]).all()]
    outside = [name for name in methods if name not in inside]
    what = "Ranks" if less_diagonal else "Coverage of central intervals"
    parameter = c.parameters[i]
    return Figure(
        heading=parameter,
        description=f"{what} of {parameter}. In the 95 % band of an exact posterior: "
        f"{', '.join(inside) or 'none'}; outside: {', '.join(outside) or 'none'}.",
        width=_width(c),
        height=y.start + BOTTOM,
        panels=(Panel(x, y, tuple(mark for mark in marks if mark.d), fitted(parameter, x.end - x.start)),),
        numbers=_numbers(c, methods, f"{what} of {parameter}", less_diagonal),
    )


def _width(c: Calibration) -> float:
    """Pictures of one or two parameters are printed larger; drawn larger too, their labels keep their size."""
    return 420.0 if len(c.parameters) < 3 else 300.0


def _methods(c: Calibration, best: str | None) -> dict[str, np.ndarray]:
    """The curves in colour, (G, d) by name."""
    of_best = {} if best is None else {"best": c.members[c.names.index(best)]}
    return {**of_best, **c.methods}


def _members(c: Calibration, drawn: Sequence[str]) -> list[np.ndarray]:
    """The curves in the background, (G, d) each."""
    return [c.members[c.names.index(name)] for name in drawn]


def _numbers(c: Calibration, methods: Mapping[str, np.ndarray], caption: str, less_diagonal: bool) -> Grid:
    """The curves at nine levels, with the band."""
    base = LEVELS if less_diagonal else 0 * LEVELS

    def at_levels(curve: np.ndarray) -> np.ndarray:
        return np.interp(LEVELS, c.grid, curve) - base

    columns = {name: at_levels(curve) for name, curve in methods.items()}
    columns |= {"band from": at_levels(c.band.lower), "to": at_levels(c.band.upper)}
    rows = [
        [
            Cell(f"{level:.1f}"),
            *(Cell(f"{values[i]:.3f}".replace("-", "−"), values[i]) for values in columns.values()),
        ]
        for i, level in enumerate(LEVELS)
    ]
    return grid(caption, ["rank z" if less_diagonal else "nominal", *columns], rows)
