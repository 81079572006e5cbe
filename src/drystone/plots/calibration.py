"""Pictures of calibration: members behind, uniform weights and stacks in front, the band of an exact one."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import binom

from drystone import diagnostics
from drystone.diagnostics import Calibration
from drystone.methods import Fits
from drystone.plots.palette import COLOURS, axes_or_new, colours_of, legend_above, tidy
from drystone.table import Table

__all__ = ["coverage", "rank_ecdf", "rank_histogram", "tarp"]


def rank_ecdf(table: Table, fits: Fits = None, parameter: int | str = 0, ax: Axes | None = None) -> Axes:
    """ECDF of the ranks less the diagonal, with the band that an exact posterior keeps to in 95% of cases.

    A hill says that the truth lies too often low in the posterior, which then is too high; a valley the reverse. A
    hill and then a valley is a posterior too narrow, a valley and then a hill one too wide.

    Args:
        table: rows that neither members nor fits have seen.
        fits: a stacking, or several by name.
        parameter: name or position.
        ax: where to draw.
    """
    ax, i = axes_or_new(ax), _parameter(parameter, table)
    _curves(ax, diagnostics.rank_ecdf(table, fits), i, less_diagonal=True)
    ax.set(xlabel=f"rank z of {table.parameters[i]}", ylabel="share of ranks ≤ z, less z")
    return tidy(ax)


def rank_histogram(
    table: Table,
    fits: Fits = None,
    parameter: int | str = 0,
    method: str | None = None,
    ax: Axes | None = None,
    *,
    bins: int = 20,
) -> Axes:
    """Histogram of one method's ranks, with the range of a bar of an exact posterior in 95% of cases.

    Args:
        table: rows that neither members nor fits have seen.
        fits: a stacking, or several by name.
        parameter: name or position.
        method: "uniform", the name of a fit or of a member; None for the first fit, or uniform without any.
        ax: where to draw.
        bins: how many; S + 1 should be a multiple of it if ranks come from few draws S.
    """
    ax, i = axes_or_new(ax), _parameter(parameter, table)
    r = diagnostics.ranks(table, fits)
    known = {**dict(zip(r.names, r.members, strict=True)), **r.methods}
    if method is None:
        method = next((name for name in r.methods if name != "uniform"), "uniform")
    if method not in known:
        raise ValueError(f"unknown `method` {method!r}; known: {', '.join(known)}.")
    N = r.effective_rows
    low, high = binom.ppf([0.025, 0.975], N, 1 / bins) * bins / N
    ax.axhspan(low, high, color=COLOURS["band"], linewidth=0)
    ax.axhline(1, color=COLOURS["reference"], linewidth=0.8)
    height, edges = np.histogram(known[method][:, i], bins, (0, 1), weights=r.row_weights * bins)
    colour = COLOURS["members"] if method in r.names else colours_of(r.methods)[method]
    ax.stairs(height, edges, color=colour, fill=True, alpha=0.75)
    ax.stairs(height, edges, color=colour)
    ax.set(xlim=(0, 1), ylim=(0, None), xlabel=f"rank of {table.parameters[i]}, {method}")
    ax.set_ylabel("density (grey: 95% of bars if exact)")
    return tidy(ax)


def coverage(table: Table, fits: Fits = None, parameter: int | str | None = None, ax: Axes | None = None) -> Axes:
    """Coverage of central intervals against their nominal level; below the diagonal is overconfident.

    Args:
        table: rows that neither members nor fits have seen.
        fits: a stacking, or several by name.
        parameter: name or position; None for the mean over parameters, for which the band is somewhat too wide.
        ax: where to draw.
    """
    ax, i = axes_or_new(ax), None if parameter is None else _parameter(parameter, table)
    _curves(ax, diagnostics.coverage(table, fits), i, less_diagonal=False)
    of = "mean over parameters" if i is None else table.parameters[i]
    ax.set(xlabel="nominal level of the central interval", ylabel=f"coverage ({of})")
    return tidy(ax)


def tarp(table: Table, fits: Fits = None, ax: Axes | None = None, *, seed: int = 0) -> Axes:
    """Coverage of balls around random points in all parameters at once (TARP) against their credibility.

    Args:
        table: rows that neither members nor fits have seen, with draws.
        fits: a stacking, or several by name.
        ax: where to draw.
        seed: of the random points.
    """
    ax = axes_or_new(ax)
    _curves(ax, diagnostics.tarp(table, fits, seed=seed), 0, less_diagonal=False)
    ax.set(xlabel="credibility of the ball around a random point", ylabel="coverage (all parameters)")
    return tidy(ax)


def _parameter(parameter: int | str, table: Table) -> int:
    """The position of a parameter given by name or position."""
    if isinstance(parameter, str):
        if parameter not in table.parameters:
            raise ValueError(f"unknown `parameter` {parameter!r}; known: {', '.join(table.parameters)}.")
        return table.parameters.index(parameter)
    if not -table.d <= parameter < table.d:
        raise ValueError(f"`parameter` must be a name or a position below d = {table.d}; got {parameter}.")
    return parameter % table.d


def _curves(ax: Axes, c: Calibration, i: int | None, *, less_diagonal: bool) -> None:
    """The band, members on it, methods on those; parameter i, or the mean over parameters."""
    z = np.concatenate([[0.0], c.grid, [1.0]])

    def ends(curve: np.ndarray) -> np.ndarray:
        return np.concatenate([[0.0], curve, [1.0]]) - less_diagonal * z

    def drawn(curve: np.ndarray) -> np.ndarray:
        return ends(curve.mean(1) if i is None else curve[:, i])

    band = f"{c.band.level:.0%} band if exact"
    ax.fill_between(z, ends(c.band.lower), ends(c.band.upper), color=COLOURS["band"], linewidth=0, label=band)
    for k, member in enumerate(c.members):
        label = f"{len(c.members)} members" if k == 0 else None
        ax.plot(z, drawn(member), color=COLOURS["members"], linewidth=0.8, label=label)
    ax.plot([0, 1], [0, 1 - less_diagonal], color=COLOURS["reference"], linewidth=0.8)
    colours = colours_of(c.methods)
    for name, curve in c.methods.items():
        ax.plot(z, drawn(curve), color=colours[name], linewidth=2, label=name)
    ax.set_xlim(0, 1)
    legend_above(ax)
