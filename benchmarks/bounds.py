"""Bounded priors: ways to keep a flow within the box of the prior.

    export OMP_NUM_THREADS=1 PYTHONPATH=.
    python benchmarks/bounds.py                          # single flows: everything, about half an hour
    python benchmarks/bounds.py ricker g_and_k 1000      # some problems, with 1,000 simulations
    python benchmarks/bounds.py stacks                   # stacks of eight default members, a quarter of an hour
    python benchmarks/bounds.py stacks ricker            # of one problem

**Flows.** ``logarithms`` maps the box to the reals by log u − log(1 − u); ``linear`` adds a linear term, 20 u
(``bounds="map"``); ``restricted`` trains on θ as it is and divides by the share of the flow inside the box
(``bounds="restrict"``). One flow for each problem, size, seed and way on the same simulations; differences of log
density at 2,000 fresh ones, paired by row. The weight of the linear term was chosen on the problems in
``CHOSEN_ON`` with 3,000 simulations. Writes ``benchmarks/results/bounds.json``.

**Stacks.** Eight members of the default sweep, 3,000 simulations of which a tenth stops the training and fits the
weights: all mapped, all restricted, and as by default, every second one restricted. That was chosen among these
and other orders on the problems in ``CHOSEN_ON`` with this seed; the other problems had no part in it. Writes
``benchmarks/results/bounds-stacks.json``.
"""

import importlib
import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from problems import CHOSEN_ON, PROBLEMS, mini_simbig

import drystone as ds

warnings.filterwarnings("ignore")
RESULTS = Path(__file__).parent / "results"
FLOWS, STACKS = RESULTS / "bounds.json", RESULTS / "bounds-stacks.json"
NSF = ds.Configuration("nsf", activation="tanh", batch_size=100, learning_rate=1e-3, ema_decay=0.8)
ROWS = 2000
# Seeds by number of simulations.
SEEDS = {1000: (10, 11, 12), 3000: (10, 11, 12), 10_000: (10,)}
STACK_SEED, N, MEMBERS = 31, 3000, 8
PROBLEMS |= {"mini_simbig": mini_simbig}


def log_density(theta, y, box, test, seed, way):
    """Return the log density of a flow at test rows."""
    importlib.import_module("drystone.training.train").LINEAR = 0.0 if way == "logarithms" else 20.0
    configuration = replace(NSF, bounds="restrict" if way == "restricted" else "map")
    member = ds.train(theta, y, sweep=[configuration], prior=box, seed=seed, workers=1, progress=False)[0]
    return member.log_prob(*test)


def flows(names, sizes):
    """Compare the ways on the named problems with so many simulations."""
    result = json.loads(FLOWS.read_text()) if FLOWS.exists() else {}
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
                    result[key][f"over {way}"] = paired(linear - other)
                FLOWS.write_text(json.dumps(result, indent=1) + "\n")
                gains = (result[key][f"over {way}"] for way in ("logarithms", "restricted"))
                print(f"{key:32s}", *(f"{g['gain']:+.3f} ± {g['se']:.3f}" for g in gains), flush=True)


def stacks(names):
    """Compare stacks whose members are mapped, restricted, or both in turn."""
    result = json.loads(STACKS.read_text()) if STACKS.exists() else {}
    for name in names:
        if name in result:
            continue
        theta, y, box = PROBLEMS[name](N + ROWS, np.random.default_rng(STACK_SEED))
        first, held_out, test = slice(0, -N // 10 - ROWS), slice(-N // 10 - ROWS, -ROWS), slice(-ROWS, None)
        log_q, sweeps = {}, ds.Sweep.posterior()
        for bounds in ("map", "restrict"):
            ensemble = ds.train(
                theta[first], y[first], members=MEMBERS, sweep=[replace(s, bounds=bounds) for s in sweeps],
                prior=box, seed=STACK_SEED, validation=(theta[held_out], y[held_out]), workers=1, progress=False,
            )  # fmt: skip
            log_q[bounds] = [ensemble.log_prob(theta[rows], y[rows], workers=1) for rows in (held_out, test)]
        stacked, median = {}, {}
        for way, of in {
            "map": ("map",), "restrict": ("restrict",), "default": [sweep.bounds for sweep in sweeps],
        }.items():  # fmt: skip
            fitted, judged = (
                np.stack([log_q[of[k % len(of)]][part][k] for k in range(MEMBERS)]) for part in (0, 1)
            )
            fit = ds.stack(ds.Table(theta[held_out], log_q=fitted))
            stacked[way] = fit.apply(ds.Table(theta[test], log_q=judged)).log_q
            median[way] = float(np.median(judged.mean(1)))
        result[name] = {
            "judged": name not in CHOSEN_ON,
            "median": median,
            "over map": paired(stacked["default"] - stacked["map"]),
            "over restrict": paired(stacked["default"] - stacked["restrict"]),
        }
        STACKS.write_text(json.dumps(result, indent=1) + "\n")
        print(name, result[name], flush=True)


def paired(gain):
    """Return the mean of differences and its standard error."""
    return {"gain": float(gain.mean()), "se": float(gain.std() / len(gain) ** 0.5)}


if __name__ == "__main__":
    arguments = sys.argv[1:]
    named = [name for name in PROBLEMS if name in arguments] or list(PROBLEMS)
    if "stacks" in arguments:
        stacks(named)
    else:
        flows(named, [n for n in SEEDS if str(n) in arguments] or list(SEEDS))
