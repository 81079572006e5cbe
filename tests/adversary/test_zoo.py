"""Members that hang, die or spoil what they share: they are left out by name, no other is changed or delayed."""

import ctypes
import os
import random
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import drystone as ds
from adversary.zoo import (
    DYING,
    HANGING,
    HARMLESS,
    LIMIT,
    RAISING,
    TOO_SLOW,
    Bad,
    Global,
    Good,
    close_descriptors,
    hang,
    hang_with_lock,
)

RNG = np.random.default_rng(3)
THETA = RNG.normal(size=(120, 2))
Y = THETA + 0.3
GOOD = {"first": Good(0.1), "global": Global(), "last": Good(-0.2)}
# Seconds that a new process may take to import torch on a busy machine, and the members of a table their turns.
PATIENCE = 60


@pytest.fixture(scope="module")
def alone():
    """The good members by themselves, in this process."""
    return ds.tabulate(GOOD, THETA, Y, draws=20, keep_draws=True)


def check_zoo(zoo, alone, **options):
    """Tabulate a good member, each of the zoo with a good one after it, and compare bits and reasons."""
    members = {"first": GOOD["first"], **{name: Bad(name) for name in zoo}}
    members |= {"global": GOOD["global"], "last": GOOD["last"]}
    theta, y = THETA.copy(), Y.copy()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = ds.tabulate(members, theta, y, draws=20, keep_draws=True, **options)
    expected = {name: reason for name, (_, reason) in zoo.items() if reason}
    assert table.left_out.keys() == expected.keys()
    for name, reason in expected.items():
        assert table.left_out[name].startswith(reason), name
    for statistic in ("log_q", "rank", "mean", "cov", "draws"):
        np.testing.assert_array_equal(
            getattr(table.select(list(GOOD)), statistic), getattr(alone, statistic), err_msg=statistic
        )
    for name in zoo.keys() - expected.keys():
        np.testing.assert_array_equal(table.select([name]).log_q[0], Good().log_prob(THETA, Y))
    np.testing.assert_array_equal(theta, THETA)
    np.testing.assert_array_equal(y, Y)
    assert [str(w.message)[:30] for w in caught if "members are left out" not in str(w.message)] == []


def test_members_that_raise_or_spoil_what_is_shared_change_nothing_else_in_this_process(alone, tmp_path, capfd):
    for seed in (np.random.seed, random.seed, torch.manual_seed):
        seed(7)
    before = numpy_state(), random.getstate(), torch.random.get_rng_state()
    settings = os.getcwd(), np.geterr(), torch.get_default_dtype(), torch.get_num_threads()
    check_zoo(RAISING | HARMLESS, alone)
    np.testing.assert_array_equal(numpy_state(), before[0])
    assert random.getstate() == before[1]
    assert torch.equal(torch.random.get_rng_state(), before[2])
    assert (os.getcwd(), np.geterr(), torch.get_default_dtype(), torch.get_num_threads()) == settings
    assert torch.is_grad_enabled()


class Likelihood:
    """N(θ + shift, 1), or something else in the place of its values."""

    def __init__(self, shift=0.0, spoilt=None):
        self.shift, self.spoilt = shift, spoilt

    def log_likelihood(self, theta, y):
        values = -0.5 * ((y - theta - self.shift) ** 2).sum(1)
        return values if self.spoilt is None else self.spoilt(values, theta, y)


def leave(values, theta, y):
    raise SystemExit(3)


def change_arguments(values, theta, y):
    theta -= 5
    y += 3
    return values


def nan_at_some(values, theta, y):
    return np.where(theta[:, 0] > 0.5, np.nan, values)


def nan_at_one_row(values, theta, y):
    return np.full(len(values), np.nan) if (y[0] == LIKELIHOOD_ROWS[1][3]).all() else values


LIKELIHOOD_ROWS = THETA[:8], Y[:8]
SPOILT = {
    "raises": (leave, "SystemExit"),
    "changes its arguments": (change_arguments, ""),
    "NaN at some points": (nan_at_some, "ValueError: `log_likelihood` of member 'bad' is NaN"),
    "infinite": (lambda values, theta, y: values + np.inf, "ValueError: `log_likelihood` of member 'bad' is NaN"),
    "NaN at one row": (nan_at_one_row, "ValueError: `log_likelihood` of member 'bad' is NaN"),
    "a column": (lambda values, theta, y: values[:, None], "ValueError: `log_likelihood` of member 'bad' must"),
    "complex": (lambda values, theta, y: values + 0j, "TypeError: `log_likelihood` of member 'bad' must"),
    "text": (lambda values, theta, y: values.astype(str), "TypeError: `log_likelihood` of member 'bad' must"),
    "0 everywhere": (lambda values, theta, y: values - np.inf, ""),
}


