"""What it costs to stop and to stack on the same rows, and what training again on all rows is worth.

    OMP_NUM_THREADS=1 python benchmarks/refit.py            # all tasks and seeds; finished ones are kept

Eight members are trained on 5,000 simulations and stopped by 500 others, which also fit the weights. Beside them:

- optimism: the mean log density of the stack on these 500 rows, each by weights fitted to the other folds, less
  that on fresh test rows. Positive: the rows look better than fresh ones because they stopped the training.
- fresh weights: what the same members gain on the test rows if 500 fresh rows fit the weights instead.
- refit: what the stack gains on the test rows when its members are trained again on all 5,500 rows, weights kept.

"averaged" members have averaged parameters and drops of the learning rate, as those of the defaults; "plain" ones
have neither. All in nats, with standard errors; gains are paired. Writes ``benchmarks/results/refit.json``.
"""

import json
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import logsumexp

import drystone as ds
from drystone.estimate import split_folds

RESULT = Path(__file__).parent / "results" / "refit.json"
TASKS, SEEDS, MEMBERS = ("slcp", "two_moons", "gaussian_mixture"), (0, 1), 8
SETTINGS = {
    "averaged": {"sweep": ds.Sweep(ema_decay=0.8, activation="tanh"), "lr_drops": 3},
    "plain": {"sweep": ds.Sweep(), "lr_drops": 0},
}
TRAIN, STOP, FRESH, TEST = 5_000, 500, 500, 2_000


def stacked(ensemble, rows, at):
    """Return the weights fitted to some rows, and the log density of the stack at others."""
    fit = ds.stack(ds.Table(rows[0], log_q=ensemble.log_prob(*rows), names=ensemble.names))
    return fit, np.asarray(logsumexp(ensemble.log_prob(*at), axis=0, b=fit.weights[:, None]))


def estimate(values):
    return {"value": float(values.mean()), "se": float(values.std(ddof=1) / np.sqrt(len(values)))}


def measure(name, seed, settings):
    task = ds.tasks.get(name)
    rows = [ds.simulate(task, n=n, seed=100 * seed + i) for i, n in enumerate((TRAIN, STOP, FRESH, TEST))]
    train, stop, fresh, test = ((np.asarray(theta, float), np.asarray(y, float)) for theta, y in rows)
    ensemble = ds.train(*train, members=MEMBERS, prior=task.prior, seed=seed, validation=stop, **settings)
    fit, at_test = stacked(ensemble, stop, test)
    crossed = np.empty(STOP)
    for fitted, left_out in split_folds(STOP, 5, seed):
        part = tuple(array[fitted] for array in stop)
        crossed[left_out] = stacked(ensemble, part, tuple(array[left_out] for array in stop))[1]
    _, by_fresh = stacked(ensemble, fresh, test)
    everything = [np.concatenate(pair) for pair in zip(train, stop, strict=True)]
    refitted = ensemble.refit(*everything, members=list(fit.member_weights))
    weights = np.array(list(fit.member_weights.values()))[:, None]
    after = np.asarray(logsumexp(refitted.log_prob(*test), axis=0, b=weights))
    error = np.hypot(crossed.std(ddof=1) / np.sqrt(STOP), at_test.std(ddof=1) / np.sqrt(TEST))
    return {
        "optimism": {"value": float(crossed.mean() - at_test.mean()), "se": float(error)},
        "fresh weights": estimate(by_fresh - at_test),
        "refit": estimate(after - at_test),
    }


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    results = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for name, seed, setting in product(TASKS, SEEDS, SETTINGS):
        key = f"{name}, seed {seed}, {setting}"
        if key not in results:
            results[key] = measure(name, seed, SETTINGS[setting])
            RESULT.write_text(json.dumps(results, indent=1) + "\n")
        print(key, results[key], flush=True)
