"""Pictures of posteriors at one observation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike
from scipy.ndimage import gaussian_filter, gaussian_filter1d

from drystone._arrays import as_numpy
from drystone.plots.axes import SMALL, RoomyLocator, legend_handles, tidy
from drystone.plots.palette import COLOURS, Style, method_styles

__all__ = ["draw_pairs", "pairs"]

# Cells per parameter, and the widths of the smoothing, in cells, that are tried.
CELLS, SMOOTHING = 72, (0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)
# Shares of the draws inside the contours, the larger one first, and the widths of these.
INSIDE, WIDTHS = (0.9, 0.5), (0.8, 1.6)
FAINT = 0.5  # widths of members' lines, as a share of the others'


def pairs(
    draws: Mapping[str, ArrayLike],
    *,
    parameters: Sequence[str] | None = None,
    truth: ArrayLike | None = None,
    axes: np.ndarray | None = None,
) -> np.ndarray:
    """Draw marginals and pairs of several posteriors at one observation.

    Contours enclose the regions of highest density that hold 50% (heavy) and 90% (thin) of the draws; dashed
    lines are the truth.

    Args:
        draws: by name, (S, d) each; "members", "best", "uniform" and "reference" have colors of their own, all
            others those of fits in their order; "members" may hold several, (M, S, d).
        parameters: names of θ.
        truth: the true θ, (d,).
        axes: where to draw, (d, d).

    Returns:
        the axes, (d, d); those above the diagonal are switched off.

    Example:
        >>> import drystone as ds, numpy as np
        >>> draws, best = np.random.default_rng(1).normal(size=(2, 500, 2))
        >>> posteriors = {"stacked": draws, "best": best + 1}
        >>> axes = ds.plots.pairs(posteriors, parameters=["mass", "age"], truth=[0.0, 0.0])
        >>> axes.shape, axes[1, 0].get_xlabel(), axes[1, 0].get_ylabel()
        ((2, 2), 'mass', 'age')
    """
    samples = _checked(draws)
    d = next(iter(samples.values())).shape[-1]
    names = [f"theta_{i}" for i in range(d)] if parameters is None else list(parameters)
    if len(names) != d:
        raise ValueError(f"`parameters` must name all d = {d}; got {len(names)}.")
    if axes is None:
        import matplotlib.pyplot as plt  # here only: the report draws without pyplot

        side = max(4.5, 2.2 * d)
        axes = np.asarray(plt.subplots(d, d, figsize=(side, side), squeeze=False, layout="constrained")[1])
    known = method_styles(())
    fits = method_styles(name for name in samples if name not in known)
    styles = {name: fits[name] for name in samples}
    draw_pairs(axes, samples, names, None if truth is None else as_numpy(truth), styles)
    for i, j in zip(*np.triu_indices(d, 1), strict=True):
        axes[i, j].set_axis_off()
    axes[0, -1].legend(handles=legend_handles(styles), loc="upper right", frameon=False, fontsize=SMALL)
    return axes


def draw_pairs(
    axes: np.ndarray,
    samples: Mapping[str, np.ndarray],
    parameters: Sequence[str],
    truth: np.ndarray | None,
    styles: Mapping[str, Style],
    bounds: np.ndarray | None = None,
) -> None:
    """Draw on and below the diagonal of ``axes``; every curve is labeled with its method.

    Args:
        axes: (d, d); those above the diagonal are not touched.
        samples: finite draws by method, (M, S, d) each.
        parameters: names of θ.
        truth: the true θ, (d,), or None.
        styles: of the methods.
        bounds: of the parameters, (d, 2): pictures end there, and smoothing is reflected, so that curves neither
            leave the prior nor sink towards its edge.
    """
    d = len(parameters)
    limits = np.array([_limits(samples, truth, j) for j in range(d)])
    if bounds is not None:
        limits = np.clip(limits, bounds[:, :1], bounds[:, 1:])
    for i, j in np.argwhere(np.tri(d)).tolist():
        ax: Axes = axes[i, j]
        for name, sample in samples.items():
            width = FAINT if name == "members" else 1.0
            for one in sample:
                if i == j:
                    _marginal(ax, one[:, i], limits[i], name, styles[name], width)
                else:
                    _regions(ax, one[:, [j, i]], limits[[j, i]], name, styles[name], width)
        ax.set_xlim(*limits[j])
        if i == j:
            ax.set_ylim(0, None)
        else:
            ax.set_ylim(*limits[i])
        if truth is not None:
            ax.axvline(truth[j], color=COLOURS["reference"], linewidth=1, linestyle=(0, (3, 3)))
            if i != j:
                ax.axhline(truth[i], color=COLOURS["reference"], linewidth=1, linestyle=(0, (3, 3)))
        _label(ax, parameters, i, j)
        tidy(ax)


def _checked(draws: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
    """Return draws by name, (M, S, d) each: of one posterior, M = 1."""
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


def _limits(samples: Mapping[str, np.ndarray], truth: np.ndarray | None, j: int) -> tuple[float, float]:
    """Return where nearly all draws of every method lie, and the truth, with a margin; members may lie outside."""
    methods = [sample for name, sample in samples.items() if name != "members"] or list(samples.values())
    ends = np.array([np.quantile(sample[..., j], [0.004, 0.996]) for sample in methods])
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    if truth is not None:
        low, high = min(low, float(truth[j])), max(high, float(truth[j]))
    margin = 0.06 * (high - low)
    if margin == 0:  # a single value, in the middle of its axis
        margin = max(abs(low), 1.0) / 2
    return low - margin, high + margin


def _smooth(counts: np.ndarray) -> np.ndarray:
    """Return counts per cell, smoothed as widely as the draws allow.

    Each width has a mean log density of the draws, every draw left out of its own estimate. The widest is taken
    that is within a standard error of the best: structure that draws show is kept, and their noise is not drawn.
    """
    total = counts.sum()
    here = counts > 0
    share = counts[here] / total
    smoothed, log_density = [], []
    for width in SMOOTHING:
        smoothed.append(gaussian_filter(counts, width))
        own = _peak(width) ** counts.ndim
        log_density.append(np.log(np.maximum(smoothed[-1][here] - own, 1e-12)))
    means = [float(share @ each) for each in log_density]
    best = int(np.argmax(means))
    for i in reversed(range(best, len(SMOOTHING))):
        loss = log_density[best] - log_density[i]
        error = np.sqrt(share @ (loss - share @ loss) ** 2 / total)
        if means[best] - means[i] <= error:
            return smoothed[i]
    return smoothed[best]


def _peak(width: float) -> float:
    """Return what the smoothing of a width leaves of a count in its own cell, along one axis."""
    one = np.zeros(CELLS)
    one[CELLS // 2] = 1.0
    return float(gaussian_filter1d(one, width)[CELLS // 2])


def _levels(density: np.ndarray) -> list[float]:
    """Return the densities above which the shares of the draws inside the contours lie, the larger share first."""
    falling = np.sort(density.ravel())[::-1]
    held = np.cumsum(falling) / falling.sum()
    return [float(falling[min(np.searchsorted(held, share), falling.size - 1)]) for share in INSIDE]


def _marginal(ax: Axes, x: np.ndarray, limits: np.ndarray, name: str, style: Style, width: float) -> None:
    """Draw a smoothed histogram."""
    counts, edges = np.histogram(x, CELLS, tuple(limits))
    if not counts.any():  # a member far outside the picture
        return
    density = _smooth(counts.astype(float)) / (len(x) * (edges[1] - edges[0]))
    middles = (edges[1:] + edges[:-1]) / 2
    ax.plot(middles, density, color=style.color, linestyle=style.linestyle, linewidth=1.6 * width, label=name)


def _regions(ax: Axes, points: np.ndarray, limits: np.ndarray, name: str, style: Style, width: float) -> None:
    """Draw contours of the smallest regions that hold 90% and 50% of the points."""
    counts, x, y = np.histogram2d(points[:, 0], points[:, 1], CELLS, limits.tolist())
    if not counts.any():  # a member far outside the picture
        return
    density = _smooth(counts)
    distinct = sorted(set(_levels(density)))
    contours = ax.contour(
        (x[1:] + x[:-1]) / 2,
        (y[1:] + y[:-1]) / 2,
        density.T,
        distinct,
        colors=style.color,
        linewidths=[width * w for w in WIDTHS[-len(distinct) :]],
        linestyles=[style.linestyle],
    )
    contours.set_label(name)


def _label(ax: Axes, parameters: Sequence[str], i: int, j: int) -> None:
    """Name and number the axes at the left and at the bottom only."""
    ax.xaxis.set_major_locator(RoomyLocator(4))
    if i == len(parameters) - 1:
        ax.set_xlabel(parameters[j])
    else:
        ax.tick_params(bottom=False, labelbottom=False)
    if i == j:
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        return
    ax.yaxis.set_major_locator(MaxNLocator(4))
    if j == 0:
        ax.set_ylabel(parameters[i])
    else:
        ax.tick_params(left=False, labelleft=False)
