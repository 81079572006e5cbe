"""Quality with default settings against sbi's default NPE on the same simulations, on eight problems.

    OMP_NUM_THREADS=1 python benchmarks/quality.py                       # everything, about an hour
    OMP_NUM_THREADS=1 python benchmarks/quality.py ricker g_and_k 21     # some problems, some seeds
    python benchmarks/quality.py --table                                 # the table of docs/training.md

What is done is read from ``benchmarks/results/quality.json``, and sbi's part, which does not change with Drystone,
from ``benchmarks/results/quality-sbi``; remove an entry to have it again.

3,000 simulations, of which either side holds out a tenth to stop its training. Mean log density at 1,000 fresh
simulations, differences paired by row. sbi is ``NPE`` as it comes, with ``"maf"`` and with ``"nsf"``: the better
one at the test rows counts, held to the box of the prior by the share of its draws inside. Drystone is eight of
``ds.train`` as it comes: the median member (the mean of the two in the middle), and their stack, whose weights are
fitted to the rows that stopped the training. Processor seconds of one thread, per member. The defaults were chosen
on four of the problems, ``CHOSEN_ON``, with other seeds. Needs sbi.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from problems import CHOSEN_ON, PROBLEMS

import drystone as ds

warnings.filterwarnings("ignore")
RESULTS = Path(__file__).parent / "results"
RESULT, SBI = RESULTS / "quality.json", RESULTS / "quality-sbi"
N, ROWS, SEEDS, MEMBERS, DRAWS = 3000, 1000, (20, 21, 22), 8, 200


def data(name, seed):
    """Return the simulations, the test simulations, and the box of the prior."""
    theta, y, box = PROBLEMS[name](N + ROWS, np.random.default_rng(seed))
    return (theta[:N], y[:N]), (theta[N:], y[N:]), box


def sbi(name, seed, density_estimator):
    """Return sbi's log density at the test rows and its processor seconds of training."""
    path = SBI / f"{name}-{seed}-{density_estimator}.npz"
    if path.exists():
        stored = np.load(path)
        return stored["log_q"], float(stored["seconds"])
    import torch
    from sbi.inference import NPE

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    (theta, y), test, (lower, upper) = data(name, seed)
    npe = NPE(density_estimator=density_estimator, show_progress_bars=False)
    npe.append_simulations(*(torch.from_numpy(a.astype(np.float32)) for a in (theta, y)))
    begin = time.process_time()
    estimator = npe.train()
    seconds = time.process_time() - begin
    log_q = np.empty(ROWS)
    with torch.no_grad():
        for start in range(0, ROWS, 100):
            rows = slice(start, start + 100)
            theta, y = (torch.from_numpy(a[rows].astype(np.float32)) for a in test)
            draws = estimator.sample((DRAWS,), y).numpy()
            inside = ((draws >= lower) & (draws <= upper)).all(-1).mean(0)
            log_q[rows] = estimator.log_prob(theta[None], y)[0].numpy() - np.log(np.maximum(inside, 1 / DRAWS))
    SBI.mkdir(parents=True, exist_ok=True)
    np.savez(path, log_q=log_q.astype(np.float32), seconds=seconds)
    return log_q, seconds


def ours(name, seed):
    """Return the log densities of the default members and of their stack at the test rows, and the seconds."""
    (theta, y), test, box = data(name, seed)
    held_out = theta[-N // 10 :], y[-N // 10 :]
    options = {"prior": box, "validation": held_out, "workers": 1, "progress": False}
    rows = theta[: -N // 10], y[: -N // 10]
    ds.train(*rows, members=1, epochs=1, **options).log_prob(*test)  # compiles
    begin = time.process_time()
    ensemble = ds.train(*rows, members=MEMBERS, seed=seed, **options)
    seconds = (time.process_time() - begin) / MEMBERS
    table = ds.Table(held_out[0], log_q=ensemble.log_prob(*held_out))
    log_q = ensemble.log_prob(*test)
    return log_q, ds.stack(table).apply(ds.Table(test[0], log_q=log_q)).log_q, seconds


def compare(name, seed):
    """Return the entry of one problem and seed."""
    of_sbi = {kind: sbi(name, seed, kind) for kind in ("maf", "nsf")}
    best = max(of_sbi, key=lambda kind: of_sbi[kind][0].mean())
    theirs, their_seconds = of_sbi[best]
    log_q, stacked, seconds = ours(name, seed)
    middle = log_q[np.argsort(log_q.mean(1))[MEMBERS // 2 - 1 : MEMBERS // 2 + 1]].mean(0)
    return {
        "judged": name not in CHOSEN_ON,
        "sbi": {kind: float(rows.mean()) for kind, (rows, _) in of_sbi.items()},
        "members": log_q.mean(1).tolist(),
        "stack": float(stacked.mean()),
        "median - sbi": paired(middle - theirs),
        "stack - sbi": paired(stacked - theirs),
        "stack - median": paired(stacked - middle),
        "seconds": {"sbi": their_seconds, "drystone": seconds},
    }


def paired(gain):
    """Return the mean of differences and its standard error."""
    return [float(gain.mean()), float(gain.std() / len(gain) ** 0.5)]


def summary(result):
    """Return the gains of each problem, means over its seeds, and the means over problems."""
    lines = {}
    for name in PROBLEMS:
        entries = [entry for key, entry in result.items() if key.split()[0] == name]
        if entries:
            gains = {kind: pooled([entry[kind] for entry in entries]) for kind in GAINS}
            lines[name] = gains | {"time": np.mean([ratio(entry) for entry in entries]), "seeds": len(entries)}
    for title, names in (
        ("mean, judged", [name for name in lines if name not in CHOSEN_ON]),
        ("mean, all", list(lines)),
    ):
        if names:
            gains = {kind: pooled([lines[name][kind] for name in names]) for kind in GAINS}
            lines[title] = gains | {"time": np.mean([lines[name]["time"] for name in names]), "seeds": 0}
    return lines


GAINS = ("median - sbi", "stack - sbi", "stack - median")


def pooled(gains):
    """Return the mean of independent gains and its standard error."""
    means, errors = np.transpose(gains)
    return means.mean(), (errors**2).sum() ** 0.5 / len(errors)


def ratio(entry):
    """Return the processor time of a default member as a share of sbi's."""
    return entry["seconds"]["drystone"] / entry["seconds"]["sbi"]


def show(result):
    """Print the table of the documentation."""
    print(
        "| problem | median member − sbi | stack of eight − sbi | stack − median member | time, share of sbi's |"
    )
    print("|---|---|---|---|---|")
    for name, line in summary(result).items():
        gains = " | ".join(f"{line[kind][0]:+.3f} ± {line[kind][1]:.3f}" for kind in GAINS)
        chosen = " (chosen on)" if name in CHOSEN_ON else ""
        print(f"| {name.replace('_', ' ')}{chosen} | {gains} | 1/{1 / line['time']:.0f} |")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    if "--table" not in arguments:
        names = [name for name in PROBLEMS if name in arguments] or list(PROBLEMS)
        for seed in [seed for seed in SEEDS if str(seed) in arguments] or SEEDS:
            for name in names:
                key = f"{name} {seed}"
                if key not in result:
                    result[key] = compare(name, seed)
                    RESULT.write_text(json.dumps(result, indent=1) + "\n")
                    print(key, {kind: np.round(result[key][kind], 3) for kind in GAINS}, flush=True)
    show(result)
