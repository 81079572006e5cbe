"""What symmetries and fresh noise are worth: ``ds.train(augment=…)`` and ``ds.adapters.averaged``.

    OMP_NUM_THREADS=1 python benchmarks/augment.py            # some minutes

SLCP, whose four points may change places, and a decaying signal of which the noise can be drawn again: three
posteriors on the same 3,000 simulations with and without, mean log density at 2,000 fresh simulations, differences
paired by row and averaged over the members; and the members of SLCP averaged over the 24 permutations. Writes
``benchmarks/results/augment.json``.
"""

import itertools
import json
import warnings
from pathlib import Path

import numpy as np
from problems import PROBLEMS

import drystone as ds

warnings.filterwarnings("ignore")
RESULT = Path(__file__).parent / "results" / "augment.json"
N, ROWS, SEED, MEMBERS, SIGMA = 3000, 2000, 30, 3, 0.3


def permuted(theta, y, rng):
    """Put the four points of each row in another order."""
    points = rng.permuted(np.tile(np.arange(4), (len(y), 1)), axis=1)
    return theta, np.take_along_axis(y.reshape(-1, 4, 2), points[:, :, None], axis=1).reshape(y.shape)


def decay(theta):
    """Return the signal without noise, (n, 10)."""
    return theta[:, :1] * np.exp(-theta[:, 1:] * np.linspace(0, 3, 10))


def noisy(theta, y, rng):
    """Draw the noise of each row again."""
    return theta, decay(theta) + SIGMA * rng.standard_normal(y.shape)


def decaying(n, rng):
    """An amplitude and a rate, seen through noise at ten times."""
    lower, upper = np.array([0.5, 0.1]), np.array([3.0, 3.0])
    theta = rng.uniform(lower, upper, (n, 2))
    return theta, decay(theta) + SIGMA * rng.standard_normal((n, 10)), (lower, upper)


def gain(after, before):
    """Return the paired difference of log densities (K, N), averaged over members, with its standard error."""
    difference = (after - before).mean(0)
    return {"gain": difference.mean(), "se": difference.std() / len(difference) ** 0.5}


def main():
    """Measure both problems."""
    result = {}
    for name, problem, augment in (("slcp", PROBLEMS["slcp"], permuted), ("decay", decaying, noisy)):
        theta, y, box = problem(N + ROWS, np.random.default_rng(SEED))
        test = theta[N:], y[N:]
        plain, augmented = (
            ds.train(
                theta[:N],
                y[:N],
                members=MEMBERS,
                prior=box,
                augment=function,
                seed=SEED,
                workers=1,
                progress=False,
            )
            for function in (None, augment)
        )
        result[name] = gain(augmented.log_prob(*test), plain.log_prob(*test))
        if name == "slcp":
            maps = [
                (lambda t: t, lambda y, order=order: y.reshape(-1, 4, 2)[:, order].reshape(y.shape))
                for order in map(list, itertools.permutations(range(4)))
            ]
            for label, ensemble in (("averaged", plain), ("augmented, averaged", augmented)):
                after = np.stack([ds.adapters.averaged(member, maps).log_prob(*test) for member in ensemble])
                result[f"slcp, {label}"] = gain(after, ensemble.log_prob(*test))
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
        print(json.dumps(result, indent=1), flush=True)


if __name__ == "__main__":
    main()
