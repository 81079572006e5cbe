"""Pictures: who carries weight, what is gained, whether it is calibrated, how steady it is.

Every function draws on ``ax`` (a new one if None) and returns it; nothing global is changed. Colours mean the same in
every picture: members light grey, the best of them amber, uniform weights blue, stacks red, references black.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from drystone import diagnostics
from drystone.arrays import as_numpy
from drystone.compare import Comparison
from drystone.diagnostics import Calibration
from drystone.methods import Fits
from drystone.stacking import Stacking
from drystone.table import Table

try:
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes
except ImportError as error:  # pragma: no cover
    raise ImportError("ds.plots needs matplotlib: pip install 'drystone[plots]'.") from error

if TYPE_CHECKING:
    from drystone.advice import GainCurve, WeightBootstrap

__all__ = [
    "COLOURS",
    "comparison",
    "coverage",
    "gain_curve",
    "pairs",
    "rank_ecdf",
    "rank_histogram",
    "weight_stability",
    "weights",
]

COLOURS = {
    "members": "#c4c4c4",
    "best": "#e0a030",
    "uniform": "#3b6ea5",
    "stacked": "#c8553d",
    "reference": "#222222",
    "band": "#ececec",
}
# Second and further stacks in one picture.
MORE_STACKS = ("#7b4fa3", "#2a9d8f", "#8c5a2b", "#d17ab0")


def weights(fit: Stacking, ax: Axes | None = None, most: int = 20) -> Axes:
    """The weights of a stacking, heaviest first.

    Args:
        fit: with one set of weights.
        ax: where to draw.
        most: members with a bar of their own; the rest are counted in one.
    """
    ax = _axes(ax)
    w = fit.weights
    heaviest = [int(k) for k in np.argsort(-w, kind="stable") if w[k] > 0]
    shown, rest = heaviest[:most], heaviest[most:]
    labels, values = [fit.names[k] for k in shown], [float(w[k]) for k in shown]
    if rest:
        labels.append(f"{len(rest)} more")
        values.append(float(w[rest].sum()))
    bars = ax.barh(range(len(values)), values, color=COLOURS["stacked"], height=0.7)
    ax.bar_label(bars, [f"{value:.3f}" for value in values], padding=3, fontsize=9)
    ax.set_yticks(range(len(values)), labels)
    ax.invert_yaxis()
    ax.axvline(1 / len(w), color=COLOURS["uniform"], linewidth=1)
    ax.set_xlabel("weight")
    return _tidy(ax)


def comparison(
    comparison: Comparison, metric: str = "log density", gain: bool = False, ax: Axes | None = None
) -> Axes:
    """A metric of each method on the test rows, or its paired gain over the best member; ± one standard error."""
    ax = _axes(ax)
    frame = comparison.frame[comparison.frame["metric"] == metric]
    if frame.empty:
        known = ", ".join(dict.fromkeys(comparison.frame["metric"]))
        raise ValueError(f"unknown `metric` {metric!r}; the comparison has: {known}.")
    column = "gain" if gain else "value"
    rows = frame[frame["method"] != "best"] if gain else frame
    colours = _colours(rows["method"])
    for i, row in enumerate(rows.to_dict("records")):
        error = row["gain_se" if gain else "se"]
        ax.errorbar(row[column], i, xerr=error, fmt="o", color=colours[row["method"]], capsize=3)
    ax.set_yticks(range(len(rows)), rows["method"])
    ax.invert_yaxis()
    ax.set_xlabel(f"{metric}")
    return _tidy(ax)


def rank_ecdf(table: Table, fits: Fits = None, parameter: int | str = 0, ax: Axes | None = None) -> Axes:
    """ECDF of the ranks less the diagonal, with the 95% simultaneous band of an exact posterior."""
    ax = _axes(ax)
    curves = diagnostics.rank_ecdf(table, fits)
    _curves(ax, curves, _parameter(parameter, table), subtract=True)
    ax.set(xlim=(0, 1), xlabel="rank z", ylabel="share of ranks ≤ z, less z")
    return _tidy(ax)


def rank_histogram(
    table: Table,
    fits: Fits = None,
    parameter: int | str = 0,
    method: str = "stacked",
    ax: Axes | None = None,
    bins: int = 20,
) -> Axes:
    """Histogram of one method's ranks, with the 95% range of each bin of an exact posterior."""
    from scipy.stats import binom

    ax = _axes(ax)
    r = diagnostics.ranks(table, fits)
    u = _method(r.methods, r.members, r.names, method)[:, _parameter(parameter, table)]
    N = r.effective_rows
    low, high = binom.ppf([0.025, 0.975], N, 1 / bins) * bins / N
    ax.axhspan(low, high, color=COLOURS["band"])
    ax.hist(u, bins=np.linspace(0, 1, bins + 1), weights=r.row_weights * bins, color=COLOURS["stacked"], alpha=0.8)
    ax.set(xlim=(0, 1), xlabel="rank", ylabel="density")
    return _tidy(ax)


def coverage(table: Table, fits: Fits = None, parameter: int | str | None = None, ax: Axes | None = None) -> Axes:
    """Coverage of central intervals against their nominal level; the mean over parameters if None is named."""
    ax = _axes(ax)
    curves = diagnostics.coverage(table, fits)
    _curves(ax, curves, None if parameter is None else _parameter(parameter, table), subtract=False)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="nominal level", ylabel="coverage")
    return _tidy(ax)


