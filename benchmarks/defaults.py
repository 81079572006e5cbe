"""What the defaults of training were chosen from: sweeps and schedules, on the four problems that choose.

    OMP_NUM_THREADS=1 python benchmarks/defaults.py                      # everything, about half an hour
    OMP_NUM_THREADS=1 python benchmarks/defaults.py slcp tanh relu       # some problems, some settings

Eight members on 3,000 simulations with each setting: mean log density at 2,000 fresh simulations of the median
member, and of the stack, whose weights are fitted to the rows that stopped the training. The resulting defaults
are judged by ``quality.py``, with other seeds and other problems. Writes ``benchmarks/results/defaults.json``.
"""

import json
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from problems import CHOSEN_ON, PROBLEMS

import drystone as ds
from drystone.training.inputs import Split

warnings.filterwarnings("ignore")
RESULT = Path(__file__).parent / "results" / "defaults.json"
N, ROWS, SEED, MEMBERS = 3000, 2000, 0, 8
RELU = ds.Sweep(ema_decay=0.8)
TANH = replace(RELU, activation="tanh")
FAST = (1e-3, 3e-3)
SETTINGS = {
    "version 0.1": (ds.Sweep(), 0),
    "relu": (RELU, 3),
    "tanh": (TANH, 3),
    "tanh, no dropout": (replace(TANH, dropout=(0.0, 0.0)), 3),
    "tanh, dropout 0.05-0.2": (replace(TANH, dropout=(0.05, 0.2)), 3),
    "relu, dropout 0.1-0.3": (replace(RELU, dropout=(0.1, 0.3)), 3),
    "relu, faster": (replace(RELU, learning_rate=FAST), 3),
    "tanh, faster": (replace(TANH, learning_rate=FAST), 3),
    "default": (ds.Sweep.posterior(), 3),
}


def scores(name, sweep, lr_drops):
    """Return the mean log densities of the members and of their stack, and the processor seconds per member."""
    theta, y, box = PROBLEMS[name](N + ROWS, np.random.default_rng(SEED))
    rows, test = (theta[:N], y[:N]), (theta[N:], y[N:])
    held_out = Split.of(*rows, 0.1, SEED, False).validation
    begin = time.process_time()
    ensemble = ds.train(
        *rows, members=MEMBERS, sweep=sweep, lr_drops=lr_drops, prior=box, seed=SEED, workers=1, progress=False
    )
    seconds = (time.process_time() - begin) / MEMBERS
    table = ds.Table(theta[held_out], log_q=ensemble.log_prob(theta[held_out], y[held_out]))
    log_q = ensemble.log_prob(*test)
    stacked = ds.stack(table).apply(ds.Table(test[0], log_q=log_q)).log_q
    return {"members": log_q.mean(1).tolist(), "stack": float(stacked.mean()), "seconds": seconds}


if __name__ == "__main__":
    arguments = sys.argv[1:]
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for name in [name for name in CHOSEN_ON if name in arguments] or CHOSEN_ON:
        for setting in [setting for setting in SETTINGS if setting in arguments] or SETTINGS:
            if setting not in result.setdefault(name, {}):
                result[name][setting] = scores(name, *SETTINGS[setting])
                RESULT.write_text(json.dumps(result, indent=1) + "\n")
            entry = result[name][setting]
            print(f"{name:22s} {setting:24s} median {np.median(entry['members']):.3f} stack {entry['stack']:.3f}")