def tabulate_likelihoods(likelihoods, **options):
    proposal = {"proposal": Good(), "draws": 50}
    members = ds.normalize(likelihoods, prior=ds.tasks.Normal([0.0, 0.0], [1.0, 1.0]), **proposal)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "1 of 3 members are left out|the others are normalized without bad")
        return ds.tabulate(members, *LIKELIHOOD_ROWS, draws=20, **options)


@pytest.mark.parametrize(("spoilt", "reason"), SPOILT.values(), ids=SPOILT)
def test_a_likelihood_that_fails_is_left_out_and_those_that_share_its_points_are_not(spoilt, reason):
    good = {"first": Likelihood(), "last": Likelihood(0.3)}
    bad = {"first": good["first"], "bad": Likelihood(0.1, spoilt), "last": good["last"]}
    table = tabulate_likelihoods(bad)
    assert list(table.left_out) == (["bad"] if reason else [])
    assert table.left_out.get("bad", "").startswith(reason)
    others = table.select(["first", "last"])
    assert np.isfinite(others.log_q).all()
    if reason and spoilt is not nan_at_one_row:  # then the points are those without it
        np.testing.assert_array_equal(others.log_q, tabulate_likelihoods(good).log_q)
    if spoilt is change_arguments:
        bad["bad"] = Likelihood(0.1)
        np.testing.assert_array_equal(table.log_q, tabulate_likelihoods(bad).log_q)


def test_likelihoods_have_the_same_bits_in_two_processes_and_reasons_the_order_of_the_members():
    bad = {name: Likelihood(0.1, leave if name in "ca" else None) for name in "cbad"}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "2 of 4 members are left out")
        tables = [tabulate_likelihoods(bad, workers=workers, chunk=4) for workers in (1, 2)]
    for table in tables:
        assert list(table.left_out) == ["c", "a"]
    for statistic in ("log_q", "rank", "mean", "cov"):
        np.testing.assert_array_equal(*(getattr(table, statistic) for table in tables), err_msg=statistic)


def hang_at_one_row(values, theta, y):
    if (y[0] == LIKELIHOOD_ROWS[1][3]).all():
        hang(theta, y)
    return values


def wait_long(values, theta, y):
    time.sleep(LIMIT / 5)
    return values


# What each does in the place of its values, the reason, and the rows of a job, of eight.
STOPPED = {
    "hang": (lambda values, theta, y: hang(theta, y), TOO_SLOW, 8),
    "hang with the interpreter's lock": (lambda values, theta, y: hang_with_lock(theta, y), TOO_SLOW, 8),
    "hang at one row": (hang_at_one_row, TOO_SLOW, 4),
    "slow": (wait_long, TOO_SLOW, 8),
    "exit 0": (lambda *_: os._exit(0), "its process died with exit code 0", 8),
    "segmentation fault": (lambda *_: ctypes.string_at(0), "its process was killed by SIGSEGV", 8),
    "closed descriptors": (
        lambda values, theta, y: close_descriptors(theta, y),
        DYING["closed descriptors"][1],
        8,
    ),
}


def check_stopped_likelihood(name, **options):
    spoilt, reason, chunk = STOPPED[name]
    good = {"first": Likelihood(), "last": Likelihood(0.3)}
    bad = {"first": good["first"], "bad": Likelihood(0.1, spoilt), "last": good["last"]}
    table = tabulate_likelihoods(bad, time_limit=LIMIT, chunk=chunk, **options)
    assert dict(table.left_out) == {"bad": reason}
    alone = tabulate_likelihoods(good, points=options.get("points", 0))
    for statistic in ("log_q", "rank", "mean", "cov", *(("points", "log_f") if "points" in options else ())):
        np.testing.assert_array_equal(getattr(table, statistic), getattr(alone, statistic), err_msg=statistic)


def test_a_likelihood_that_hangs_is_left_out_and_those_that_share_its_points_are_not():
    check_stopped_likelihood("hang at one row", threads=2)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", STOPPED)
def test_no_likelihood_takes_another_with_it(name, workers, tmp_path):
    check_stopped_likelihood(name, workers=workers, points=20, directory=tmp_path)


def test_a_member_that_fails_at_shared_points_is_named():
    class Narrow(Good):
        def log_prob(self, theta, y):
            if (np.abs(theta) > 6).any():
                raise ValueError("outside of my support")
            return super().log_prob(theta, y)

    wide = ds.tasks.Uniform([-9.0, -9.0], [9.0, 9.0])
    with pytest.raises(RuntimeError, match=r"shared points .* member 'narrow': outside of my support"):
        ds.tabulate({"good": Good(), "narrow": Narrow()}, THETA, Y, draws=20, points=50, prior=wide)


