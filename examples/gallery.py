"""Every picture of ``ds.plots``, on a small ensemble for Two Moons: the gallery of docs/plots.md.

python examples/gallery.py            # a minute or two; writes docs/figures/plots/
python examples/gallery.py --quick    # a smaller ensemble, into a temporary directory
"""

import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import drystone as ds

FIGURES = Path(__file__).parent.parent / "docs/figures/plots"


def tabulate(ensemble, task, n, seed):
    """What each member says of n fresh simulations."""
    theta, y = ds.simulate(task, n=n, seed=seed)
    draws = ensemble.sample(199, y, seed=seed).swapaxes(1, 2)
    return ds.Table(
        theta,
        y,
        log_q=ensemble.log_prob(theta, y),
        draws=draws,
        names=ensemble.names,
        parameters=task.parameters,
    )


def posteriors(ensemble, fit, task, y_o):
    """Draws at one observation: six members, uniform weights, the stack, and the exact posterior."""
    rng = np.random.default_rng(0)
    members = ensemble.sample(5000, y_o[None], seed=0)[:, :, 0]
    return {
        "members": members[:6],
        "uniform": members[rng.integers(len(members), size=5000), np.arange(5000)],
        "stacked": fit.posterior(ensemble).sample((5000,), x=y_o, seed=0),
        "reference": task.sample_posterior(y_o, 5000, rng),
    }


def main():
    quick = "--quick" in sys.argv
    task = ds.tasks.get("two_moons")
    theta, y = ds.simulate(task, n=500 if quick else 2000, seed=1)
    ensemble = ds.train(
        theta, y, members=4 if quick else 20, family="nsf", prior=task.prior, seed=0, epochs=3 if quick else 30
    )
    validation, test = (tabulate(ensemble, task, 200 if quick else 1000, seed) for seed in (2, 3))

    fit = ds.stack(validation)
    fits = {"log": fit, "log + rank": ds.stack(validation, score=ds.LogScore() + 100 * ds.RankCvM())}
    comparison = ds.compare(validation, test, fits)
    advice = ds.advise(fit, validation, times=20 if quick else 200)
    print(advice)

    pictures = {
        "weights": ds.plots.weights(fit),
        "weight_stability": ds.plots.weight_stability(advice.bootstrap),
        "comparison": ds.plots.comparison(comparison),
        "gain": ds.plots.comparison(comparison, gain=True),
        "gain_curve": ds.plots.gain_curve(advice.curve),
        "rank_ecdf": ds.plots.rank_ecdf(test, fits),
        "rank_histogram": ds.plots.rank_histogram(test, fits),
        "coverage": ds.plots.coverage(test, fits),
        "tarp": ds.plots.tarp(test, fits),
        "pairs": ds.plots.pairs(
            posteriors(ensemble, fit, task, np.array([0.0, 0.0])), parameters=task.parameters
        ).flat[0],
    }
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary) if quick else FIGURES
        directory.mkdir(parents=True, exist_ok=True)
        for name, ax in pictures.items():
            ax.figure.savefig(directory / f"{name}.png", dpi=130)
            plt.close(ax.figure)
        print(f"\nwrote {len(pictures)} pictures to {directory}")


if __name__ == "__main__":
    main()
