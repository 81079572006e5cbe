"""Gaps between stacks of neural likelihoods and the exact posterior, beside those of stacked posteriors.

    OMP_NUM_THREADS=1 python benchmarks/likelihood.py slcp               # or another task, or several
    OMP_NUM_THREADS=1 python benchmarks/likelihood.py slcp --seed 7000   # other simulations
    OMP_NUM_THREADS=1 python benchmarks/likelihood.py slcp --distill 2   # and distilled posteriors in the stack
    OMP_NUM_THREADS=1 python benchmarks/likelihood.py slcp --refit       # and members trained again on all rows

10,000 simulations train 8 posteriors and 16 likelihoods (``target="likelihood"``, with its default sweep); 1,000
others stack them. The stacked posteriors are the proposal with which ``ds.normalize`` makes posteriors of the
likelihoods; these and the posteriors are stacked by log score. The gap is the mean of exact − stacked log density
on test rows, with its paired standard error. Processor time is of all threads, without the exact densities.
Rows where the task warns that its own exact density is not reliable are left out.
``ds.distill`` draws 40,000 pairs from the stacked likelihoods and trains on them and on the 10,000 simulations.
``refit`` trains the members with weight on all 11,000 simulations, and keeps the weights.

All results are stored in ``--directory`` and continued. Writes ``benchmarks/results/likelihood-<task>.json``.
"""

import argparse
import json
import threading
import time
import warnings
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from experiments.truth import exact_log_posterior
from scipy.special import logsumexp

import drystone as ds

RESULTS = Path(__file__).parent / "results"
# Fewer where one exact density takes seconds.
TEST_ROWS = {"slcp": 1000, "two_moons": 1000, "gaussian_mixture": 1000, "sir": 500, "lotka_volterra": 250}
TRAIN, STACK = 10_000, 1_000
POSTERIORS = 8
EMULATED = 40_000
# Rows at a time: what a killed process loses.
BLOCK = 50


class Clock:
    """Processor seconds by stage in a file, added up over calls; a killed call has them up to its last seconds."""

    def __init__(self, path):
        self.path = path

    @property
    def seconds(self):
        """Seconds of each stage."""
        return json.loads(self.path.read_text()) if self.path.exists() else {}

    @contextmanager
    def stage(self, name):
        """Add the time of this context to a stage."""
        before, begin, done = self.seconds.get(name, 0.0), time.process_time(), threading.Event()

        def note():
            content = json.dumps({**self.seconds, name: before + time.process_time() - begin})
            temporary = self.path.with_suffix(".new")
            temporary.write_text(content)
            temporary.replace(self.path)

        def watch():
            while not done.wait(5):
                note()

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        try:
            yield
        finally:
            done.set()
            watching.join()
            note()


def simulated(task, n, seed):
    theta, y = ds.simulate(task, n=n, seed=seed, workers=1)
    return np.asarray(theta, float), np.asarray(y, float)


def by_blocks(path, function, theta, y, clock):
    """Return function(theta, y), (K, N), computed and stored block by block of rows."""
    parts = []
    for start in range(0, len(theta), BLOCK):
        file = Path(f"{path}-{start:05d}.npy")
        if not file.exists():
            with clock.stage(path.name.partition("-")[0]):
                values = function(theta[start : start + BLOCK], y[start : start + BLOCK])
            np.save(file, values)
        parts.append(np.load(file))
    return np.concatenate(parts, axis=-1)


