"""Ask pickled posteriors about simulations, and write what each says to a file that Drystone can stack.

Run it in the environment that made the pickles: it needs NumPy, torch and the library of the posteriors, no more.
Loading a pickle runs code, so take only files that you trust.

    python members_from_pickles.py simulations.npz members/ model_*/posterior.pkl
"""

import argparse
import pickle
from pathlib import Path

import numpy as np
import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("simulations", type=Path, help=".npz with theta (N, d) and x (N, ...)")
    parser.add_argument("out", type=Path, help="directory for one .npz per posterior")
    parser.add_argument("pickles", type=Path, nargs="+")
    parser.add_argument("--draws", type=int, default=200, help="per simulation (default 200)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with np.load(arguments.simulations) as simulations:
        theta, x = simulations["theta"], simulations["x"]
    arguments.out.mkdir(parents=True, exist_ok=True)
    for path in arguments.pickles:
        with path.open("rb") as file:
            posterior = pickle.load(file)
        # An ensemble is what stacking is for: its members one by one.
        members = getattr(posterior, "posteriors", [posterior])
        for k, member in enumerate(members):
            name = path.parent.name + "-" + path.stem + (f"-{k}" if len(members) > 1 else "")
            torch.manual_seed(arguments.seed)
            log_q, draws = asked(
                member, torch.as_tensor(theta).float(), torch.as_tensor(x).float(), arguments.draws
            )
            np.savez(arguments.out / f"{name}.npz", theta=theta, y=x, log_q=log_q, draws=draws)
            print(f"{name}: mean log density {log_q.mean():.3f}")


def asked(posterior, theta, x, draws):
    """Return log densities (N,) and draws (N, S, d) of a posterior, one simulation after another."""
    log_q, sample = [], []
    for n in range(len(theta)):
        sample.append(posterior.sample((draws,), x=x[n], show_progress_bars=False).numpy())
        log_q.append(float(posterior.log_prob(theta[n : n + 1], x=x[n])))
    return np.array(log_q), np.stack(sample)


if __name__ == "__main__":
    main()
