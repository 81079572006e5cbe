"""Products: what a share of the prior in each member, which takes away its veto, is worth.

    OMP_NUM_THREADS=1 python benchmarks/veto.py lotka_volterra 3000 77     # the run that the share was chosen on
    OMP_NUM_THREADS=1 python benchmarks/veto.py sir 2000 78                # judges it

Four posteriors and four likelihoods of one call of ``ds.infer``, on the rows that stopped their training: gain of
products with several shares over the mixture, cross-fitted in five folds, and the row that loses most. Writes
``benchmarks/results/veto.json``.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np

import drystone as ds
from drystone.estimate import split_folds

warnings.filterwarnings("ignore")
RESULT = Path(__file__).parent / "results" / "veto.json"
SHARES, FOLDS = (0.0, 1e-4, 1e-3, 1e-2), 5


def gains(name, n, seed):
    """Return the gain over the mixture by share of the prior."""
    task, rng = ds.tasks.get(name), np.random.default_rng(seed)
    theta = task.prior.sample(n + 1000, rng)
    y = np.asarray(task.simulate(theta, rng))
    settings = {"prior": task.prior, "members": 4, "seed": seed, "workers": 1, "progress": False}
    table = ds.infer(theta[:n], y[:n], **settings).table
    forms = {"mixture": ds.Mixture()} | {share: ds.Product(prior=task.prior, defensive=share) for share in SHARES}
    log_q = {key: np.empty(table.N) for key in forms}
    for fitted, left_out in split_folds(table.N, FOLDS, seed):
        for key, form in forms.items():
            fit = ds.stack(table.select(rows=fitted), form)
            log_q[key][left_out] = fit.apply(table.select(rows=left_out)).log_q
    gain = {share: log_q[share] - log_q["mixture"] for share in SHARES}
    return {
        f"{share:g}": {"gain": float(g.mean()), "se": float(g.std() / len(g) ** 0.5), "worst row": float(g.min())}
        for share, g in gain.items()
    }


if __name__ == "__main__":
    name, n, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    result[f"{name} {n} {seed}"] = gains(name, n, seed)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(result[f"{name} {n} {seed}"])
