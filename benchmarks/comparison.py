"""Comparisons: their cost, and that more draws are not skill: `python benchmarks/comparison.py [cost | null]`.

`cost` compares K = 300 members in d = 14 parameters on N = 400 rows of S = 50 draws: processor seconds, also in
units of sorting the draws of both tables once, and memory on top of the tables. `null` compares uniform weights
with the best of four members that all are exact: the mean gain by each metric in standard errors, once from draws
and once from tables that hold ranks, moments and quantiles of as many draws.
Results go to benchmarks/results/comparison.json, those of the null one by one, and none is repeated.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import platform
import resource
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import drystone as ds

RESULTS = Path(__file__).parent / "results" / "comparison.json"
# Repetitions and rows of the null.
REPETITIONS, ROWS = 200, 1000
LEVELS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)


def members(seed, K=300, N=400, S=50, d=14):
    """Gaussian members of a Gaussian posterior: shifted, scaled, and noisy in their own ways."""
    rng, of_members = np.random.default_rng(seed), np.random.default_rng(0)
    shift, sd = of_members.normal(size=(K, 1, d)) / 2, np.exp(0.4 * of_members.normal(size=(K, 1, d)))
    y = rng.normal(size=(N, d))
    theta = y + rng.normal(size=(N, d))
    centre = y + shift + 0.4 * rng.normal(size=(K, N, d))
    log_q = (-(((theta - centre) / sd) ** 2) / 2 - np.log(sd)).sum(-1)
    draws = np.empty((K, N, S, d), np.float32)
    for k in range(K):
        draws[k] = centre[k][:, None] + sd[k][:, None] * rng.standard_normal((N, S, d))
    return ds.Table(theta, y, log_q=log_q, draws=draws)


def seconds(run):
    """Processor time of one call."""
    begun = time.process_time()
    run()
    return time.process_time() - begun


def peak():
    """Largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cost():
    validation, test = members(1), members(2)
    before = peak()
    comparing = seconds(lambda: ds.compare(validation, test))
    after = peak()
    sorting = seconds(lambda: [np.sort(draws, 1) for table in (validation, test) for draws in table.draws])
    memory = {"MB on top of the tables": after - before, "MB in all": after}
    return {"seconds": comparing, "times sorting all draws": comparing / sorting, **memory}


def exact_members(seed, S, keep_draws):
    """Four members that all are the exact posterior."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(ROWS, 1))
    theta = y + rng.normal(size=(ROWS, 1))
    table = ds.Table(theta, y, draws=y[:, None] + rng.normal(size=(4, ROWS, S, 1)))
    if keep_draws:
        return table
    quantiles = {level: table.quantile(level) for level in LEVELS}
    return ds.Table(theta, y, rank=table.rank, mean=table.mean, cov=table.cov, quantiles=quantiles, S=S)


def null(S, keep_draws):
    gains = {}
    for repetition in range(REPETITIONS):
        tables = [exact_members(2 * repetition + i, S, keep_draws) for i in (0, 1)]
        for result in ds.compare(*tables, ds.Stacking.uniform(tables[0].names)).results:
            gains.setdefault(result.metric.name, []).append(result.methods["uniform"].gain.value)
    return {name: np.mean(gain) / (np.std(gain, ddof=1) / np.sqrt(len(gain))) for name, gain in gains.items()}


def main(parts):
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    found |= {"python": platform.python_version(), "numpy": np.__version__}

    def write():
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")

    if "cost" in parts:
        found["cost"] = cost()
        write()
    if "null" in parts:
        found["null"] = {"repetitions": REPETITIONS, "rows": ROWS}
        for kind, keep_draws in (("", True), (" without draws", False)):
            gains = found.setdefault(f"null{kind}: mean gain of uniform weights in standard errors", {})
            for S in (10, 20, 50, 100, 200):
                if f"S={S}" not in gains:
                    gains[f"S={S}"] = null(S, keep_draws)
                    write()
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1:] or ["cost", "null"])
