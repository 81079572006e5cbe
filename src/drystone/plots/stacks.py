"""Pictures of stacks: weights, how steady they are, what is gained."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from drystone.advice import GainCurve, WeightBootstrap
from drystone.comparison import BEST, LOG_DENSITY, Comparison, MethodResult, Metric
from drystone.plots.axes import SMALL, axes_or_new, legend_above, short, tidy
from drystone.plots.palette import COLOURS, method_styles
from drystone.stacking.result import Stacking

__all__ = ["comparison", "gain_curve", "weight_stability", "weights"]


def weights(fit: Stacking, ax: Axes | None = None, most: int = 20) -> Axes:
    """Draw the weights of a stacking, heaviest first.

    Args:
        fit: with one set of weights.
        ax: where to draw.
        most: members with a bar of their own; those beyond are summed in one.

    Example:
        >>> import drystone as ds, tempfile
        >>> ax = ds.plots.weights(ds.stack(ds.toy.table(200, seed=1)))
        >>> [label.get_text() for label in ax.get_yticklabels()]
        ['narrow', 'left', 'right']
        >>> ax.figure.savefig(f"{tempfile.mkdtemp()}/weights.png")
    """
    w = fit.weights
    heaviest = [int(k) for k in np.argsort(-w, kind="stable") if w[k] > 0]
    shown, rest = heaviest[:most], heaviest[most:]
    labels, values = [short(fit.names[k]) for k in shown], [float(w[k]) for k in shown]
    if rest:
        labels.append(f"{len(rest)} more, together")
        values.append(float(w[rest].sum()))
    ax = axes_or_new(ax, bars=len(values))
    place = np.arange(len(values))
    colors = [COLOURS["stacked"]] * len(shown) + [COLOURS["members"]] * bool(rest)
    bars = ax.barh(place, values, color=colors, height=0.7)
    ax.bar_label(bars, [f"{value:.3f}" for value in values], padding=3, fontsize=SMALL)
    ax.axvline(1 / len(w), color=COLOURS["uniform"], linewidth=1, linestyle="--")
    ax.set_yticks(place, labels)
    ax.set(xlim=(0, 1.12 * max(values)), ylim=(len(values) - 0.4, -0.6))
    ax.set_xlabel(f"weight ({len(heaviest)} of {len(w)} members have any; dashed: an equal share)")
    return tidy(ax, "x")


def weight_stability(bootstrap: WeightBootstrap, ax: Axes | None = None, most: int = 20) -> Axes:
    """Draw weights (points) and how far they move when rows are drawn again: 90% bootstrap intervals.

    Args:
        bootstrap: from :func:`drystone.advise`.
        ax: where to draw.
        most: members shown; of those that ever carry weight, the heaviest.

    Example:
        >>> import drystone as ds
        >>> table = ds.toy.table(200, seed=1)
        >>> advice = ds.advise(ds.stack(table), table, times=10, subsets=2, folds=2)
        >>> ds.plots.weight_stability(advice.bootstrap).get_xlabel()
        'weight, 90% interval of 10 bootstrap refits (dashed: an equal share)'
    """
    order = np.lexsort([-bootstrap.resampled.mean(0), -bootstrap.weights])
    ever = (bootstrap.weights > 0) | (bootstrap.interval(0.1)[:, 1] > 0)
    shown = order[ever[order]][:most]
    ax = axes_or_new(ax, bars=len(shown))
    place, (low, high) = np.arange(len(shown)), bootstrap.interval(0.1)[shown].T
    ax.hlines(place, low, high, color=COLOURS["stacked"], alpha=0.35, linewidth=6)
    ax.plot(bootstrap.weights[shown], place, "o", color=COLOURS["stacked"])
    ax.axvline(1 / len(bootstrap.weights), color=COLOURS["uniform"], linewidth=1, linestyle="--")
    ax.set_yticks(place, [short(bootstrap.names[k]) for k in shown])
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xlim(left=-0.01)
    ax.set_xlabel(f"weight, 90% interval of {len(bootstrap.resampled)} bootstrap refits (dashed: an equal share)")
    return tidy(ax, "x")


def comparison(
    comparison: Comparison, metric: Metric | str = LOG_DENSITY, ax: Axes | None = None, *, gain: bool = False
) -> Axes:
    """Draw a metric of each method on the test rows, ± one standard error; or paired gains over the best member.

    Args:
        comparison: from :func:`drystone.compare`.
        metric: one of its metrics, or the name of one.
        ax: where to draw.
        gain: draw the gain over the best member, whose standard error is much smaller, instead of the value.

    Example:
        >>> import drystone as ds
        >>> comparison = ds.compare(ds.toy.table(200, seed=1), ds.toy.table(200, seed=2))
        >>> ax = ds.plots.comparison(comparison, "log density", gain=True)
        >>> [label.get_text() for label in ax.get_yticklabels()]
        ['uniform', 'stacked']
    """
    result = comparison.of(metric)
    best = result.methods[BEST]
    # The best member has no gain over itself.
    drawn = {line.method: (line.gain if gain else line.value) for line in result.methods.values()}
    drawn = {method: estimate for method, estimate in drawn.items() if estimate is not None}
    ax = axes_or_new(ax, bars=1.6 * len(drawn))
    styles = method_styles(comparison.fits)
    for i, (method, estimate) in enumerate(drawn.items()):
        value, se, style = estimate.value, estimate.se, styles[method]
        ax.errorbar(value, i, xerr=se, fmt=style.marker, markersize=7, color=style.color, capsize=4, linewidth=2)
        text = f"{estimate:+}" if gain else f"{estimate}"
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        ax.annotate(text, (value, i), (0, 9), textcoords="offset points", ha="center", fontsize=SMALL, bbox=box)
    ax.axvline(0 if gain else best.value.value, color=COLOURS["best"], linewidth=1, linestyle="--")
    ax.set_yticks(range(len(drawn)), [_with_member(result.methods[method]) for method in drawn])
    ax.set_ylim(len(drawn) - 0.5, -0.75)
    ax.margins(x=0.2)
    name = result.metric.name
    what = f"gain in {name} over {_with_member(best)}" if gain else name
    direction = "higher" if gain else result.metric.better
    ax.set_xlabel(f"{what}\n{direction} is better; {comparison.rows} test rows, ± 1 s.e.")
    return tidy(ax, "x")


def gain_curve(curve: GainCurve, ax: Axes | None = None) -> Axes:
    """Draw what stacking more members gains over the best single one, on held-out rows.

    Args:
        curve: from :func:`drystone.advise`.
        ax: where to draw.

    Example:
        >>> import drystone as ds
        >>> table = ds.toy.table(200, seed=1)
        >>> advice = ds.advise(ds.stack(table), table, times=2, subsets=2, folds=2)
        >>> ds.plots.gain_curve(advice.curve).get_xlabel()
        'members stacked'
    """
    ax = axes_or_new(ax)
    zero = curve.best.value
    for size, loss, se, color, label in (
        (curve.random_sizes, curve.random, curve.random_se, COLOURS["reference"], "members at random"),
        (curve.greedy_sizes, curve.greedy, curve.greedy_se, COLOURS["stacked"], "best member first"),
    ):
        ax.errorbar(size, zero - loss, se, fmt="o-", color=color, markersize=4, capsize=2, label=label)
    ax.axhline(0, color=COLOURS["best"], linewidth=1, linestyle="--", label="best single member")
    ax.axhline(
        zero - curve.uniform.value,
        color=COLOURS["uniform"],
        linewidth=1,
        linestyle="--",
        label="all, uniform weights",
    )
    ax.set_xscale("log")
    ax.set_xticks(curve.random_sizes.tolist(), [str(m) for m in curve.random_sizes])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set(xlabel="members stacked", ylabel=f"gain over the best member\n({curve.score}, held-out rows, ± 1 s.e.)")
    legend_above(ax, 2)
    return tidy(ax)


def _with_member(line: MethodResult) -> str:
    method = short(line.method)
    return f"{method} ({short(line.member)})" if line.member else method