def test_members_that_hang_or_die_are_left_out_by_name(alone, capfd):
    chosen = (
        "hang with the interpreter's lock",
        "hang with a child",
        "exit 0",
        "segmentation fault",
        "fork and exit",
    )
    zoo = {name: value for name, value in (HANGING | DYING).items() if name in chosen}
    check_zoo(zoo | HARMLESS, alone, workers=2, time_limit=LIMIT)
    assert "sleep\x004321" not in commands()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "zoo", [HANGING, DYING, RAISING, HARMLESS], ids=["hanging", "dying", "raising", "harmless"]
)
def test_no_member_of_the_zoo_changes_another(alone, capfd, workers, zoo):
    check_zoo(zoo, alone, workers=workers, time_limit=LIMIT, chunk=50)
    assert "sleep\x004321" not in commands()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", HANGING)
def test_the_rest_waits_no_longer_than_the_limit_and_five_seconds(alone, workers, name):
    def seconds(members):
        start = time.monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ds.tabulate(members, THETA, Y, draws=20, workers=workers, time_limit=LIMIT)
        return time.monotonic() - start

    # The time of processes that start and import torch is the machine's.
    usual = seconds({"first": Good(), "raises": Bad("error"), "last": Good()})
    assert seconds({"first": Good(), "bad": Bad(name), "last": Good()}) < 2 * usual + LIMIT + 5


def test_a_process_that_dies_of_what_another_member_left_behind_is_not_held_against_the_next(alone):
    members = {"leaves a timer": Bad("timer"), "slow": Waiting(0.5), "last": GOOD["last"]}
    table = ds.tabulate(members, THETA, Y, draws=20, time_limit=30)
    assert dict(table.left_out) == {}
    np.testing.assert_array_equal(table.select(["last"]).log_q, alone.select(["last"]).log_q)


def test_an_infinite_time_limit_is_none(alone):
    table = ds.tabulate(GOOD, THETA, Y, draws=20, keep_draws=True, time_limit=float("inf"))
    np.testing.assert_array_equal(table.draws, alone.draws)


class Waiting(Good):
    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def log_prob(self, theta, y):
        time.sleep(self.seconds)
        return super().log_prob(theta, y)


SCRIPT = """
import numpy as np
import drystone as ds

class Normal:
    def log_prob(self, theta, y):
        return -((theta - y) ** 2).sum(1)

prior = ds.tasks.Uniform([0.0], [1.0])
theta, _ = ds.simulate(lambda theta, rng: theta + rng.normal(size=theta.shape), prior, 200, workers=2)
table = ds.tabulate([Normal()], theta, theta + 1, draws=0, workers=2, time_limit=60)
print(table.log_q.sum())
"""


def test_a_script_needs_no_main_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == "-200.0\n"


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
import drystone as ds
from adversary.zoo import Good

class Deaf(Good):
    def log_prob(self, theta, y):
        try:
            print("ready", flush=True)
            time.sleep(60)
        except BaseException:
            pass
        return super().log_prob(theta, y)

theta = np.zeros((10, 2))
workers = int(sys.argv[1])
try:
    ds.tabulate({"deaf": Deaf(), "good": Good()}, theta, theta, draws=5, workers=workers)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_stops_the_run_even_if_a_member_swallows_it(workers):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, workers], env=environment, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout.readline() == "ready\n"
        run.send_signal(2)
        assert run.communicate(timeout=PATIENCE)[0] == "interrupted\n"
        assert run.returncode == 0


def test_processes_end_with_the_process_that_started_them():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, "2"], env=environment, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout.readline() == "ready\n"
        started = children(run.pid)
        run.kill()
        run.wait()
        assert started
        deadline = time.monotonic() + PATIENCE
        while any(os.path.exists(f"/proc/{pid}") for pid in started) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(os.path.exists(f"/proc/{pid}") for pid in started)


def test_a_posterior_is_not_changed_by_a_member_that_seeds(alone):
    posterior = ds.stack(alone.select(["first", "last"])).posterior({"first": Bad("seeds"), "last": Good()})
    np.random.seed(7)  # noqa: NPY002
    before = numpy_state()
    posterior.log_prob(THETA[:5], Y[0])
    np.testing.assert_array_equal(numpy_state(), before)


def numpy_state():
    return np.random.get_state(legacy=False)["state"]["key"].copy()  # noqa: NPY002


def commands():
    """Return the command lines of all processes of this machine."""
    lines = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                lines.append(Path(entry.path, "cmdline").read_text().rstrip("\0"))
            except OSError:
                continue
    return lines


def children(pid):
    """Return the processes that a process has started."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for thread in threads for child in thread.read_text().split()]
