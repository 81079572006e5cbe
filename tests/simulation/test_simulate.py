"""Tests for drystone.simulate and drystone.simulation."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch

import drystone as ds
from drystone._files import read_sealed_json, write_sealed_json
from experiments.minisimbig import MiniSimBIG

PRIOR = ds.tasks.Uniform([-1.0, 0.0], [1.0, 2.0])


def noisy(theta, rng):
    return np.column_stack([theta, theta.sum(1)]) + rng.normal(size=(len(theta), 3))


def partly_nan(theta, rng):
    y = noisy(theta, rng)
    y[theta[:, 0] > 0.5, 1] = np.nan
    y[theta[:, 0] < -0.8, 2] = np.inf
    return y


def partly_raising(theta, rng):
    if (theta[:, 0] > 0.9).any():
        raise ArithmeticError("the step size became too small")
    return noisy(theta, rng)


def always_raising(theta, rng):
    raise ArithmeticError("no luck")


def contents(folder):
    """Every file below a folder with its bytes."""
    return {p.relative_to(folder): p.read_bytes() for p in sorted(Path(folder).rglob("*")) if p.is_file()}


def test_the_result_unpacks_as_theta_and_y_and_keeps_pairs_together():
    theta, y = simulations = ds.simulate(noisy, PRIOR, 70, seed=3, block=16)
    assert theta.shape == (70, 2)
    assert y.shape == (70, 3)
    assert PRIOR.support.contains(theta).all()
    np.testing.assert_array_equal(simulations.row, np.arange(70))
    residual = y - np.column_stack([theta, theta.sum(1)])
    assert abs(residual.mean()) < 4 / np.sqrt(210)
    assert len(np.unique(theta)) == 140, "blocks must not repeat each other"
    assert len(np.unique(residual)) == 210, "blocks must not repeat each other"


def test_a_task_brings_its_own_prior():
    task = ds.tasks.get("slcp")
    theta, y = ds.simulate(task, n=300)
    assert theta.shape == (300, 5)
    assert y.shape == (300, 8)
    assert task.prior.support.contains(theta).all()
    assert np.isfinite(task.log_likelihood(theta, y)).all()


def test_rows_do_not_depend_on_the_number_of_workers_or_the_client():
    alone = ds.simulate(noisy, PRIOR, 70, seed=3, block=16)
    two = ds.simulate(noisy, PRIOR, 70, seed=3, block=16, workers=2)
    with ThreadPoolExecutor(3) as client:
        elsewhere = ds.simulate(noisy, PRIOR, 70, seed=3, block=16, client=client)
    for other in (two, elsewhere):
        np.testing.assert_array_equal(other.theta, alone.theta)
        np.testing.assert_array_equal(other.y, alone.y)
    assert not np.array_equal(ds.simulate(noisy, PRIOR, 70, seed=4, block=16).y, alone.y)


def test_a_client_needs_submit_only():
    class Future:
        def __init__(self, value):
            self.value = value

        def result(self):
            return self.value

    class Client:
        submitted = 0

        def submit(self, fn, /, *args):
            self.submitted += 1
            return Future(fn(*args))

    client = Client()
    ds.simulate(noisy, PRIOR, 70, block=16, client=client)
    assert client.submitted == 5


def test_rows_that_are_not_finite_are_left_out_and_counted():
    with pytest.warns(UserWarning, match=r"of 200 simulations failed and are left out: non-finite values"):
        simulations = ds.simulate(partly_nan, PRIOR, 200, block=64)
    theta = ds.simulate(noisy, PRIOR, 200, block=64).theta
    good = np.flatnonzero((theta[:, 0] <= 0.5) & (theta[:, 0] >= -0.8))
    np.testing.assert_array_equal(simulations.row, good)
    np.testing.assert_array_equal(simulations.theta, theta[good])
    assert simulations.left_out == {"non-finite values": 200 - good.size}
    assert f"{200 - good.size} failed and left out" in repr(simulations)


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_that_raise_are_left_out_and_the_others_kept(workers):
    with pytest.warns(UserWarning, match="ArithmeticError: the step size became too small"):
        simulations = ds.simulate(partly_raising, PRIOR, 200, block=64, workers=workers)
    theta = ds.simulate(noisy, PRIOR, 200, block=64).theta
    good = np.flatnonzero(theta[:, 0] <= 0.9)
    np.testing.assert_array_equal(simulations.row, good)
    assert simulations.left_out == {"ArithmeticError: the step size became too small": 200 - good.size}
    residual = simulations.y - np.column_stack([simulations.theta, simulations.theta.sum(1)])
    assert len(np.unique(residual)) == residual.size, "rows run alone must have streams of their own"


def test_when_every_simulation_fails_the_reason_is_given(tmp_path):
    with pytest.raises(RuntimeError, match=r"all 20 simulations failed: ArithmeticError: no luck \(20\)"):
        ds.simulate(always_raising, PRIOR, 20, directory=tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [".lock"], "a mended simulator can be run in the same directory"


def test_a_finished_store_is_read_and_not_simulated_again(tmp_path):
    first = ds.simulate(noisy, PRIOR, 70, block=16, directory=tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {".lock", "simulations.zarr"}
    before = contents(tmp_path)
    again = ds.simulate(noisy, PRIOR, 70, block=16, directory=tmp_path)
    np.testing.assert_array_equal(again.y, first.y)
    assert contents(tmp_path) == before
    loaded = ds.Simulations.load(tmp_path)
    np.testing.assert_array_equal(loaded.theta, first.theta)
    assert loaded.settings == first.settings


def test_single_precision_data_are_stored_as_such(tmp_path):
    simulations = ds.simulate(MiniSimBIG(n=16), n=3, directory=tmp_path)
    assert simulations.y.dtype == np.float32
    assert ds.Simulations.load(tmp_path).y.dtype == np.float32


class Interruption(BaseException):
    """Like a keyboard interrupt: not an error of the simulator."""


def test_an_interrupted_run_continues_where_it_stopped_with_the_same_result(tmp_path):
    whole = ds.simulate(partly_counting(10**6), PRIOR, 100, block=16, directory=tmp_path / "whole")
    with pytest.raises(Interruption):
        ds.simulate(partly_counting(3), PRIOR, 100, block=16, directory=tmp_path / "parts")
    resumed = partly_counting(10**6)
    parts = ds.simulate(resumed, PRIOR, 100, block=16, directory=tmp_path / "parts")
    assert resumed.calls == 4, "the first three blocks of seven were kept"
    np.testing.assert_array_equal(parts.y, whole.y)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


class partly_counting:
    """A simulator that is interrupted after some calls."""

    def __init__(self, calls_allowed):
        self.calls, self.calls_allowed = 0, calls_allowed

    def __call__(self, theta, rng):
        if self.calls == self.calls_allowed:
            raise Interruption
        self.calls += 1
        return noisy(theta, rng)


SCRIPT = """
import sys, time
import numpy as np
import drystone as ds

