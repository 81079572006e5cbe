"""Every call that writes to a directory holds its lock, so that two processes never mix their files."""

import fcntl
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import drystone as ds
from drystone._files import in_use, locked, working_in
from drystone.runs import Run

THETA, Y = ds.toy.simulate(400, seed=1)
PRIOR = ds.tasks.Normal([0.0], [10**0.5])
SMALL: dict[str, Any] = {"members": 1, "epochs": 1, "workers": 1}
HOLDER = """
import pathlib, sys
from drystone._files import locked
with locked(pathlib.Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_by_another(directory):
    """Yield another process, which holds the lock of a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", HOLDER, directory]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as other:
        assert other.stdout.readline() == "locked\n"
        yield other
        other.communicate("")


class Normal:
    def log_prob(self, theta, y):
        return -0.5 * ((theta - y) ** 2).sum(1)


def simulator(theta, rng):
    return rng.normal(0.9 * theta, 0.9**0.5)


def test_a_second_process_is_told_who_works_in_the_directory_and_changes_nothing(tmp_path):
    home = tmp_path / "home"
    ensemble = ds.train(THETA, Y, **SMALL)
    posterior = ds.stack(ds.Table(THETA, Y, log_q=np.zeros((1, 400)), names=["a"])).posterior({"a": Normal()})
    calls = {
        "simulate": lambda: ds.simulate(simulator, PRIOR, 10, directory=home),
        "train": lambda: ds.train(THETA, Y, directory=home, **SMALL),
        "refit": lambda: ensemble.refit(THETA, Y, directory=home),
        "tabulate": lambda: ds.tabulate([Normal()], THETA, Y, draws=0, directory=home),
        "infer": lambda: ds.infer(THETA, Y, prior=PRIOR, directory=home, **SMALL),
        "refine": lambda: ds.refine(
            posterior, at=[1.0], simulator=simulator, n=100, simulations=(THETA, Y), prior=PRIOR, directory=home
        ),
    }
    with held_by_another(home) as other:
        for call in calls.values():
            with pytest.raises(ds.LockedError, match=rf"home is in use by process {other.pid} on .*; wait until"):
                call()
        assert [path.name for path in home.iterdir()] == [".lock"]
        assert in_use(home)
    assert not in_use(home)
    calls["tabulate"]()


def test_a_call_within_another_in_the_same_directory_does_not_wait_for_itself(tmp_path):
    with locked(tmp_path):
        with working_in(tmp_path), working_in(tmp_path / "members"):
            assert not (tmp_path / "members/.lock").exists()
        with working_in(tmp_path / "inference", own=True), working_in(tmp_path / "inference/stacking"):
            assert (tmp_path / "inference/.lock").read_text()
            assert not (tmp_path / "inference/stacking/.lock").exists()
        with pytest.raises(ds.LockedError), locked(tmp_path):
            pass


def test_a_directory_below_one_that_another_process_works_in_is_that_ones(tmp_path):
    below = tmp_path / "home" / "members"
    with held_by_another(tmp_path / "home") as other:
        with pytest.raises(ds.LockedError, match=rf"home is in use by process {other.pid}"):
            ds.train(THETA, Y, directory=below, **SMALL)
        with working_in(tmp_path / "home" / "inference", own=True):
            pass  # commands leave it alone
    with (
        held_by_another(below) as other,
        locked(tmp_path / "home"),
        pytest.raises(ds.LockedError, match=rf"members is in use by process {other.pid}"),
        working_in(below),
    ):
        pass


def test_asking_whether_a_directory_is_in_use_does_not_lock_others_out(tmp_path):
    with locked(tmp_path):
        pass
    with open(tmp_path / ".lock") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        threading.Timer(0.03, lambda: fcntl.flock(asking, fcntl.LOCK_UN)).start()
        with locked(tmp_path):
            pass


def test_a_command_leaves_alone_what_a_call_in_python_works_in(run):
    temporary = run.path / "inference/members/.nsf-000.json.0123456789abcdef0123456789abcdef.tmp"
    temporary.parent.mkdir(parents=True)
    temporary.write_text("half")
    with held_by_another(run.path / "inference"), Run(run.path).opened():
        assert temporary.exists()
    with Run(run.path).opened():
        assert not temporary.exists()


@pytest.mark.parametrize("within", ["", "below"])
def test_a_file_in_the_place_of_the_directory_is_named(tmp_path, within):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(NotADirectoryError, match=r"file.* must be a directory, or not exist"):
        ds.tabulate([Normal()], THETA, Y, draws=0, directory=file / within)
