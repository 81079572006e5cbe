"""Signals and closed streams: the work stops soon, with a sentence that says how to continue."""

import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest

import drystone.__main__
import drystone.cli.main
from drystone._parallel import begin_step, signals_watched, worker_pool
from drystone.cli.main import main


@pytest.fixture(autouse=True)
def interruptible():
    """Let Ctrl-C interrupt, also where the tests were started in the background, which ignores it."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


def interrupt():
    signal.raise_signal(signal.SIGINT)


def terminate():
    signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize(
    ("signalled", "code", "sentence"),
    [(interrupt, 130, "interrupted; the same command"), (terminate, 143, "terminated; the same command")],
)
def test_a_command_says_how_it_ended_and_how_to_continue(monkeypatch, capsys, signalled, code, sentence):
    handler = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(drystone.cli.main.CommandGroup, "get_command", lambda *_: signalled())
    assert main(["tasks"]) == code
    assert f"drystone: {sentence} continues." in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is handler


def test_an_interruption_while_the_command_is_imported_is_one(monkeypatch, capsys):
    monkeypatch.setattr(drystone.__main__, "require", lambda *_: interrupt())
    assert drystone.__main__.main() == 130
    assert "drystone: interrupted; the same command continues." in capsys.readouterr().err


def train_for_ever(started):
    started.append(True)
    while True:
        begin_step()
        time.sleep(0.01)


def test_threads_stop_at_their_next_step_after_an_interruption():
    started, futures = [], []

    def interrupted():
        with worker_pool(workers=2, kind="threads") as pool:
            futures.extend(pool.submit(train_for_ever, started) for _ in range(3))
            while len(started) < 2:
                time.sleep(0.01)
            interrupt()

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert all(future.done() for future in futures)


def test_an_interruption_that_other_code_swallows_is_raised_again():
    with signals_watched() as reraise:
        with suppress(KeyboardInterrupt):
            interrupt()
        with pytest.raises(KeyboardInterrupt):
            reraise()
    with signals_watched() as reraise:
        with suppress(KeyboardInterrupt):
            raise KeyboardInterrupt
        reraise()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_works_with_closed_streams(closed):
    if "2>&-" in closed and np.lib.NumpyVersion(np.__version__) < "2.1.0":
        pytest.skip("numpy.f2py, which SciPy imports, needs an open standard error before NumPy 2.1")
    command = f"exec {shlex.quote(sys.executable)} -m drystone tasks {closed}"
    run = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stderr) == (0, "")


MEMBER_THAT_PRINTS = """
import os, numpy as np, drystone as ds

class Prints:
    def log_prob(self, theta, y):
        os.write(2, b"x") and print("printed", flush=True)
        return np.full(len(theta), -1.0)

table = ds.tabulate([Prints()], np.zeros((9, 1)), np.zeros((9, 1)), draws=0, time_limit=60)
os._exit(int(table.log_q.sum() != -9))
"""


def test_what_members_print_to_closed_streams_does_not_get_among_their_results():
    command = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(MEMBER_THAT_PRINTS)} <&- >&-"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(command, shell=True, capture_output=True, env=environment, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
