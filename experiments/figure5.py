"""Figure 5: the exact posterior of one simulation per task, its best member and the stack, in two parameters.

The paper's four models: Two Moons, SLCP and SIR with a few spline flows each, and mini-SimBIG with the members of
figure 1. Mini-SimBIG has no exact posterior: its panel shows the inferred ones alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.ndimage import gaussian_filter

from drystone import tasks
from drystone.stacking.result import Stacking
from drystone.training.member import TrainedMember
from experiments import figure1
from experiments.ensembles import Plan, members, shown, simulations
from experiments.figures import COLOURS
from experiments.markdown import grid, number
from experiments.minisimbig import MiniSimBIG
from experiments.record import Experiment
from experiments.rivals import density_table, rivals
from experiments.settings import spline
from experiments.simbig import compressed, posteriors, tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

__all__ = ["EXPERIMENT", "SETTINGS"]

# Table 4's sweep, a few members for forty epochs: minutes instead of an hour.
SETTINGS = [replace(spline(task), members=4, epochs=40, label="figure5") for task in ("two_moons", "slcp", "sir")]
# Which test simulation, and which two of its parameters.
ROW = 0
PARAMETERS = {"two_moons": (0, 1), "slcp": (2, 3), "sir": (0, 1), "minisimbig": (5, 10)}
DRAWS, QUICK_DRAWS, BINS = 20_000, 500, 64
METHODS = ("best", "stacked")
# Standard deviation of the smoothing in bins; wide posteriors take more.
SMOOTHING = {"two_moons": 0.8, "slcp": 1.0, "sir": 1.0, "minisimbig": 2.5}


def run(plan: Plan) -> dict[str, Any]:
    """Return histograms of the draws of each posterior in two parameters, by task."""
    panels = {setting.task: task_panel(setting.task, plan) for setting in SETTINGS}
    return {
        "config": [asdict(setting.under(plan)) for setting in SETTINGS],
        "survey": asdict(figure1.SETTING.under(plan)),
        "row": ROW, "draws": QUICK_DRAWS if plan.quick else DRAWS,
        "tasks": panels | {"minisimbig": survey_panel(plan)},
    }  # fmt: skip


def task_panel(name: str, plan: Plan) -> dict[str, Any]:
    """Return a benchmark task's histograms, with the exact posterior's."""
    (setting,) = (setting for setting in SETTINGS if setting.task == name)
    task, ensemble = tasks.get(name), members(setting, plan)
    theta, y = simulations(setting, plan, "test")
    fits = rivals(density_table(ensemble, setting, plan, "stacking"))
    n = QUICK_DRAWS if plan.quick else DRAWS
    exact = task.sample_posterior(y[ROW], n, np.random.default_rng(plan.seed))
    named = dict(zip(ensemble.names, ensemble, strict=True))
    draws = {"exact": exact, **inferred(fits, named, shown(name, y[ROW]), n, plan.seed)}
    return panel(name, task.parameters, draws, theta[ROW])


def survey_panel(plan: Plan) -> dict[str, Any]:
    """Return mini-SimBIG's histograms."""
    survey = figure1.SETTING.under(plan)
    sets = compressed(survey, plan)
    validation, _ = tables(survey, plan, sets)
    theta, y = sets["test"]
    named = posteriors(survey, plan, sets)
    draws = inferred(rivals(validation), named, y[ROW], QUICK_DRAWS if plan.quick else DRAWS, plan.seed)
    return panel("minisimbig", MiniSimBIG.parameters, draws, theta[ROW])


def inferred(
    fits: Mapping[str, Stacking], named: Mapping[str, TrainedMember], y: np.ndarray, n: int, seed: int
) -> dict[str, np.ndarray]:
    """Return n draws (n, d) of the best member and of the stack for data y (m,)."""
    return {method: np.asarray(fits[method].posterior(named).sample((n,), x=y, seed=seed)) for method in METHODS}


def panel(
    name: str, parameters: tuple[str, ...], draws: Mapping[str, np.ndarray], truth: np.ndarray
) -> dict[str, Any]:
    """Return histograms of the draws in the task's two parameters, over a window that holds nearly all of them."""
    columns = list(PARAMETERS[name])
    pairs = {method: rows[:, columns] for method, rows in draws.items()}
    ends = np.array([np.quantile(rows, [0.01, 0.99], axis=0) for rows in pairs.values()])
    low, high = ends[:, 0].min(0), ends[:, 1].max(0)
    margin = 0.15 * (high - low)
    window = np.transpose([low - margin, high + margin]).tolist()
    return {
        "parameters": [parameters[j] for j in columns],
        "truth": truth[columns].tolist(),
        "window": window,
        # One line of text per row of the histogram: a tenth of the file.
        "counts": {
            method: [" ".join(map(str, row)) for row in np.histogramdd(rows, BINS, window)[0].astype(int)]
            for method, rows in pairs.items()
        },
    }


