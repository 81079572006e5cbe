"""Mixture × IntervalScore, which is not convex: how near is one fit to the best of 20 restarts?

    OMP_NUM_THREADS=1 python benchmarks/interval_mixture.py

On five of the problems of `do_no_harm.py`, with the first 300 rows: the loss of ``ds.stack`` relative to the least
of 20 searches on the exact score, each from a random point of the simplex; and how much worse it is with one more
member, displaced by 30 or by 10,000 standard deviations of θ. Results go to
benchmarks/results/interval_mixture.json.
"""

import json
import platform
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


def with_displaced_member(table, sds):
    """Return the table with one more member, so many standard deviations away from the first."""
    draws = np.concatenate([table.draws, table.draws[:1] + sds * table.theta.std(0)])
    log_q = np.concatenate([table.log_q, table.log_q[:1] - sds**2 / 2])
    return ds.Table(table.theta, table.y, draws=draws, log_q=log_q, names=[*table.names, "displaced"])


def best_of_restarts(table, score):
    """Return the least loss of searches on the exact score from random weights."""
    exact, rng = differentiated(table, ds.Mixture(), score), np.random.default_rng(SEED)
    ends = [_compass_search(exact, start, VALUES, rng)[0] for start in rng.dirichlet(np.ones(table.K), RESTARTS)]
    return min(map(exact.value, ends))


def measure(name, folder):
    rows, _ = problem(name, SEED, folder)
    table, score = rows.select(rows=np.arange(ROWS)), ds.IntervalScore()
    begun = time.process_time()
    loss = ds.stack(table, score=score).loss
    seconds = time.process_time() - begun
    restarted = best_of_restarts(table, score)
    displaced = {sds: ds.stack(with_displaced_member(table, sds), score=score).loss for sds in (30, 10_000)}
    return {
        "problem": name,
        "loss": loss,
        "seconds": round(seconds, 2),
        "best of restarts": restarted,
        "above the best of restarts": loss / restarted - 1,
        **{f"worse with a member {sds} sd away": worse / loss - 1 for sds, worse in displaced.items()},
    }


def main():
    folder = Path(tempfile.gettempdir()) / "drystone-do-no-harm"
    folder.mkdir(exist_ok=True)
    document = {"machine": f"{platform.machine()}, Python {platform.python_version()}", "results": []}
    for name in PROBLEMS:
        document["results"].append(measure(name, folder))
        print(json.dumps(document["results"][-1]), flush=True)
        RESULTS.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main()