def run(name, seed, directory, workers, members, distilled, refit):
    task = ds.tasks.get(name)
    directory.mkdir(parents=True, exist_ok=True)
    clock = Clock(directory / "seconds.json")
    train, stack, test = (simulated(task, n, seed + i) for i, n in enumerate((TRAIN, STACK, TEST_ROWS[name])))
    options = {"prior": task.prior, "log_y": name == "lotka_volterra", "seed": seed, "workers": workers}

    sweep = ds.Sweep(ema_decay=0.8)
    with clock.stage("train posteriors"):
        posteriors = ds.train(
            *train, members=POSTERIORS, sweep=sweep, lr_drops=3, directory=directory / "posteriors", **options
        )
    with clock.stage("train likelihoods"):
        likelihoods = ds.train(
            *train, target="likelihood", members=members, directory=directory / "likelihoods", **options
        )
    print(
        likelihoods.frame[
            ["transforms", "units", "layers", "batch_size", "learning_rate", "validation_loss", "seconds"]
        ]
    )

    of_posteriors = ds.stack(ds.Table(stack[0], log_q=posteriors.log_prob(*stack), names=posteriors.names))
    proposal = of_posteriors.posterior(posteriors)
    posteriors_of_likelihoods = ds.normalize(likelihoods, prior=task.prior, proposal=proposal)

    def normalized(theta, y):
        return np.stack([member.log_prob(theta, y) for member in posteriors_of_likelihoods.values()])

    def log_q(part, theta, y):
        return np.concatenate(
            [
                posteriors.log_prob(theta, y),
                by_blocks(directory / f"normalize-{members}-{part}", normalized, theta, y, clock),
            ]
        )

    names = (*posteriors.names, *likelihoods.names)
    stacking, testing = ds.Table(stack[0], log_q=log_q("stack", *stack), names=names), log_q("test", *test)
    exact = by_blocks(directory / "exact", partial(exact_log_posterior, task), *test, clock)
    known = np.isfinite(exact)

    def gap(log_density):
        difference = (exact - log_density)[known]
        return {"gap": difference.mean(), "se": difference.std(ddof=1) / np.sqrt(len(difference))}

    def stacked(first, last):
        fit = ds.stack(stacking.select(members=list(names[first:last])))
        return fit, gap(logsumexp(testing[first:last], axis=0, b=fit.weights[:, None]))

    K, best = len(posteriors), int(stacking.log_q.mean(1).argmax())
    everything_fit, everything = stacked(0, len(names))
    result = {
        "task": name,
        "seed": seed,
        "simulations": {"train": TRAIN, "stack": STACK, "test": int(known.sum())},
        "members": {"posteriors": K, "likelihoods": len(likelihoods)},
        "best member": {"name": names[best], **gap(testing[best])},
        "stacked posteriors": stacked(0, K)[1],
        "stacked likelihoods": stacked(K, len(names))[1],
        "stacked": everything,
        "weight of posteriors": float(everything_fit.weights[:K].sum()),
        "weights": {n: round(float(w), 4) for n, w in zip(names, everything_fit.weights, strict=True) if w > 1e-4},
    }
    before = np.asarray(logsumexp(testing, axis=0, b=everything_fit.weights[:, None]))

    def gain(log_density):
        difference = (log_density - before)[known]
        return {"gain": difference.mean(), "its se": difference.std(ddof=1) / np.sqrt(len(difference))}

    if refit:
        of_all = [np.concatenate(parts) for parts in zip(train, stack, strict=True)]
        carrying = [n for n, w in zip(names, everything_fit.weights, strict=True) if w > 1e-4]

        def again(ensemble, folder):
            kept = [n for n in ensemble.names if n in carrying]
            return ensemble.refit(*of_all, members=kept, directory=directory / folder, workers=workers)

        with clock.stage("refit"):
            refitted = [again(posteriors, "posteriors-again"), again(likelihoods, "likelihoods-again")]
        normalized_again = ds.normalize(refitted[1], prior=task.prior, proposal=proposal) if refitted[1] else {}

        def log_q_again(theta, y):
            return np.stack([member.log_prob(theta, y) for member in (*refitted[0], *normalized_again.values())])

        on_test = by_blocks(directory / f"refit-{members}-test", log_q_again, *test, clock)
        weights = np.array([w for w in everything_fit.weights if w > 1e-4])
        log_density = logsumexp(on_test, axis=0, b=(weights / weights.sum())[:, None])
        result["refitted"] = {**gap(log_density), **gain(log_density)}
    if distilled:
        weights = stacked(K, len(names))[0].weights
        with clock.stage("distill"):
            amortized = ds.distill(
                likelihoods,
                weights=weights,
                n=EMULATED,
                theta=train[0],
                y=train[1],
                members=distilled,
                directory=directory / "distilled",
                **options,
            )
        on_stack, on_test = amortized.log_prob(*stack), amortized.log_prob(*test)

        def with_distilled(first):
            log_q = np.concatenate([stacking.log_q[first:], on_stack])
            fit = ds.stack(ds.Table(stack[0], log_q=log_q))
            log_density = logsumexp(np.concatenate([testing[first:], on_test]), axis=0, b=fit.weights[:, None])
            weight = float(fit.weights[-distilled:].sum())
            return {**gap(log_density), **gain(log_density), "weight of distilled": weight}

        result["distilled"] = {
            "members": [gap(log_density) for log_density in on_test],
            "alone": with_distilled(len(names)),
            "with all others": with_distilled(0),
        }
    result["processor minutes"] = {stage: round(s / 60, 2) for stage, s in clock.seconds.items()}
    of_method = [s for stage, s in clock.seconds.items() if stage not in ("exact", "distill", "refit")]
    result["processor minutes"]["total without exact"] = round(sum(of_method) / 60, 2)
    print(json.dumps(result, indent=1))
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+", choices=TEST_ROWS)
    parser.add_argument("--seed", type=int, default=8000, help="of the simulations and of everything else")
    parser.add_argument("--likelihoods", type=int, default=16, help="number of likelihoods")
    parser.add_argument("--distill", type=int, default=0, help="number of distilled posteriors")
    parser.add_argument("--refit", action="store_true", help="train members with weight again on all rows")
    parser.add_argument("--directory", type=Path, default=Path("likelihood-benchmark"))
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=ds.ConvergenceWarning)
    for task in arguments.tasks:
        directory = arguments.directory / f"{task}-{arguments.seed}"
        result = run(
            task,
            arguments.seed,
            directory,
            arguments.workers,
            arguments.likelihoods,
            arguments.distill,
            arguments.refit,
        )
        (arguments.results / f"likelihood-{task}.json").write_text(json.dumps(result, indent=1) + "\n")
