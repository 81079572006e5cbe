"""How long the command line takes to answer, from typing to prompt: `--help`, and `stack` of K = 100, N = 1000.

Each command is run as a new process, ``REPEATS`` times. The least time is reported, by the clock and by the
processor (user and system): on a machine that does other things too, the second is the one to look at. As a
yardstick ``python -c "import torch"`` is timed in the same run: `stack` cannot be faster than that.

Run ``python benchmarks/cli.py``; writes ``benchmarks/results/cli.json``.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import drystone as ds

REPEATS = 7
RESULTS = Path(__file__).parent / "results" / "cli.json"
LIMITS = {"help": 0.5, "stack": 3.0}


def timed(*command):
    """Least seconds of the clock, and of the processor, that a command took."""
    clock, processor = [], []
    for _ in range(REPEATS):
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
        clock.append(time.perf_counter() - begun)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return {"clock": round(min(clock), 3), "processor": round(min(processor), 3)}


def main():
    drystone = (sys.executable, "-m", "drystone")
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "table.zarr")
        ds.Table(rng.normal(size=(1000, 2)), log_q=rng.normal(size=(100, 1000))).save(path)
        results = {
            "help": timed(*drystone, "--help"),
            "stack": timed(*drystone, "stack", str(path)),
            "import torch": timed(sys.executable, "-c", "import torch"),
        }
    for name, seconds in results.items():
        limit = f" (limit {LIMITS[name]} s)" if name in LIMITS else ""
        print(f"{name:<16}{seconds['clock']:8.2f} s by the clock{seconds['processor']:8.2f} s of processor{limit}")
    ratio = results["stack"]["processor"] / results["import torch"]["processor"]
    print(f"stack / import torch, processor: {ratio:.2f}")
    RESULTS.write_text(json.dumps({"seconds": results, "limits": LIMITS, "repeats": REPEATS}, indent=1) + "\n")


if __name__ == "__main__":
    main()
