"""Mixture × IntervalScore, which is not convex: how near is one fit to the best of 20 restarts?

    OMP_NUM_THREADS=1 python benchmarks/interval_mixture.py [problem …]

On five of the problems of `do_no_harm.py`, with the first 300 rows: the loss of ``ds.stack`` relative to the least
of 20 searches on the exact score, each from a random point of the simplex; and how much worse it is with one more
member, displaced by 30 or by 10,000 standard deviations of θ. Results go to
benchmarks/results/interval_mixture.json; searches that are recorded there for the same table are not repeated.
"""

import json
import platform
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from do_no_harm import problem

import drystone as ds
from drystone.solvers.projected_gradient import _compass_search, differentiated

RESULTS = Path(__file__).parent / "results" / "interval_mixture.json"
PROBLEMS = ("toy", "one good", "biased", "two_moons", "slcp")
ROWS, RESTARTS, VALUES, SEED = 300, 20, 1500, 0
LONGEST = 0.25  # first steps from random weights


def with_displaced_member(table, sds):
    """Return the table with one more member, so many standard deviations away from the first."""
    draws = np.concatenate([table.draws, table.draws[:1] + sds * table.theta.std(0)])
    log_q = np.concatenate([table.log_q, table.log_q[:1] - sds**2 / 2])
    return ds.Table(table.theta, table.y, draws=draws, log_q=log_q, names=[*table.names, "displaced"])


def best_of_restarts(table, score):
    """Return the least loss of searches on the exact score from random weights."""
    exact, rng = differentiated(table, ds.Mixture(), score), np.random.default_rng(SEED)
    starts = rng.dirichlet(np.ones(table.K), RESTARTS)
    ends = [_compass_search(exact, start, VALUES, rng, LONGEST)[0] for start in starts]
    return min(map(exact.value, ends))


def measure(name, folder, recorded):
    rows, _ = problem(name, SEED, folder)
    table, score = rows.select(rows=np.arange(ROWS)), ds.IntervalScore()
    begun = time.process_time()
    loss = ds.stack(table, score=score).loss
    seconds = time.process_time() - begun
    uniform = ds.Stacking.uniform(table.names).evaluate(table, score)["loss"]
    same = recorded.get("uniform weights") == uniform
    restarted = recorded["best of restarts"] if same else best_of_restarts(table, score)
    displaced = {sds: ds.stack(with_displaced_member(table, sds), score=score).loss for sds in (30, 10_000)}
    return {
        "problem": name,
        "loss": loss,
        "uniform weights": uniform,
        "seconds": round(seconds, 2),
        "best of restarts": restarted,
        "above the best of restarts": loss / restarted - 1,
        **{f"worse with a member {sds} sd away": worse / loss - 1 for sds, worse in displaced.items()},
    }


def main():
    folder = Path(tempfile.gettempdir()) / "drystone-do-no-harm"
    folder.mkdir(exist_ok=True)
    recorded = json.loads(RESULTS.read_text())["results"] if RESULTS.exists() else []
    results = {row["problem"]: row for row in recorded}
    for name in sys.argv[1:] or PROBLEMS:
        results[name] = measure(name, folder, results.get(name, {}))
        print(json.dumps(results[name]), flush=True)
        machine = f"{platform.machine()}, Python {platform.python_version()}"
        document = {"machine": machine, "results": list(results.values())}
        RESULTS.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main()
