"""Pictures of calibration: members behind, uniform weights and fits in front, the band of an exact posterior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import binom

from drystone import diagnostics
from drystone._messages import counted
from drystone.comparison import Fits, name_fits
from drystone.diagnostics import Calibration
from drystone.diagnostics.calibration import ecdf
from drystone.plots.axes import axes_or_new, legend_above, short, tidy
from drystone.plots.palette import COLOURS, Style, method_styles
from drystone.table import Table

__all__ = ["coverage", "draw_curves", "rank_ecdf", "rank_histogram", "tarp"]

FAINT = 0.45  # opacity of members' curves


def rank_ecdf(table: Table, fits: Fits = None, parameter: int | str = 0, ax: Axes | None = None) -> Axes:
    """Draw the ECDF of the ranks less the diagonal, and the band an exact posterior stays in with probability 95%.

    A hill says that the truth lies too often low in the posterior, which then is too high; a valley the reverse. A
    hill and then a valley is a posterior too narrow, a valley and then a hill one too wide.

    Args:
        table: rows that neither members nor fits have seen.
        fits: a stacking, or several by name.
        parameter: name or position.
        ax: where to draw.

    Example:
        >>> import drystone as ds
        >>> table, fit = ds.toy.table(200, seed=2), ds.stack(ds.toy.table(200, seed=1))
        >>> ax = ds.plots.rank_ecdf(table, fit, parameter="theta")
        >>> ax.get_legend_handles_labels()[1]
        ['95% band if exact', '4 members', 'uniform', 'stacked']
    """
    ax, i = axes_or_new(ax), _parameter(parameter, table)
    draw_curves(ax, diagnostics.rank_ecdf(table, fits), i, method_styles(name_fits(fits)), less_diagonal=True)
    legend_above(ax)
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
    """Draw a histogram of one method's ranks, with the range of a bar of an exact posterior in 95% of cases.

    Args:
        table: rows that neither members nor fits have seen.
        fits: a stacking, or several by name.
        parameter: name or position.
        method: "uniform", the name of a fit or of a member; None for the first fit, or uniform without any.
        ax: where to draw.
        bins: how many, at most S + 1 for ranks among S draws. Their edges are multiples of 1/(S + 1), so that an
            exact posterior has no teeth; bars are of the same width only if S + 1 is a multiple of their number.

    Example:
        >>> import drystone as ds
        >>> ax = ds.plots.rank_histogram(ds.toy.table(200, seed=2), method="narrow", bins=10)
        >>> ax.get_xlabel()
        'rank of theta, narrow'
    """
    ax, i = axes_or_new(ax), _parameter(parameter, table)
    r = diagnostics.ranks(table, fits)
    known = dict(zip(r.names, r.members, strict=True)) | dict(r.methods)
    if method is None:
        method = next((name for name in r.methods if name != "uniform"), "uniform")
    if method not in known:
        raise ValueError(f"unknown `method` {method!r}; known: {', '.join(known)}.")
    N, edges = r.effective_rows, _edges(bins, r.draws)
    width = np.diff(edges)
    low, high = (binom.ppf(q, N, width) / N / width for q in (0.025, 0.975))
    ax.stairs(high, edges, baseline=low, color=COLOURS["band"], fill=True, linewidth=0)
    ax.axhline(1, color=COLOURS["reference"], linewidth=0.8)
    inner = ecdf(known[method][:, [i]], edges[1:-1], r.row_weights)[:, 0] if len(width) > 1 else np.empty(0)
    height = np.diff(np.concatenate([[0.0], inner, [1.0]])) / width
    color = COLOURS["members"] if method in r.names else method_styles(name_fits(fits))[method].color
    ax.stairs(height, edges, color=color, fill=True, alpha=0.75)
    ax.stairs(height, edges, color=color)
    ax.set(xlim=(0, 1), ylim=(0, None), xlabel=f"rank of {table.parameters[i]}, {short(method)}")
    ax.set_ylabel("density (grey: 95% of bars if exact)")
    return tidy(ax)


def coverage(table: Table, fits: Fits = None, parameter: int | str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the coverage of central intervals against their nominal level; below the diagonal is overconfident.

    Args:
        table: rows that neither members nor fits have seen.
        fits: a stacking, or several by name.
        parameter: name or position; None for the mean over parameters, for which the band is somewhat too wide.
        ax: where to draw.

    Example:
        >>> import drystone as ds
        >>> ax = ds.plots.coverage(ds.toy.table(200, seed=2), ds.stack(ds.toy.table(200, seed=1)))
        >>> ax.get_legend_handles_labels()[1]
        ['95% band if exact', '4 members', 'uniform', 'stacked']
    """
    ax, i = axes_or_new(ax), None if parameter is None else _parameter(parameter, table)
    draw_curves(ax, diagnostics.coverage(table, fits), i, method_styles(name_fits(fits)), less_diagonal=False)
    legend_above(ax)
    of = "mean over parameters" if i is None else table.parameters[i]
    ax.set(xlabel="nominal level of the central interval", ylabel=f"coverage ({of})")
    return tidy(ax)


