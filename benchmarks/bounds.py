"""Bounded priors: three ways to keep a flow within the box of the prior, at three numbers of simulations.

    OMP_NUM_THREADS=1 python benchmarks/bounds.py                       # everything, about half an hour
    OMP_NUM_THREADS=1 python benchmarks/bounds.py ricker g_and_k 1000   # some problems, with 1,000 simulations

``logarithms`` maps the box to the reals by log u − log(1 − u); ``linear`` adds a linear term, 20 u, the default of
``ds.train``; ``restricted`` trains on θ as it is and divides by the share of the draws inside the box. One flow
for each problem, size, seed and way on the same simulations; differences of log density at 2,000 fresh ones,
paired by row. The weight of the linear term was chosen on the problems in ``CHOSEN_ON`` with 3,000 simulations.
Writes ``benchmarks/results/bounds.json``.
"""

import importlib
import json
import sys
import warnings
from pathlib import Path

import numpy as np
from problems import CHOSEN_ON, PROBLEMS

import drystone as ds

warnings.filterwarnings("ignore")
RESULT = Path(__file__).parent / "results" / "bounds.json"
NSF = ds.Configuration("nsf", activation="tanh", batch_size=100, learning_rate=1e-3, ema_decay=0.8)
ROWS, DRAWS = 2000, 400
# Seeds by number of simulations.
SEEDS = {1000: (10, 11, 12), 3000: (10, 11, 12), 10_000: (10,)}


def log_density(theta, y, box, test, seed, way):
    """Return the log density of a flow at test rows."""
    importlib.import_module("drystone.training.train").LINEAR = 20.0 if way == "linear" else 0.0
    prior = None if way == "restricted" else box
    member = ds.train(theta, y, sweep=[NSF], prior=prior, seed=seed, workers=1, lr_drops=3, progress=False)[0]
    log_q = member.log_prob(*test)
    if way != "restricted":
        return log_q
    draws = member.sample(DRAWS, test[1], seed=seed)
    inside = ((draws >= box[0]) & (draws <= box[1])).all(-1).mean(0)
    return log_q - np.log(np.maximum(inside, 1 / DRAWS))


def main(names, sizes):
    """Compare the ways on the named problems with so many simulations."""
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for n in sizes:
        for name in names:
            for seed in SEEDS[n]:
                key = f"{name} {n} {seed}"
                if key in result:
                    continue
                theta, y, box = PROBLEMS[name](n + ROWS, np.random.default_rng(seed))
                test = theta[n:], y[n:]
                linear, *others = (
                    log_density(theta[:n], y[:n], box, test, seed, way)
                    for way in ("linear", "logarithms", "restricted")
                )
                result[key] = {"judged": name not in CHOSEN_ON, "linear": linear.mean()}
                for way, other in zip(("logarithms", "restricted"), others, strict=True):
                    gain = linear - other
                    result[key][f"over {way}"] = {"gain": gain.mean(), "se": gain.std() / ROWS**0.5}
                RESULT.write_text(json.dumps(result, indent=1) + "\n")
                gains = (result[key][f"over {way}"] for way in ("logarithms", "restricted"))
                print(f"{key:32s}", *(f"{g['gain']:+.3f} ± {g['se']:.3f}" for g in gains), flush=True)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(
        [name for name in PROBLEMS if name in arguments] or list(PROBLEMS),
        [n for n in SEEDS if str(n) in arguments] or list(SEEDS),
    )
