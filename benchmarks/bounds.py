"""The map from a bounded prior to the reals: logarithms alone against logarithms with a linear term.

    OMP_NUM_THREADS=1 python benchmarks/bounds.py            # about ten minutes

One flow per problem, seed and map on the same 3,000 simulations; differences of log density at 2,000 fresh ones,
paired by row. The weight of the linear term was chosen on the first four problems and is judged on the other four.
Writes ``benchmarks/results/bounds.json``.
"""

import importlib
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from problems import CHOSEN_ON, PROBLEMS

import drystone as ds

warnings.filterwarnings("ignore")
RESULT = Path(__file__).parent / "results" / "bounds.json"
NSF = ds.Configuration("nsf", activation="tanh", batch_size=100, learning_rate=1e-3, ema_decay=0.8)


def log_density(theta, y, box, test, seed, linear):
    """Return the log density of a flow at test rows, and its processor seconds of training."""
    importlib.import_module("drystone.training.train").LINEAR = linear
    begin = time.process_time()
    ensemble = ds.train(theta, y, sweep=[NSF], prior=box, seed=seed, workers=1, lr_drops=3, progress=False)
    return ensemble[0].log_prob(*test), time.process_time() - begin


def main(names, n=3000, rows=2000, seeds=(10, 11, 12)):
    """Compare the maps on the named problems."""
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for name in names:
        for seed in seeds:
            key = f"{name} {seed}"
            if key in result:
                continue
            theta, y, box = PROBLEMS[name](n + rows, np.random.default_rng(seed))
            test = theta[n:], y[n:]
            logarithms, slow = log_density(theta[:n], y[:n], box, test, seed, 0.0)
            linear, quick = log_density(theta[:n], y[:n], box, test, seed, 20.0)
            gain = linear - logarithms
            result[key] = {
                "judged": name not in CHOSEN_ON,
                "logarithms": logarithms.mean(),
                "linear": linear.mean(),
                "gain": gain.mean(),
                "se": gain.std() / rows**0.5,
                "seconds": [slow, quick],
            }
            RESULT.write_text(json.dumps(result, indent=1) + "\n")
            print(f"{key:28s} {gain.mean():+.3f} ± {gain.std() / rows**0.5:.3f}", flush=True)
    for judged in (False, True):
        gains = [entry["gain"] for entry in result.values() if entry["judged"] == judged]
        if gains:
            print(f"{'judged' if judged else 'chosen'} on: mean {np.mean(gains):+.3f}, least {np.min(gains):+.3f}")


if __name__ == "__main__":
    main(sys.argv[1:] or tuple(PROBLEMS))