def pairs(
    draws: Mapping[str, Any] | Any,
    *,
    parameters: Sequence[str] | None = None,
    truth: Any = None,
    axes: np.ndarray | None = None,
) -> np.ndarray:
    """Marginals and pairs of draws of one or several posteriors at one observation, (d, d) axes."""
    named = draws if isinstance(draws, Mapping) else {"stacked": draws}
    samples = {name: np.atleast_2d(as_numpy(value)) for name, value in named.items()}
    d = next(iter(samples.values())).shape[1]
    if axes is None:
        _, axes = plt.subplots(d, d, figsize=(2.2 * d, 2.2 * d), squeeze=False, layout="constrained")
    assert axes is not None
    colours = _colours(samples)
    for i, j in np.ndindex(d, d):
        ax = axes[i, j]
        for name, sample in samples.items():
            if i == j:
                ax.hist(sample[:, i], bins=40, density=True, histtype="step", color=colours[name], label=name)
            elif i > j:
                ax.plot(sample[:, j], sample[:, i], ".", markersize=2, alpha=0.4, color=colours[name])
            else:
                ax.set_axis_off()
    return axes


def gain_curve(curve: GainCurve, ax: Axes | None = None) -> Axes:
    """Loss on held-out rows against the number of members: best-first, and random subsets."""
    ax = _axes(ax)
    random, greedy = COLOURS["reference"], COLOURS["stacked"]
    ax.errorbar(curve.random_sizes, curve.random, curve.random_se, fmt="o-", color=random, label="random members")
    ax.errorbar(curve.greedy_sizes, curve.greedy, curve.greedy_se, fmt="o-", color=greedy, label="best first")
    ax.axhline(curve.uniform, color=COLOURS["uniform"], label="uniform weights, all members")
    ax.set(xlabel="members stacked", ylabel=f"{curve.score}, held-out rows (lower is better)")
    ax.legend(frameon=False, fontsize=9)
    return _tidy(ax)


def weight_stability(bootstrap: WeightBootstrap, ax: Axes | None = None, most: int = 20) -> Axes:
    """Weights with their 90% bootstrap intervals, heaviest first."""
    ax = _axes(ax)
    shown = np.argsort(-bootstrap.weights, kind="stable")[:most]
    low, high = bootstrap.interval(0.1)[shown].T
    place = np.arange(len(shown))
    ax.hlines(place, low, high, color=COLOURS["members"], linewidth=5)
    ax.plot(bootstrap.weights[shown], place, "o", color=COLOURS["stacked"])
    ax.set_yticks(place, [bootstrap.names[k] for k in shown])
    ax.invert_yaxis()
    ax.set_xlabel("weight, and its 90% bootstrap interval")
    return _tidy(ax)


# ── shared by the pictures ───────────────────────────────────────────────────────────────────────────────────


def _axes(ax: Axes | None) -> Axes:
    return plt.subplots(figsize=(6, 4), layout="constrained")[1] if ax is None else ax


def _tidy(ax: Axes) -> Axes:
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _colours(names: Any) -> dict[str, str]:
    """A colour for each name: its own if it has one, else the next of the stacks'."""
    stacks = iter((COLOURS["stacked"], *MORE_STACKS * 10))
    fixed = {name: COLOURS[name] for name in names if name in COLOURS}
    if "stacked" in fixed:
        next(stacks)
    return {name: fixed.get(name) or next(stacks) for name in names}


def _parameter(parameter: int | str, table: Table) -> int:
    """The position of a parameter given by name or position."""
    if isinstance(parameter, str):
        if parameter not in table.parameters:
            raise ValueError(f"unknown `parameter` {parameter!r}; known: {', '.join(table.parameters)}.")
        return table.parameters.index(parameter)
    if not -table.d <= parameter < table.d:
        raise ValueError(f"`parameter` must be a name or a position below d = {table.d}; got {parameter}.")
    return parameter % table.d


def _method(
    methods: Mapping[str, np.ndarray], members: np.ndarray, names: tuple[str, ...], method: str
) -> np.ndarray:
    if method in methods:
        return methods[method]
    if method in names:
        return members[names.index(method)]
    raise ValueError(f"unknown `method` {method!r}; known: {', '.join([*methods, *names])}.")


def _curves(ax: Axes, c: Calibration, i: int | None, subtract: bool) -> None:
    """Members behind, methods in front, the band behind all; column i, or the mean over columns."""
    z = np.concatenate([[0.0], c.grid, [1.0]])
    base = z if subtract else 0 * z

    def ends(curve: np.ndarray) -> np.ndarray:
        return np.concatenate([[0.0], curve, [1.0]]) - base

    def column(curve: np.ndarray) -> np.ndarray:
        return curve.mean(1) if i is None else curve[:, i]

    ax.fill_between(
        z, ends(c.band.lower), ends(c.band.upper), color=COLOURS["band"], linewidth=0, label="95% band"
    )
    for k, member in enumerate(c.members):
        label = f"{len(c.members)} members" if k == 0 else None
        ax.plot(z, ends(column(member)), color=COLOURS["members"], linewidth=0.8, label=label)
    colours = _colours(c.methods)
    for name, curve in c.methods.items():
        ax.plot(z, ends(column(curve)), color=colours[name], linewidth=2, label=name)
    ax.plot([0, 1], [0, 0 if subtract else 1], color=COLOURS["reference"], linewidth=0.8)
    ax.legend(frameon=False, fontsize=9)