def counts_of(rows: list[str]) -> np.ndarray:
    """Return a histogram (BINS, BINS) from its lines."""
    return np.array([[int(count) for count in row.split()] for row in rows])


def table(result: dict[str, Any]) -> str:
    """Return the share of each margin's mass that a posterior has in common with the exact one."""
    rows = []
    for task, found in result["tasks"].items():
        counts = {method: counts_of(lines) for method, lines in found["counts"].items()}
        for axis, parameter in enumerate(found["parameters"]):
            if "exact" in counts:
                margins = {method: c.sum(1 - axis) / c.sum() for method, c in counts.items()}
                shared = [100 * np.minimum(margins["exact"], margins[method]).sum() for method in METHODS]
                rows.append([task, parameter, *(f"{number(share, 1)} %" for share in shared)])
    return grid(["task", "parameter", *(f"{method}: shared with the exact margin" for method in METHODS)], rows)


def draw(result: dict[str, Any]) -> Figure:
    """Draw one panel per task: regions of 50 % and 90 % in two parameters, with both margins."""
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure = plt.figure(figsize=(13, 3.9), layout="constrained")
    handles = [
        Patch(color="#c6c6c6", label="exact"),
        *(Line2D([], [], color=COLOURS[method], label=method) for method in METHODS),
        Line2D([], [], color="black", marker="+", linestyle="", markersize=9, label="true parameters"),
    ]
    legend, body = np.asarray(figure.subfigures(2, 1, height_ratios=[0.08, 1]))
    legend.legend(handles=handles, loc="center", ncols=len(handles), frameon=False)
    for part, (task, found) in zip(body.subfigures(1, len(result["tasks"])), result["tasks"].items(), strict=True):
        draw_panel(part, task, found)
    return figure


def draw_panel(part: SubFigure, task: str, found: dict[str, Any]) -> None:
    """Draw a task's two parameters jointly, and the margin of each."""
    axes = part.subplots(2, 2, width_ratios=[4, 1], height_ratios=[1, 4], sharex="col", sharey="row")
    (top, corner), (joint, right) = axes
    corner.set_axis_off()
    centres = [np.linspace(low, high, 2 * BINS + 1)[1::2] for low, high in found["window"]]
    for method, lines in found["counts"].items():
        counts = counts_of(lines).astype(float)
        exact = method == "exact"
        colour = "#c6c6c6" if exact else COLOURS[method]
        density = gaussian_filter(counts, SMOOTHING[task])
        levels = [*regions(density), density.max()]
        if exact:
            joint.contourf(*centres, density.T, levels, colors=["#e3e3e3", "#c2c2c2"])
        else:
            joint.contour(*centres, density.T, levels[:2], colors=colour, linewidths=1.3)
        margins = [gaussian_filter(counts.sum(1 - axis), SMOOTHING[task]) for axis in range(2)]
        if exact:
            top.fill_between(centres[0], margins[0], color=colour, linewidth=0)
            right.fill_betweenx(centres[1], margins[1], color=colour, linewidth=0)
        else:
            top.plot(centres[0], margins[0], color=colour, linewidth=1.3)
            right.plot(margins[1], centres[1], color=colour, linewidth=1.3)
    joint.plot(*found["truth"], "+", color="black", markersize=10, markeredgewidth=1.5)
    joint.set(xlabel=found["parameters"][0], ylabel=found["parameters"][1])
    joint.locator_params(nbins=4)
    top.set_ylim(bottom=0)
    right.set_xlim(left=0)
    top.set_title(task, fontsize=11)
    for ax in (top, right):
        ax.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
        ax.spines[["top", "right", "left", "bottom"]].set_visible(False)
    joint.spines[["top", "right"]].set_visible(False)


def regions(density: np.ndarray) -> list[float]:
    """Return the densities that bound the smallest regions holding 90 % and 50 % of the mass, rising."""
    falling = np.sort(density.ravel())[::-1]
    mass = np.cumsum(falling) / falling.sum()
    return sorted({float(falling[np.searchsorted(mass, share)]) for share in (0.9, 0.5)})


EXPERIMENT = Experiment(run, table, {"figure5": draw})
