"""Whether advice on more members can be obeyed, on random subsets of trained ensembles.

Run ``OMP_NUM_THREADS=1 python benchmarks/advice.py``. Ensembles of 24 flows are trained on Two Moons, Gaussian
Mixture and SLCP, each on 1000 and on 2000 simulations, with the default sweep. Of each, random subsets of 3 to 8
members are stacked on 1000 rows and advised on; the true gain is that of stacking all 24 on the same rows, on
10,000 others. The settings of the advice were chosen on other seeds and tasks (``--choosing``). Training takes
about five minutes on one core and is kept in ``--cache``, the rest takes as long; the result is
``benchmarks/results/advice.json``.
"""

import argparse
import json
import platform
from pathlib import Path

import numpy as np

import drystone as ds
from drystone.advice.gain import gain_curve
from drystone.advice.refit import problem_of
from drystone.advice.result import LIKELY, UNLIKELY, WORTHWHILE

MEMBERS, STACKING, TEST = 24, 2000, 10_000  # of the rows for stacking, each subset uses a random part
ROWS = 1000
SUBSETS = 20  # of each ensemble, a third of them of 8 members
SIZES = (3, 4, 5, 6, 7, 8, 8, 8)
# (task, seed, training simulations)
REPORTED = [(task, i, n) for task in ("two_moons", "gaussian_mixture", "slcp") for i, n in enumerate((1000, 2000))]
CHOOSING = [
    *(("two_moons", 100, 500), ("two_moons", 101, 2000), ("two_moons", 102, 8000), ("gaussian", 100, 500)),
    *(("gaussian", 102, 4000), ("gaussian_mixture", 100, 1000), ("gaussian_mixture", 101, 3000)),
    *(("slcp", 100, 1000), ("slcp", 101, 3000)),
]
WRONG_NO = 0.02  # nats: a "no" where the others gain more is wrong
RESULTS = Path(__file__).parent / "results" / "advice.json"


def ensemble(name, seed, simulations, cache):
    """Return log densities of the members at rows to stack on and at rows to judge by, (24, N) each."""
    path = cache / f"{name}-{seed}-{simulations}.npz"
    if not path.exists():
        task, rng = ds.tasks.get(name), np.random.default_rng((seed, 1))
        theta = task.prior.sample(simulations + STACKING + TEST, rng)
        y = task.simulate(theta, rng)
        settings = {"members": MEMBERS, "seed": seed, "patience": 10, "epochs": 200, "workers": 1}
        trained = ds.train(theta[:simulations], y[:simulations], prior=task.prior, **settings)
        theta, y = theta[simulations:], y[simulations:]
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, log_q=np.stack([member.log_prob(theta, y) for member in trained]), theta=theta)
    stored = np.load(path)
    return stored["theta"], stored["log_q"]


def cases(theta, log_q, seed):
    """Yield what is advised on random subsets of an ensemble, and what the other members gain."""
    rng = np.random.default_rng(seed)
    test = ds.Table(theta[STACKING:], log_q=log_q[:, STACKING:])
    for i in range(SUBSETS):
        rows = np.sort(rng.choice(STACKING, ROWS, replace=False))
        members = np.sort(rng.choice(MEMBERS, SIZES[i % len(SIZES)], replace=False))
        everything = ds.Table(theta[rows], log_q=log_q[:, rows])
        table = everything.select(members=members)
        fit = ds.stack(table)
        without, with_all = fit.apply(test.select(members=members)).log_q, ds.stack(everything).apply(test).log_q
        further = gain_curve(problem_of(fit, table), more=MEMBERS - len(members), seed=i).further
        assert further is not None  # there are several members
        chance, (low, high) = further.chance(WORTHWHILE), further.range(0.8)
        yield {
            "K": len(members),
            "answer": "yes" if chance >= LIKELY else "no" if chance <= UNLIKELY else "cannot tell",
            "low": low,
            "median": further.median,
            "high": high,
            "true_gain": float((with_all - without).mean()),
            "true_gain_se": float((with_all - without).std() / np.sqrt(TEST)),
        }


def summary(of_cases):
    """Return the counts that the advice is judged by."""
    of_eight = [case for case in of_cases if case["K"] == 8]
    said = {answer: [case for case in of_cases if case["answer"] == answer] for answer in ("yes", "no")}
    return {
        "subsets": len(of_cases),
        "true_gain_above_0.02": sum(case["true_gain"] > WRONG_NO for case in of_cases),
        "no": len(said["no"]),
        "wrong_no": sum(case["true_gain"] > WRONG_NO for case in said["no"]),
        "yes": len(said["yes"]),
        "wrong_yes": sum(case["true_gain"] <= WRONG_NO for case in said["yes"]),
        "answers_at_8": f"{sum(case['answer'] != 'cannot tell' for case in of_eight)} of {len(of_eight)}",
        "range_covers": np.mean([case["low"] <= case["true_gain"] <= case["high"] for case in of_cases]),
        "above_range": np.mean([case["true_gain"] > case["high"] for case in of_cases]),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "drystone" / "advice")
    parser.add_argument("--choosing", action="store_true", help="the ensembles that settings were chosen on")
    arguments = parser.parse_args()
    of_tasks, everything = {}, []
    for name, seed, simulations in CHOOSING if arguments.choosing else REPORTED:
        found = list(cases(*ensemble(name, seed, simulations, arguments.cache), seed=1000 + seed))
        of_tasks.setdefault(name, []).extend(found)
        everything += found
        print(name, simulations, json.dumps(summary(found)), flush=True)
    results = {
        "machine": f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}",
        "all": summary(everything),
        "tasks": {name: summary(found) for name, found in of_tasks.items()},
        "cases": of_tasks,
    }
    print(json.dumps(results["all"], indent=1))
    if not arguments.choosing:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
