"""Whether refinement at an observation brings the posterior there nearer to the exact one.

    OMP_NUM_THREADS=1 python benchmarks/refine.py                       # SLCP, ten observations
    OMP_NUM_THREADS=1 python benchmarks/refine.py two_moons --observations 5

One ``ds.infer`` on 5,000 simulations; then, at each of ten further simulations, ``ds.refine`` with 2,000 more. The
distance is KL(exact ‖ posterior) at that observation, the mean of the difference of log densities over 1,000 exact
draws, before and after; the gain is paired over observations. Everything is stored in ``--directory``, and
continued. Writes ``benchmarks/results/refine-<task>.json``.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import drystone as ds

RESULTS = Path(__file__).parent / "results"
SIMULATIONS, FURTHER, DRAWS = 5_000, 2_000, 1_000


def distance(posterior, theta, log_exact, y):
    """Return KL(exact ‖ posterior) at y from exact draws θ."""
    return float(np.mean(log_exact - posterior.log_prob(theta, y)))


def measure(name, seed, observations, members, target, directory):
    """Measure one observation after the other; print and store as it goes."""
    task = ds.tasks.get(name)
    theta, y = (np.asarray(a, float) for a in ds.simulate(task, n=SIMULATIONS, seed=seed))
    inference = ds.infer(
        theta, y, prior=task.prior, members=members, target=target, seed=seed, directory=directory / "inference"
    )
    print(inference.fit.member_weights, flush=True)
    _, data = (np.asarray(a, float) for a in ds.simulate(task, n=observations, seed=seed + 1))
    rows = []
    for i, y_o in enumerate(data):
        path = directory / f"{i}.json"
        if not path.exists():
            exact = task.sample_posterior(y_o, DRAWS, np.random.default_rng([seed, i]))
            log_exact = task.log_posterior(exact, np.repeat(y_o[None], DRAWS, 0))
            refined = ds.refine(inference, at=y_o, simulator=task, n=FURTHER, seed=i, directory=directory / f"{i}")
            before, after = (
                distance(each, exact, log_exact, y_o) for each in (inference.posterior, refined.posterior)
            )
            row = {
                "KL before": before,
                "KL after": after,
                "local log score gained": refined.gain.value,
                "posterior SBC p before": refined.calibration_before.p_value,
                "posterior SBC p after": refined.calibration.p_value,
                "notes": refined.notes,
            }
            path.write_text(json.dumps(row, indent=1), encoding="utf-8")
        rows.append(json.loads(path.read_text(encoding="utf-8")))
        print(i, rows[-1], flush=True)
        write(name, seed, members, target, rows)


def write(name, seed, members, target, rows):
    """Write the result of the observations so far."""
    gain = np.array([row["KL before"] - row["KL after"] for row in rows])
    result = {
        "task": name,
        "seed": seed,
        "simulations": SIMULATIONS,
        "further simulations": FURTHER,
        "members of each kind": members,
        "target": target,
        "observations": len(rows),
        "KL before": float(np.mean([row["KL before"] for row in rows])),
        "KL after": float(np.mean([row["KL after"] for row in rows])),
        "gain": {
            "value": float(gain.mean()),
            "se": float(gain.std(ddof=min(1, len(gain) - 1)) / np.sqrt(len(gain))),
        },
        "better at": int((gain > 0).sum()),
        "each": [{key: value for key, value in row.items() if key != "notes"} for row in rows],
    }
    suffix = "" if target == "both" else f"-{target}"
    path = RESULTS / f"refine-{name}{suffix}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Refinement at observations, against exact posteriors.")
    parser.add_argument("task", nargs="?", default="slcp")
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--observations", type=int, default=10)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--target", default="both", choices=("both", "posterior", "likelihood"))
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    directory = options.directory or Path(f"refine-{options.task}-{options.target}")
    directory.mkdir(parents=True, exist_ok=True)
    measure(options.task, options.seed, options.observations, options.members, options.target, directory)
