"""The toy's two figures: tension among objectives, and efficiency of hybrid stacking.

    python experiments/toy.py            # about two minutes; writes experiments/results/toy.json and docs/figures/
    python experiments/toy.py --quick    # a few seconds, for a smoke test; writes nothing

Tension: weights fitted for one objective, judged by all of them on fresh simulations. Efficiency: Kullback–Leibler
divergence from the true posterior, by quadrature, of weights fitted to N simulations, for the log score alone and
with rank moments added; bands are the middle half of the repetitions.
"""

import argparse
import json
import platform
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import norm

import drystone as ds

ROOT = Path(__file__).parent.parent
RESULTS, FIGURES = ROOT / "experiments/results/toy.json", ROOT / "docs/figures"
OBJECTIVES = {
    "log": ds.LogScore(),
    "rank": ds.RankCvM(),
    "moments": ds.MomentScore(),
    "energy": ds.EnergyScore(),
    "interval": ds.IntervalScore(0.1),
    "log + rank": ds.LogScore() + 10 * ds.RankCvM(),
}
# The paper's λ = 100 multiplies a term that is not averaged over the N simulations: λ/N in ours, which is.
PAPER_LAMBDA = 100


def divergence(weights):
    """KL(N(0, 1) ‖ mixture) by quadrature; the toy is the same at every y."""
    t = np.linspace(-12, 12, 2001)
    q = sum(w * norm.pdf(t, m.shift, m.sd) for w, m in zip(weights, ds.toy.MEMBERS.values(), strict=True))
    return float(np.trapezoid(norm.pdf(t) * (norm.logpdf(t) - np.log(q)), t))


def tension(fit_rows, test_rows, draws):
    table, test = ds.toy.table(fit_rows, 1, draws), ds.toy.table(test_rows, 2, draws)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = {name: ds.stack(table, score=score) for name, score in OBJECTIVES.items()}
    judges = [name for name in OBJECTIVES if "+" not in name]
    scores = {
        method: {judge: float(OBJECTIVES[judge](fit.view(test))) for judge in judges}
        for method, fit in fits.items()
    }
    return {"weights": {name: fit.weights.tolist() for name, fit in fits.items()}, "scores": scores}


def efficiency(sizes, repetitions, draws):
    best = min(divergence(ds.stack(ds.toy.table(100_000, seed, 2)).weights) for seed in (10, 11))
    curves = {"log": [], "log + rank moments": []}
    for N in sizes:
        for name, score in (
            ("log", ds.LogScore()),
            ("log + rank moments", ds.LogScore() + PAPER_LAMBDA / N * ds.RankMoments()),
        ):
            fits = [ds.stack(ds.toy.table(N, 1000 + r, draws), score=score) for r in range(repetitions)]
            curves[name].append([divergence(fit.weights) for fit in fits])
    return {"sizes": sizes, "best": best, "divergence": curves}


def draw_tension(result, path):
    import matplotlib.pyplot as plt

    methods, judges = list(result["scores"]), list(next(iter(result["scores"].values())))
    values = np.array([[result["scores"][m][j] for j in judges] for m in methods])
    # Each judge in its own unit: 0 for the best objective, 1 for the worst.
    shown = (values - values.min(0)) / np.ptp(values, axis=0)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.9), width_ratios=[1, 1.25], layout="constrained")
    weights, names = np.array([result["weights"][m] for m in methods]), list(ds.toy.MEMBERS)
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
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_efficiency(result, path):
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6.2, 3.9), layout="constrained")
    for (name, runs), colour in zip(result["divergence"].items(), ("#3b6ea5", "#c8553d"), strict=True):
        low, middle, high = np.quantile(np.array(runs) - result["best"], [0.25, 0.5, 0.75], axis=1)
        ax.fill_between(result["sizes"], low, high, color=colour, alpha=0.2, linewidth=0)
        ax.plot(result["sizes"], middle, "o-", color=colour, label=name, markersize=4)
    ax.set(xscale="log", yscale="log", xlabel="stacking simulations N", ylabel="KL above the best mixture (nats)")
    ax.set_title("how many simulations the weights need")
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action=argparse.BooleanOptionalAction, default=False)
    quick = parser.parse_args().quick
    begun = time.perf_counter()
    result = {
        "tension": tension(200, 300, 50) if quick else tension(2000, 5000, 200),
        "efficiency": efficiency([30, 100], 4, 50)
        if quick
        else efficiency([25, 50, 100, 200, 400, 800, 1600], 100, 200),
    }
    result["seconds"] = round(time.perf_counter() - begun, 1)
    result["versions"] = {"drystone": ds.__version__, "numpy": np.__version__, "python": platform.python_version()}
    if quick:
        print(json.dumps(result["tension"]["weights"], indent=1))
        return
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    FIGURES.mkdir(parents=True, exist_ok=True)
    draw_tension(result["tension"], FIGURES / "toy_tension.png")
    draw_efficiency(result["efficiency"], FIGURES / "toy_efficiency.png")
    print(f"wrote {RESULTS.relative_to(ROOT)} and two figures in {FIGURES.relative_to(ROOT)}/")


if __name__ == "__main__":
    main()
