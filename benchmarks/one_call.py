"""One call of ``ds.infer`` with its defaults: how far from the exact posterior, in how many minutes.

    OMP_NUM_THREADS=1 python benchmarks/one_call.py slcp 9200

11,000 simulations of a task whose posterior is known, and 1,000 others to measure the divergence on. The minutes
are those of the call alone, on as many cores as there are. Writes ``benchmarks/results/one_call.json``.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import drystone as ds

warnings.filterwarnings("ignore")
RESULT = Path(__file__).parent / "results" / "one_call.json"
N, ROWS = 11_000, 1_000


def measured(name, seed):
    """Return the gap in nats with its standard error, and the minutes by the clock and of the processor."""
    task = ds.tasks.get(name)
    drawn = ds.simulate(task, n=N + ROWS, seed=seed, workers=1)
    theta, y = np.asarray(drawn.theta, float), np.asarray(drawn.y, float)
    clock, processor = time.perf_counter(), time.process_time()
    inference = ds.infer(theta[:N], y[:N], prior=task.prior, seed=seed, progress=False)
    minutes = (time.perf_counter() - clock) / 60, (time.process_time() - processor) / 60
    gap = task.log_posterior(theta[N:], y[N:]) - inference.posterior.log_prob_batched(theta[N:], y[N:])[0]
    return {
        "gap": float(gap.mean()),
        "se": float(gap.std() / ROWS**0.5),
        "minutes": {"clock": minutes[0], "processor": minutes[1]},
        "form": repr(inference.fit.form),
        "weights": {member: round(float(w), 4) for member, w in inference.fit.member_weights.items()},
    }


if __name__ == "__main__":
    name, seed = sys.argv[1], int(sys.argv[2])
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    result[f"{name} {seed}"] = measured(name, seed)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(result[f"{name} {seed}"])
