"""Speed of the tasks: simulations, exact posteriors, mini-SimBIG, and the store of simulations.

    OMP_NUM_THREADS=1 python benchmarks/tasks.py

Times are minima over repetitions; ratios compare two ways of doing the same thing within this run. Takes about two
minutes on one core and writes ``benchmarks/results/tasks.json``.
"""

import json
import multiprocessing
import platform
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

import drystone as ds
from drystone.tasks.numerics.importance import effective_size
from experiments.minisimbig import MiniSimBIG

SBIBM = ("two_moons", "slcp", "sir", "gaussian_mixture", "lotka_volterra")
SIMULATIONS = 10_000
POSTERIORS = {"two_moons": 10_000, "gaussian_mixture": 10_000, "slcp": 100, "sir": 20, "lotka_volterra": 10}


def seconds(function, repetitions):
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def simulations():
    """Ten thousand simulations at once, against one call for each."""
    rows = {}
    for name in SBIBM:
        task, rng = ds.tasks.get(name), np.random.default_rng(0)
        theta = task.prior.sample(SIMULATIONS, rng)
        together = seconds(lambda task=task, theta=theta, rng=rng: task.simulate(theta, rng), 5)

        def singly(task=task, theta=theta, rng=rng):
            for row in theta[:20]:
                task.simulate(row[None], rng)

        rows[name] = {
            "seconds_for_10000": together,
            "speedup_over_one_by_one": seconds(singly, 2) * 500 / together,
        }
    return rows


def posteriors():
    """Time of one exact log posterior density, and the effective size of importance sampling where it is used."""
    rows = {}
    for name, n in POSTERIORS.items():
        task, rng = ds.tasks.get(name), np.random.default_rng(2)
        theta = task.prior.sample(n, rng)
        y = task.simulate(theta, rng)
        task.log_posterior(theta[:1], y[:1])  # builds what is kept between calls
        rows[name] = {"seconds_for_a_data_set": seconds(lambda t=task, a=theta, b=y: t.log_posterior(a, b), 1) / n}
        if isinstance(task, ds.tasks.LotkaVolterra | ds.tasks.SIR):
            sizes = [effective_size(task.importance_sample(row).log_weights) for row in y]
            rows[name]["smallest_effective_size"] = min(sizes)
    return rows


def minisimbig(count=30):
    """Seconds for one simulation at prior draws, by the clock and of the processor, and the peak memory."""
    task, rng = MiniSimBIG(), np.random.default_rng(3)
    theta = task.prior.sample(count, rng)
    setup = seconds(lambda: task.simulate(theta[:1], rng), 1)
    times = [seconds(lambda row=row: task.simulate(row[None], rng), 1) for row in theta]
    start = time.process_time()
    task.simulate(theta, rng)
    processor = (time.process_time() - start) / count
    small = MiniSimBIG(n=32)
    small.simulate(theta[:1], rng)
    return {
        "summaries": task.y_dim,
        "processor_seconds_mean": processor,
        "seconds_mean": float(np.mean(times)),
        "seconds_min": min(times),
        "seconds_max": max(times),
        "first_call_seconds": setup,
        "small_over_full": seconds(lambda: small.simulate(theta, rng), 2) / count / float(np.mean(times)),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def store():
    """What the store and the processes cost: SLCP in memory, on disk; mini-SimBIG with one worker and with two."""
    task = ds.tasks.get("slcp")
    memory = seconds(lambda: ds.simulate(task, n=100_000), 2)
    with tempfile.TemporaryDirectory() as folder:
        disk = seconds(lambda: ds.simulate(task, n=100_000, directory=Path(folder) / str(time.time_ns())), 2)
        read = seconds(lambda: ds.Simulations.load(next(Path(folder).iterdir())), 2)
    small = MiniSimBIG(n=32)
    one, two = (seconds(lambda w=workers: ds.simulate(small, n=256, workers=w), 1) for workers in (1, 2))
    return {
        "slcp_100000_in_memory_seconds": memory,
        "disk_over_memory": disk / memory,
        "read_over_simulate": read / memory,
        "two_workers_over_one": two / one,
    }


def alone(function):
    """Run a benchmark in a fresh process, so that its peak memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function)


if __name__ == "__main__":
    results = {
        "machine": f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}",
        "simulations": simulations(),
        "posteriors": posteriors(),
        "minisimbig": alone(minisimbig),
        "store": store(),
    }
    text = json.dumps(results, indent=2)
    print(text)
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    (folder / "tasks.json").write_text(text + "\n")
