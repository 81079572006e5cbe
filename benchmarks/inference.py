"""How far the posterior of one call of ``ds.infer`` is from the exact one, and how long the call takes.

    OMP_NUM_THREADS=1 python benchmarks/inference.py                       # SLCP, 11,000 simulations, defaults
    OMP_NUM_THREADS=1 python benchmarks/inference.py two_moons --seed 12

All simulations go into the call; others, of which nothing is known to it, are for the gap: the mean of exact
− stacked log density of the posterior that users get (refitted members), with its standard error. Clock and
processor minutes are of the call alone, with compilation where nothing was compiled before.

Results are stored in ``--directory`` and continued (the minutes are then of the last call). Writes
``benchmarks/results/inference-<task>.json``.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
from exact import TEST_ROWS, exact_log_posterior, simulated

import drystone as ds

RESULTS = Path(__file__).parent / "results"
SIMULATIONS = 11_000


def estimate(values):
    return {"value": float(values.mean()), "se": float(values.std(ddof=1) / np.sqrt(len(values)))}


def measure(name, seed, directory):
    task = ds.tasks.get(name)
    theta, y = simulated(task, SIMULATIONS, seed)
    clock, processor = time.perf_counter(), time.process_time()
    inference = ds.infer(theta, y, prior=task.prior, directory=directory, log_y=name == "lotka_volterra")
    minutes = (time.perf_counter() - clock) / 60, (time.process_time() - processor) / 60
    theta, y = simulated(task, TEST_ROWS[name], seed + 1)
    exact = exact_log_posterior(task, theta, y)
    known = np.isfinite(exact)
    fit, members = inference.fit, inference.members
    gaps = {}
    for label, of_label in (("refitted", members), ("before refitting", inference.held_out)):
        log_q = fit.posterior(of_label).log_prob_batched(theta, y)[0]
        gaps[label] = (exact - log_q)[known]
        print(label, estimate(gaps[label]), flush=True)
    return {
        "task": name,
        "seed": seed,
        "simulations": SIMULATIONS,
        "test": int(known.sum()),
        "cores": os.cpu_count(),
        "minutes": {"clock": minutes[0], "processor": minutes[1]},
        "gap": estimate(gaps["refitted"]),
        "gap before refitting": estimate(gaps["before refitting"]),
        "gain of refitting": estimate(gaps["before refitting"] - gaps["refitted"]),
        "form": repr(fit.form),
        "weights": {member: round(w, 4) for member, w in fit.member_weights.items()},
        "notes": inference.notes,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="?", default="slcp", choices=TEST_ROWS)
    parser.add_argument("--seed", type=int, default=9100)
    parser.add_argument("--directory", type=Path, default=None)
    options = parser.parse_args()
    result = measure(options.task, options.seed, options.directory)
    (RESULTS / f"inference-{options.task}.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
