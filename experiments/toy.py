"""Figures 3 and 4, the toy: tension among objectives, and efficiency of hybrid stacking.

Tension: weights fitted for one objective, judged by all of them on fresh simulations. Efficiency: Kullback–Leibler
divergence from the true posterior, by quadrature, of weights fitted to N simulations, for the log score alone and
with rank moments added; bands are the middle half of the repetitions.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from drystone import toy
from drystone.scores import EnergyScore, IntervalScore, LogScore, MomentScore, RankCvM, RankMoments
from drystone.stacking.stack import stack
from experiments.ensembles import Plan
from experiments.figures import panel
from experiments.markdown import grid, number
from experiments.published import TOY
from experiments.record import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

OBJECTIVES = {
    "log": LogScore(),
    "rank": RankCvM(),
    "moments": MomentScore(),
    "energy": EnergyScore(),
    "interval": IntervalScore(0.1),
    "log + rank": LogScore() + 10 * RankCvM(),
}
SIZES = (25, 50, 100, 200, 400, 800, 1600)


def run(plan: Plan) -> dict[str, Any]:
    """Return both figures' numbers."""
    first = 10_000 * plan.seed  # first of the seeds of a run
    return {
        "tension": tension(200, 300, 50, first) if plan.quick else tension(2000, 5000, 200, first),
        "efficiency": efficiency((30, 100), 4, 50, first) if plan.quick else efficiency(SIZES, 100, 200, first),
    }


def divergence(weights: np.ndarray) -> float:
    """Return KL(N(0, 1) ‖ mixture) by quadrature; the toy is the same at every y."""
    t = np.linspace(-12, 12, 2001)
    q = sum(w * norm.pdf(t, m.shift, m.sd) for w, m in zip(weights, toy.MEMBERS.values(), strict=True))
    return float(np.trapezoid(norm.pdf(t) * (norm.logpdf(t) - np.log(q)), t))


def tension(fit_rows: int, test_rows: int, draws: int, first: int) -> dict[str, Any]:
    """Return weights and scores on fresh simulations, by objective."""
    table, test = toy.table(fit_rows, first + 1, draws), toy.table(test_rows, first + 2, draws)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = {name: stack(table, score=score) for name, score in OBJECTIVES.items()}
    judges = [name for name in OBJECTIVES if "+" not in name]
    scores = {
        method: {judge: float(OBJECTIVES[judge](fit.view(test))) for judge in judges}
        for method, fit in fits.items()
    }
    return {"weights": {name: fit.weights.tolist() for name, fit in fits.items()}, "scores": scores}


def efficiency(sizes: Sequence[int], repetitions: int, draws: int, first: int) -> dict[str, Any]:
    """Return the divergence of each repetition, by score and number of simulations."""
    best = min(divergence(stack(toy.table(100_000, first + r, 2)).weights) for r in (10, 11))
    curves: dict[str, list[list[float]]] = {"log": [], "log + rank moments": []}
    for N in sizes:
        # The paper's λ multiplies a term that is not averaged over the N simulations: λ/N in ours, which is.
        for name, score in (
            ("log", LogScore()),
            ("log + rank moments", LogScore() + TOY.hybrid / N * RankMoments()),
        ):
            fits = [stack(toy.table(N, first + 1000 + r, draws), score=score) for r in range(repetitions)]
            curves[name].append([divergence(fit.weights) for fit in fits])
    return {"sizes": list(sizes), "best": best, "divergence": curves}


def draw_tension(result: dict[str, Any]) -> Figure:
    """Draw weights, and scores on fresh simulations, by objective."""
    import matplotlib.pyplot as plt

    result = result["tension"]
    methods, judges = list(result["scores"]), list(next(iter(result["scores"].values())))
    values = np.array([[result["scores"][m][j] for j in judges] for m in methods])
    # Each judge in its own unit: 0 for the best objective, 1 for the worst.
    shown = (values - values.min(0)) / np.ptp(values, axis=0)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.9), width_ratios=[1, 1.25], layout="constrained")
    weights, names = np.array([result["weights"][m] for m in methods]), list(toy.MEMBERS)
    start = np.zeros(len(methods))
    for k, colour in enumerate(("#3b6ea5", "#8fb3d9", "#c8553d", "#e9b44c")):
        left.barh(methods, weights[:, k], left=start, color=colour, label=names[k], height=0.7)
        start += weights[:, k]
    left.invert_yaxis()
    left.set(xlim=(0, 1), xlabel="weight", title="weights, by objective")
    left.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.16), frameon=False, fontsize=9)
    left.spines[["top", "right"]].set_visible(False)
    image = right.imshow(shown, cmap="YlGnBu", vmin=-0.1, vmax=1.3, aspect="auto")
    for i, j in np.ndindex(*values.shape):
        best = shown[i, j] == 0
        text = f"{values[i, j]:.3g}" if best else f"+{values[i, j] - values[:, j].min():.2g}"
        right.text(
            j,
            i,
            text,
            ha="center",
            va="center",
            fontsize=9,
            fontweight="bold" if best else "normal",
            color="white" if shown[i, j] > 0.6 else "black",
        )
    right.set_xticks(range(len(judges)), judges)
    right.set_yticks(range(len(methods)), methods)
    right.set(
        title="score on fresh simulations: the best, and excess over it", xlabel="judged by", ylabel="fitted for"
    )
    right.tick_params(length=0)
    figure.colorbar(image, ax=right, ticks=[0, 1], shrink=0.9).ax.set_yticklabels(["best", "worst"])
    return figure


def draw_efficiency(result: dict[str, Any]) -> Figure:
    """Draw the divergence against the number of simulations."""
    result = result["efficiency"]
    figure, ax = panel(
        "how many simulations the weights need", "stacking simulations N", "KL above the best mixture"
    )
    for (name, runs), colour in zip(result["divergence"].items(), ("#3b6ea5", "#c8553d"), strict=True):
        low, middle, high = np.quantile(np.array(runs) - result["best"], [0.25, 0.5, 0.75], axis=1)
        ax.fill_between(result["sizes"], low, high, color=colour, alpha=0.2, linewidth=0)
        ax.plot(result["sizes"], middle, "o-", color=colour, label=name, markersize=4)
    ax.set(xscale="log", yscale="log")
    ax.legend(frameon=False)
    return figure


def table(result: dict[str, Any]) -> str:
    """Return the members, exactly known, and the weights that each objective gives them."""
    members = []
    for (name, member), alone in zip(toy.MEMBERS.items(), np.eye(len(toy.MEMBERS)), strict=True):
        real = f"{number(100 * coverage(member), 0)} %"
        members.append([name, number(member.shift, 1), number(member.sd), number(divergence(alone)), real])
    head = ["member", "bias", "standard deviation", "KL from the truth", "real coverage of its 95 % interval"]
    rows = [[name, *(number(w) for w in weights)] for name, weights in result["tension"]["weights"].items()]
    return f"{grid(head, members)}\n\n{grid(['fitted for', *toy.MEMBERS], rows)}"


def coverage(member: toy.Gaussian, level: float = 0.95) -> float:
    """Return the probability under the true posterior of a member's central interval."""
    half = norm.ppf((1 + level) / 2) * member.sd
    return float(norm.cdf(member.shift + half) - norm.cdf(member.shift - half))


EXPERIMENT = Experiment(
    run,
    table,
    {"toy_tension": draw_tension, "toy_efficiency": draw_efficiency},
)
