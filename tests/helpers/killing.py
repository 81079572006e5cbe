"""A process that runs a tiny run again and again in children of its own, and kills them. See test_killed_runs.py.

Importing takes longer than the run, so the first run is done here and every other is a fork of this process (whose
one thread is Zarr's, which Zarr makes anew in a fork). Prints one JSON object: the files of the uninterrupted run,
those of each run that was killed and continued, and how far each had come when it was killed.
"""

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np

from drystone._files import digest
from helpers import tiny_run as tiny


def in_child(directory, seconds=None):
    """Run in a child, kill it after so many seconds; returns how long it took and how it ended."""
    begun = time.perf_counter()
    child = os.fork()
    if child == 0:
        try:
            tiny.make(directory)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return time.perf_counter() - begun, os.waitstatus_to_exitcode(status)


def killed(directory, seconds):
    """Kill a fresh run after so many seconds; sooner, if it has ended by then. Return how it ended."""
    while True:
        _, end = in_child(directory, seconds)
        if end != 0:
            return end
        shutil.rmtree(directory)  # the machine has become faster than it was when runs were timed
        seconds *= 0.6


def contents(directory):
    """Checksums of every file that a run must end with; not the logs, which hold times."""
    paths = sorted(p for p in directory.rglob("*") if p.is_file())
    names = {str(p.relative_to(directory)): p for p in paths}
    return {name: digest(p) for name, p in names.items() if not name.endswith((".jsonl", ".lock"))}


def main(home, kills):
    import torch

    torch.set_num_threads(1)
    first = home / "first"
    tiny.make(first)
    duration = min(in_child(home / f"timed-{i}")[0] for i in range(3))
    rng = np.random.default_rng(0)
    # One kill in each of so many equal parts of the time that a run takes, each in the course of a fresh run …
    times = (np.arange(kills) + rng.random(kills)) / kills * duration
    outcomes, ends, states = [], [], []
    for i, seconds in enumerate(times):
        directory = home / f"killed-{i}"
        ends.append(killed(directory, seconds))
        states.append(sorted(contents(directory)) if directory.exists() else [])
        if i % 4 == 0:  # … and now and then another in the course of its continuation
            ends.append(in_child(directory, rng.random() * duration)[1])
        _, code = in_child(directory)
        outcomes.append({"code": code, "files": contents(directory)})
    print(json.dumps({"expected": contents(first), "outcomes": outcomes, "ends": ends, "states": states}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
