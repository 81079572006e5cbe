"""Figure 1: members of one sweep are wrong in different ways, and the stack is better than the best of them.

Left, the ranks of one parameter in four members: biased to either side, over- and under-confident. Right, the log
densities of all members, and of best, uniform and stacked. The members are affine flows of a wide sweep on
mini-SimBIG with a small grid, so that everything takes minutes; each is taken after few, some and too many epochs.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import binom

from drystone.training.sweep import Sweep
from experiments.ensembles import Plan
from experiments.figures import COLOURS
from experiments.markdown import estimate, grid, number
from experiments.published import FIGURE1
from experiments.record import Experiment
from experiments.rivals import log_densities, mean, rivals
from experiments.simbig import Survey, compressed, tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "SETTING", "examples"]

SETTING = Survey(
    cells=32, training=3_000, stacking=500, test=1_000, components=16, folds=3, members=20, epochs=100,
    patience=None, snapshots=(5, 25, 100), draws=99, family="maf",
    sweep=Sweep(
        transforms=(3, 5), units=(32, 96), layers=(1, 2), dropout=(0.0, 0.1), batch_size=(20, 100),
        learning_rate=(1e-4, 3e-3), activation="tanh",
    ),
    label="figure1",
)  # fmt: skip
BINS = 10  # of 100 possible ranks, ten in each
WINDOW = 3.0  # nats below the best member that are drawn


def run(plan: Plan) -> dict[str, Any]:
    """Return histograms of four members' ranks, the log densities of all members, and those of the methods."""
    survey = SETTING.under(plan)
    validation, test = tables(survey, plan, compressed(survey, plan))
    column = most_varied(validation.rank)
    log_q = log_densities(rivals(validation), test)
    return {
        "config": asdict(survey), "parameter": test.parameters[column], "rows": test.N,
        "ranks": {
            kind: {"member": test.names[k], "counts": histogram(test.rank[k, :, column])}
            for kind, k in examples(validation.rank[:, :, column]).items()
        },
        "members": {name: round(float(rows.mean()), 4) for name, rows in zip(test.names, test.log_q, strict=True)},
        "methods": {method: mean(rows) for method, rows in log_q.items()},
        "gain over best": mean(log_q["stacked"] - log_q["best"]),
    }  # fmt: skip


def examples(rank: np.ndarray) -> dict[str, int]:
    """Return the members, by position, whose ranks (K, N) are the furthest from uniform, of four kinds.

    The truth lies low in a posterior that is biased upwards, so its ranks are low. Ranks crowd at both ends if
    posteriors are too narrow, and in the middle if they are too wide.
    """
    shift, spread = deviations(rank)
    return {
        "biased upwards": int(np.argmin(shift)),
        "biased downwards": int(np.argmax(shift)),
        # Of little bias; a shift of a tenth counts as much as a spread of a fifth.
        "over-confident": int(np.argmax(spread - 2 * np.abs(shift))),
        "under-confident": int(np.argmin(spread + 2 * np.abs(shift))),
    }


def most_varied(rank: np.ndarray) -> int:
    """Return the parameter whose ranks (K, N, d) vary most: largest in the least visible of the four kinds."""
    varieties = []
    for column in range(rank.shape[2]):
        of_parameter = rank[:, :, column]
        shift, spread = deviations(of_parameter)
        chosen = examples(of_parameter)
        varieties.append(
            min(
                -shift[chosen["biased upwards"]],
                shift[chosen["biased downwards"]],
                spread[chosen["over-confident"]] / 2,
                -spread[chosen["under-confident"]] / 2,
            )
        )
    return int(np.argmax(varieties))


def deviations(rank: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each member's mean rank less ½ and relative spread less 1, (K,) each, from ranks (K, N)."""
    return rank.mean(1) - 1 / 2, np.sqrt(12 * rank.var(1)) - 1


def histogram(rank: np.ndarray) -> list[int]:
    """Return how many ranks lie in each of equal parts of [0, 1]."""
    return np.histogram(rank, BINS, (0, 1))[0].tolist()


def table(result: dict[str, Any]) -> str:
    """Return ours beside the numbers that the paper prints."""
    densities = list(result["members"].values())
    rows = [
        ["members", str(len(densities)), f"{FIGURE1.members:,}"],
        ["log densities of the members: best less worst, nats", number(np.ptp(densities)), str(FIGURE1.spread)],
        ["middle half of them, nats", number(float(np.subtract(*np.quantile(densities, [0.75, 0.25])))), ""],
        ["stacked over best, nats", estimate(result["gain over best"], "+"), f"+{FIGURE1.gain}"],
    ]
    return grid(["", "mini-SimBIG, 32 cells", "paper: SimBIG"], rows)


def draw(result: dict[str, Any]) -> Figure:
    """Draw four rank histograms, and the distribution of the members' log densities."""
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(11, 4.4), layout="constrained")
    left, right = np.asarray(figure.subfigures(1, 2, width_ratios=[1.15, 1]))
    axes = left.subplots(2, 2, sharex=True, sharey=True)
    for ax, (kind, row) in zip(axes.flat, result["ranks"].items(), strict=True):
        draw_ranks(ax, row["counts"], result["rows"])
        ax.set_title(kind, fontsize=10)
    left.supxlabel(f"rank of {result['parameter']}", fontsize=10)
    left.supylabel("test simulations", fontsize=10)
    draw_densities(right.subplots(), result)
    return figure


def draw_ranks(ax: Axes, counts: list[int], rows: int) -> None:
    """Draw a histogram of ranks, with the range of a bar of calibrated ranks in 95 % of cases."""
    low, high = binom.interval(0.95, rows, 1 / len(counts))
    edges = np.linspace(0, 1, len(counts) + 1)
    ax.axhspan(low, high, color="#dddddd", linewidth=0)
    ax.stairs(counts, edges, fill=True, color="#81b6eb", alpha=0.9)
    ax.axhline(rows / len(counts), color="#777777", linewidth=0.8)
    ax.set_xlim(0, 1)
    ax.spines[["top", "right"]].set_visible(False)


def draw_densities(ax: Axes, result: dict[str, Any]) -> None:
    """Draw the distribution of the members' log densities near the best, and the methods' as lines across it."""
    densities = np.array(list(result["members"].values()))
    low = densities.max() - WINDOW
    inside = densities[densities >= low]
    ax.hist(inside, bins=24, range=(low, densities.max()), color="#c6c6c6")
    for method, value in result["methods"].items():
        ax.axvline(value["value"], color=COLOURS[method], linewidth=2, label=method)
    if len(inside) < len(densities):
        text = f"{len(densities) - len(inside)} members further left,\ndown to {number(densities.min(), 1)}"
        ax.text(0.02, 0.6, text, transform=ax.transAxes, fontsize=9, color="#555555")
    ax.set(xlabel="log density on the test simulations, nats", ylabel=f"members, of {len(densities)}")
    ax.set_xlim(left=low)
    ax.legend(frameon=False, loc="upper left")
    ax.spines[["top", "right"]].set_visible(False)


EXPERIMENT = Experiment(run, table, {"figure1": draw})
