"""How much of the Jensen–Shannon divergence the critic sees: `OMP_NUM_THREADS=1 python benchmarks/critic.py`.

One member N(y + shift, sd²) where the posterior is N(y, 1), as of the toy: the mean estimate of 20 repetitions,
N = 1,000 rows and S = 100 draws each, the mean of its ±, and the divergence by quadrature. Results are added to
benchmarks/results/critic.json one by one, so the command continues where it stopped; five minutes for all.
"""

import json
import platform
from pathlib import Path

import numpy as np
import torch
from scipy.stats import norm

import drystone as ds

RESULTS = Path(__file__).parent / "results" / "critic.json"
REPETITIONS, ROWS, DRAWS = 20, 1000, 100
MEMBERS = {"wide": (0.0, 1.3), "shifted": (0.25, 1.0), "exact": (0.0, 1.0)}


def quadrature(shift, sd):
    """Return the divergence between N(0, 1) and N(shift, sd²)."""
    t = np.linspace(-14, 14, 8001)
    p, q = norm.pdf(t), norm.pdf(t, shift, sd)
    return np.trapezoid(p * np.log(2 * p / (p + q)) + q * np.log(2 * q / (p + q)), t) / 2


def estimate(shift, sd, seed):
    """Return the critic's estimate in one repetition."""
    theta, y = ds.toy.simulate(ROWS, seed)
    noise = np.random.default_rng([seed, 1]).normal(size=(ROWS, DRAWS, 1))
    table = ds.Table(theta, y, draws=(y[:, None] + shift + sd * noise)[None])
    return ds.JensenShannon().estimate(ds.Stacking.uniform(table).view(table))


def main():
    """Estimate what has not been estimated yet, and print all."""
    document = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"members": {}}
    document["machine"] = f"{platform.machine()}, Python {platform.python_version()}"
    for name, (shift, sd) in MEMBERS.items():
        if name not in document["members"]:
            estimates = [estimate(shift, sd, seed) for seed in range(REPETITIONS)]
            values = np.array([e.value for e in estimates])
            document["members"][name] = {
                "quadrature": float(quadrature(shift, sd)),
                "mean estimate": float(values.mean()),
                "its standard error": float(values.std(ddof=1) / np.sqrt(REPETITIONS)),
                "mean ±": float(np.mean([e.se for e in estimates])),
            }
            RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
