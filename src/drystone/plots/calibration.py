"""Pictures of calibration: members behind, uniform weights and stacks in front, the band of an exact one."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import binom

from drystone import diagnostics
from drystone.comparison import Fits
from drystone.diagnostics import Calibration
from drystone.diagnostics.calibration import ecdf
from drystone.diagnostics.ranks import Draws
from drystone.plots.palette import COLOURS, axes_or_new, colours_of, legend_above, short, tidy
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
        bins: how many, at most S + 1 for ranks among S draws. Their edges are multiples of 1/(S + 1), so that an
            exact posterior has no teeth; bars are of the same width only if S + 1 is a multiple of their number.
    """
    ax, i = axes_or_new(ax), _parameter(parameter, table)
    r = diagnostics.ranks(table, fits)
    known: dict[str, tuple[np.ndarray, Draws]] = {
        name: (u, r.draws) for name, u in zip(r.names, r.members, strict=True)
    }
    known |= {name: (u, r.method_draws[name]) for name, u in r.methods.items()}
    if method is None:
        method = next((name for name in r.methods if name != "uniform"), "uniform")
    if method not in known:
        raise ValueError(f"unknown `method` {method!r}; known: {', '.join(known)}.")
    u, S = known[method]
    N, edges = r.effective_rows, _edges(bins, r.draws)
    width = np.diff(edges)
    low, high = (binom.ppf(q, N, width) / N / width for q in (0.025, 0.975))
    ax.stairs(high, edges, baseline=low, color=COLOURS["band"], fill=True, linewidth=0)
    ax.axhline(1, color=COLOURS["reference"], linewidth=0.8)
    inner = ecdf(u[:, [i]], S, edges[1:-1], r.row_weights)[:, 0] if len(width) > 1 else np.empty(0)
    height = np.diff(np.concatenate([[0.0], inner, [1.0]])) / width
    colour = COLOURS["members"] if method in r.names else colours_of(r.methods)[method]
    ax.stairs(height, edges, color=colour, fill=True, alpha=0.75)
    ax.stairs(height, edges, color=colour)
    ax.set(xlim=(0, 1), ylim=(0, None), xlabel=f"rank of {table.parameters[i]}, {short(method)}")
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


def _edges(bins: int, S: int | None) -> np.ndarray:
    """Edges of bins of (0, 1), as even as multiples of 1/(S + 1) can be."""
    if bins < 1:
        raise ValueError(f"`bins` must be at least 1; got {bins}.")
    if S is None:
        return np.linspace(0, 1, bins + 1)
    return np.linspace(0, S + 1, min(bins, S + 1) + 1).round() / (S + 1)


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
        ax.plot(z, drawn(curve), color=colours[name], linewidth=2, label=short(name))
    ax.set_xlim(0, 1)
    legend_above(ax)