def slow(theta, rng):
    time.sleep(0.15)
    return theta + rng.normal(size=theta.shape)

prior = ds.tasks.Uniform([-1.0, 0.0], [1.0, 2.0])
ds.simulate(slow, prior, 60, seed=5, workers=int(sys.argv[2]), directory=sys.argv[1], block=4)
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_killed_run_continues_and_ends_with_the_same_bytes(tmp_path, workers):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    parts, whole = tmp_path / "parts", tmp_path / "whole"
    process = subprocess.Popen([sys.executable, script, parts, workers])
    deadline = time.monotonic() + 60
    while len(list(parts.glob("simulations.blocks/block-*.npz"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    done = {p: p.stat().st_mtime_ns for p in parts.glob("simulations.blocks/block-*.npz")}
    assert 3 <= len(done) < 15
    assert not (parts / "simulations.zarr").exists()
    # What a kill in the middle of writing leaves behind is not mistaken for a block.
    (parts / "simulations.blocks" / ".block-000014.npz.0f.tmp").write_bytes(b"half")
    for folder in (parts, whole):
        subprocess.run([sys.executable, script, folder, "1"], check=True)
    assert contents(parts) == contents(whole)
    assert set(os.listdir(parts)) == {".lock", "simulations.zarr"}


DIFFERENT = {
    "n": dict(n=80),
    "seed": dict(seed=1),
    "block": dict(block=8),
}


@pytest.mark.parametrize("change", DIFFERENT.values(), ids=DIFFERENT.keys())
@pytest.mark.parametrize("finished", [True, False], ids=["finished", "unfinished"])
def test_a_store_made_otherwise_is_refused(tmp_path, change, finished):
    make_store(tmp_path, finished)
    with pytest.raises(ds.StaleError, match=r"out of date: the simulations .*was .* and is .*Use another"):
        ds.simulate(noisy, PRIOR, **{"n": 70, "seed": 0, "block": 16, **change}, directory=tmp_path)


@pytest.mark.parametrize("finished", [True, False], ids=["finished", "unfinished"])
def test_a_store_with_another_prior_is_refused(tmp_path, finished):
    make_store(tmp_path, finished)
    with pytest.raises(ds.StaleError, match="the prior changed"):
        ds.simulate(noisy, ds.tasks.Uniform([-1.0, 0.0], [1.0, 2.1]), 70, block=16, directory=tmp_path)


def make_store(folder, finished):
    function = stopping if not finished else noisy
    try:
        ds.simulate(function, PRIOR, 70, block=16, directory=folder)
    except Interruption:
        settings = folder / "simulations.blocks" / "settings.json"
        values, _ = read_sealed_json(settings)
        write_sealed_json(settings, json.loads(json.dumps(values).replace("stopping", "noisy")))


def stopping(theta, rng):
    if len(theta) < 16:
        raise Interruption
    return noisy(theta, rng)


BAD = {
    "no prior": (TypeError, "`prior` must be passed", dict(simulator=noisy, prior=None)),
    "a float": (TypeError, "`n` must be an integer; got 10000.0", dict(n=1e4)),
    "no rows": (ValueError, "`n` must be at least 1; got 0", dict(n=0)),
    "no workers": (ValueError, "`workers` must be at least 1; got 0", dict(workers=0)),
    "negative block": (ValueError, "`block` must be at least 1; got -2", dict(block=-2)),
    "a lock for workers": (
        TypeError,
        "must be picklable to run with `workers` > 1",
        dict(simulator=lambda theta, rng, lock=threading.Lock(): theta, workers=2),
    ),
    "wrong shape": (
        ValueError,
        r"`simulator` must return shape \(N, m\) = \(30, m\); it returned \(30,\)",
        dict(simulator=lambda theta, rng: theta[:, 0]),
    ),
    "transposed": (
        ValueError,
        r"`simulator` must return shape \(N, m\) = \(30, m\); it returned \(2, 30\)",
        dict(simulator=lambda theta, rng: theta.T),
    ),
}


@pytest.mark.parametrize(("error", "message", "change"), BAD.values(), ids=BAD.keys())
def test_bad_arguments_are_explained(error, message, change):
    with pytest.raises(error, match=message):
        ds.simulate(**{"simulator": noisy, "prior": PRIOR, "n": 30, **change})


def test_a_prior_of_the_wrong_shape_is_explained():
    class Flat:
        support = PRIOR.support

        def sample(self, n, rng):
            return rng.random(n)

        def log_prob(self, theta):
            return np.zeros(len(theta))

    with pytest.raises(
        ValueError, match=r"`prior.sample` must return shape \(n, d\) = \(30, d\); it returned \(30,\)"
    ):
        ds.simulate(noisy, Flat(), 30)


def test_a_number_of_data_values_that_changes_is_an_error():
    def growing(theta, rng):
        return np.zeros((len(theta), 2 + (theta[0, 0] > 0)))

    with pytest.raises(ValueError, match=r"always return the same number of data values; it returned \[2, 3\]"):
        ds.simulate(growing, PRIOR, 60, block=6)


def test_loading_what_is_not_there_is_explained(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"was `simulate` finished\?"):
        ds.Simulations.load(tmp_path)


@pytest.mark.parametrize(
    "prior",
    [
        ([0.0, 1.0], [1.0, 3.0]),
        torch.distributions.Uniform(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 3.0])),
        [scipy.stats.uniform(0, 1), scipy.stats.uniform(1, 2)],
    ],
    ids=["bounds", "torch", "SciPy"],
)
def test_any_prior_that_training_takes_is_drawn_from(prior):
    theta, _ = ds.simulate(lambda theta, rng: theta + rng.normal(size=theta.shape), prior, n=200, seed=1)
    np.testing.assert_allclose(theta.mean(0), [0.5, 2.0], atol=0.15)
    again, _ = ds.simulate(lambda theta, rng: theta + rng.normal(size=theta.shape), prior, n=200, seed=1)
    np.testing.assert_array_equal(theta, again)