def tarp(table: Table, fits: Fits = None, ax: Axes | None = None, *, seed: int = 0) -> Axes:
    """Draw the coverage of balls around random points in all parameters at once (TARP) against their credibility.

    Args:
        table: rows that neither members nor fits have seen, with draws.
        fits: a stacking, or several by name.
        ax: where to draw.
        seed: of the random points.

    Example:
        >>> import drystone as ds
        >>> ax = ds.plots.tarp(ds.toy.table(200, seed=2), ds.stack(ds.toy.table(200, seed=1)))
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('credibility of the ball around a random point', 'coverage (all parameters)')
    """
    ax = axes_or_new(ax)
    calibration = diagnostics.tarp(table, fits, seed=seed)
    draw_curves(ax, calibration, 0, method_styles(name_fits(fits)), less_diagonal=False)
    legend_above(ax)
    ax.set(xlabel="credibility of the ball around a random point", ylabel="coverage (all parameters)")
    return tidy(ax)


def _edges(bins: int, S: int | None) -> np.ndarray:
    """Return edges of bins of (0, 1), as even as multiples of 1/(S + 1) can be."""
    if bins < 1:
        raise ValueError(f"`bins` must be at least 1; got {bins}.")
    if S is None:
        return np.linspace(0, 1, bins + 1)
    return np.linspace(0, S + 1, min(bins, S + 1) + 1).round() / (S + 1)


def _parameter(parameter: int | str, table: Table) -> int:
    """Return the position of a parameter given by name or position."""
    if isinstance(parameter, str):
        if parameter not in table.parameters:
            raise ValueError(f"unknown `parameter` {parameter!r}; known: {', '.join(table.parameters)}.")
        return table.parameters.index(parameter)
    if not -table.d <= parameter < table.d:
        raise ValueError(f"`parameter` must be a name or a position below d = {table.d}; got {parameter}.")
    return parameter % table.d


def draw_curves(
    ax: Axes,
    calibration: Calibration,
    parameter: int | None,
    styles: Mapping[str, Style],
    *,
    less_diagonal: bool,
    members: Sequence[str] | None = None,
    best: str | None = None,
) -> None:
    """Draw the band, members on it, methods on those; every curve is labeled with its method.

    Args:
        ax: where to draw.
        calibration: the curves.
        parameter: position, or None for the mean over parameters.
        styles: of the methods.
        less_diagonal: draw deviations from the diagonal.
        members: names of the members to draw in grey, in one line with gaps; None for all.
        best: name of a member to draw as "best" in its own color, or None.
    """
    c = calibration
    z = np.concatenate([[0.0], c.grid, [1.0]])

    def with_ends(curve: np.ndarray) -> np.ndarray:
        return np.concatenate([[0.0], curve, [1.0]]) - less_diagonal * z

    def of_parameter(curve: np.ndarray) -> np.ndarray:
        return with_ends(curve.mean(1) if parameter is None else curve[:, parameter])

    band = f"{c.band.level:.0%} band if exact"
    ax.fill_between(
        z, with_ends(c.band.lower), with_ends(c.band.upper), color=COLOURS["band"], linewidth=0, label=band
    )
    drawn = range(len(c.names)) if members is None else [c.names.index(name) for name in members]
    if len(drawn):
        gap = [np.nan]
        x = np.concatenate([np.concatenate([z, gap]) for _ in drawn])
        y = np.concatenate([np.concatenate([of_parameter(c.members[k]), gap]) for k in drawn])
        grey = COLOURS["members"]
        ax.plot(x, y, color=grey, alpha=FAINT, linewidth=0.7, label=counted(len(drawn), "member"))
    ax.plot([0, 1], [0, 1 - less_diagonal], color=COLOURS["reference"], linewidth=0.8)
    of_best = {} if best is None else {"best": c.members[c.names.index(best)]}
    for name, curve in (of_best | dict(c.methods)).items():
        style = styles[name]
        ax.plot(z, of_parameter(curve), color=style.color, linestyle=style.linestyle, linewidth=1.6, label=name)
    ax.set_xlim(0, 1)
