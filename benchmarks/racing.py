"""Racing: would a stack gain if members that look lost after a third of their epochs were dropped for others?

    OMP_NUM_THREADS=1 python benchmarks/racing.py            # eight problems, about a quarter of an hour

Sixteen default members on 3,000 simulations, of which a tenth stops the training and fits the weights. A race
keeps the half with the lower validation loss after a third of each member's epochs; the other half has cost that
third. Against it stand as many of the first members, trained to the end, as the same work allows, to the nearest
number. Work is epochs times the relative time of an epoch, ``Configuration.cost``. Gain of the race in log density
of 2,000 fresh simulations, paired by row. Writes ``benchmarks/results/racing.json``.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
from problems import PROBLEMS

import drystone as ds

warnings.filterwarnings("ignore")
RESULT = Path(__file__).parent / "results" / "racing.json"
N, ROWS, SEED, MEMBERS = 3000, 2000, 40, 16


def race(name):
    """Return the gain of the race on one problem."""
    theta, y, box = PROBLEMS[name](N + ROWS, np.random.default_rng(SEED))
    first, held_out, test = slice(0, -N // 10 - ROWS), slice(-N // 10 - ROWS, -ROWS), slice(-ROWS, None)
    ensemble = ds.train(
        theta[first], y[first], members=MEMBERS, prior=box, seed=SEED, workers=1, progress=False,
        validation=(theta[held_out], y[held_out]),
    )  # fmt: skip
    fitted, judged = (ensemble.log_prob(theta[rows], y[rows], workers=1) for rows in (held_out, test))

    def stacked(members):
        fit = ds.stack(ds.Table(theta[held_out], log_q=fitted[members]))
        return fit.apply(ds.Table(theta[test], log_q=judged[members])).log_q

    early = [min(h.validation[: -(-len(h.validation) // 3)]) for h in (member.history for member in ensemble)]
    survivors = np.sort(np.argsort(early)[: MEMBERS // 2])
    work = np.array([member.configuration.cost * len(member.history.losses) for member in ensemble])
    of_race = work[survivors].sum() + np.delete(work, survivors).sum() / 3
    plain = np.arange(int(np.abs(np.cumsum(work) - of_race).argmin()) + 1)
    ranks = [np.argsort(np.argsort(values)) for values in (early, -fitted.mean(1))]
    gain = stacked(survivors) - stacked(plain)
    return {
        "gain": float(gain.mean()),
        "se": float(gain.std() / ROWS**0.5),
        "members at equal cost": len(plain),
        "rank correlation": float(np.corrcoef(*ranks)[0, 1]),
    }


if __name__ == "__main__":
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for name in [name for name in PROBLEMS if name in sys.argv[1:]] or PROBLEMS:
        if name not in result:
            result[name] = race(name)
            RESULT.write_text(json.dumps(result, indent=1) + "\n")
            print(name, result[name], flush=True)
