"""Stacking tables larger than memory: `python benchmarks/scaling.py`.

Log densities of N simulations by K members are written to disk in blocks and stacked by the log score to a gap of
1e-8 without ever being in memory as a whole. Each measurement runs in a process of its own, which reports its own
peak memory. Times are given in passes: the time that reading everything once and computing loss and gradient
takes, measured in the same process, so that what else the machine does matters less: with one worker in processor
time, with several by the clock. Results go to
benchmarks/results/scaling.json, from which docs/scaling.md has its tables; data are deleted.

    python benchmarks/scaling.py            all of it (about 12 GB of disk at a time, half an hour)
    python benchmarks/scaling.py large      ten million rows only
    python benchmarks/scaling.py defaults   peak memory of `ds.stack(ds.Table.open(path))`, which may read all rows
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

import drystone as ds
from drystone.solvers.log_score import _derivatives
from drystone.table import blocks
from drystone.table.disk import BLOCK, Writer

RESULTS = Path(__file__).parent / "results" / "scaling.json"
# (N, K): as far as 8 GB go.
SIZES = [(10**n, K) for K, most in ((10, 7), (100, 6), (1000, 5)) for n in range(3, most + 1)]
LARGE = (10**7, 50)
# Just below the memory that `Table.open` allows by default, and well below.
DEFAULTS = [(10**7, 10), (10**6, 100), (2 * 10**6, 10)]


def write(path, N, K, block=BLOCK):
    """Gaussian members of a Gaussian posterior, each shifted, scaled and noisy in its own way."""
    shift, sd = np.random.default_rng(0).normal(size=(2, K, 1)) * [[[0.5]], [[0.4]]]
    sd = np.exp(sd)
    with Writer(path, N, [f"member_{k}" for k in range(K)], block=block) as new:
        step = 2**17
        for start in range(0, N, step):
            n = min(step, N - start)
            rng = np.random.default_rng([1, start])
            theta = rng.standard_normal(n)
            log_q = rng.standard_normal((K, n), dtype=np.float32).astype(float)
            log_q = -(((theta - shift - 0.5 * log_q) / sd) ** 2) / 2 - np.log(sd)
            new.write(start, theta=theta[:, None], log_q=log_q)


def peak():
    """The most memory this process has had, in MB (Linux).

    Not ``ru_maxrss``: a new process inherits that from the one that started it.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def timed(run):
    """Seconds by the clock, and of this process's processor time."""
    clock, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - clock, time.process_time() - processor


def measure(path, workers):
    """Stack the table at ``path``; what it took, as JSON. Runs in a process of its own."""
    begun, passes, kind = peak(), [], int(workers == 1)
    with ExitStack() as stack:
        client = None
        if workers > 1:
            import distributed

            cluster = distributed.LocalCluster(workers, threads_per_worker=1, dashboard_address=":0")
            client = stack.enter_context(distributed.Client(stack.enter_context(cluster)))
        # No memory: rows are worked through in blocks even if they would fit.
        table = blocks.prepare(ds.Table.open(path, memory=0), {"log_q"}, client)
        w = np.full(table.K, 1 / table.K)
        one = [timed(lambda: blocks.total(table, _derivatives, w, range(2), np.arange(0))) for _ in range(2)]
        each = blocks.each

        def counted(table, part, *arguments):
            passes.append((blocks.in_memory(table), part.__name__))
            return each(table, part, *arguments)

        blocks.each = counted
        fits = []
        whole = timed(lambda: fits.append(ds.stack(table, client=client)))
        blocks.each = each
        (fit,) = fits
        # Newton's step as the solver takes it: loss, gradient and the Hessian of those with weight, in one pass.
        support = np.flatnonzero(fit.weights)
        step = [timed(lambda: blocks.total(table, _derivatives, fit.weights, range(3), support)) for _ in range(2)]
        of_workers = [] if client is None else list(client.run(peak).values())
    found = {
        "N": table.N,
        "K": table.K,
        "workers": workers,
        "gap": fit.gap,
        "iterations": fit.iterations,
        "carry weight": int(np.count_nonzero(fit.weights)),
        "passes": len([name for in_memory, name in passes if not in_memory and name != "_statistics"]),
        "pass_seconds": min(t[kind] for t in one),
        "seconds": whole[0],
        "stack / pass": whole[kind] / min(t[kind] for t in one),
        "step / pass": min(t[kind] for t in step) / min(t[kind] for t in one),
        "time": ("by the clock", "of the processor")[kind],
        "table_MB": table.N * table.K * 8 / 2**20,
        "peak_MB": peak(),
        "imported_MB": begun,
        "load": os.getloadavg()[0],
    }
    if of_workers:
        found["worker_peak_MB"] = max(of_workers)
    print(json.dumps(found))


def measure_defaults(path):
    """Stack the table at ``path`` as users do, and print the peak memory, as JSON."""
    begun = peak()
    table = ds.Table.open(path)
    fit = ds.stack(table)
    found = {"N": table.N, "K": table.K, "gap": fit.gap, "table_MB": table.N * table.K * 8 / 2**20}
    print(json.dumps({**found, "imported_MB": begun, "peak_MB": peak()}))


def in_process(path, *how):
    """``measure`` with so many workers, or ``measure_defaults``, in a process of its own."""
    command = [sys.executable, __file__, "measure", str(path), *map(str, how)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    print(answer.strip(), flush=True)
    return json.loads(answer)


def main(which):
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    folder = Path(tempfile.mkdtemp(dir=os.environ.get("SCALING_DIRECTORY")))
    path = folder / "table.zarr"
    try:
        if which in ("all", "large"):
            write(path, *LARGE)
            stored["large"] = [in_process(path, workers) for workers in (1, 2)]
        if which in ("all", "sizes"):
            stored["sizes"] = []
            for N, K in SIZES:
                write(path, N, K)
                stored["sizes"] += [in_process(path, workers) for workers in (1, 2)]
        if which in ("all", "defaults"):
            stored["defaults"] = []
            for N, K in DEFAULTS:
                write(path, N, K)
                stored["defaults"].append(in_process(path, "defaults"))
        if which in ("all", "blocks"):
            stored["blocks"] = []
            for size in (2**22, 2**24, 2**26, 2**28):
                write(path, 10**6, 50, size)
                stored["blocks"].append({"block_MB": size / 2**20, **in_process(path, 1)})
    finally:
        shutil.rmtree(folder)
    stored["machine"] = {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "drystone": ds.__version__,
    }
    RESULTS.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure_defaults(sys.argv[2]) if sys.argv[3] == "defaults" else measure(sys.argv[2], int(sys.argv[3]))
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else "all")
