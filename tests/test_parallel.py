"""Tests for drystone._parallel: the same results wherever jobs are done, in order or as they end."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import drystone as ds
from drystone._parallel import as_completed, connect, map_ordered, seeded, worker_pool


def square(x):
    return x * x


def slow_first(x):
    time.sleep(0.2 if x == 0 else 0.0)
    return x


def failing(x):
    if x == 3:
        raise ArithmeticError("three")
    return x


POOLS = {
    "here": {},
    "threads": {"workers": 2, "kind": "threads"},
    "processes": {"workers": 2},
}


@pytest.mark.parametrize("options", POOLS.values(), ids=POOLS)
def test_results_come_in_the_order_of_the_jobs(options):
    with worker_pool(**options) as pool:
        results = list(map_ordered(range(7), lambda job: pool.submit(square, job), pool.queue_depth))
    assert results == [0, 1, 4, 9, 16, 25, 36]


def test_results_come_as_they_end_with_their_jobs():
    with ThreadPoolExecutor(2) as executor, worker_pool(executor) as pool:
        ended = [
            (job, future.result())
            for job, future in as_completed(range(6), lambda job: pool.submit(slow_first, job), lambda: 2)
        ]
    assert sorted(ended) == [(x, x) for x in range(6)]
    assert ended[0] != (0, 0), "others must not wait for the slow one"


@pytest.mark.parametrize("iterate", [map_ordered, as_completed])
def test_no_more_jobs_are_taken_than_there_is_room_for(iterate):
    taken = []

    def jobs():
        for job in range(10):
            taken.append(job)
            yield job

    with worker_pool() as pool:
        results = iterate(jobs(), lambda job: pool.submit(square, job), lambda: 3)
        next(results)
        assert len(taken) == 3
        results.close()


def test_an_error_reaches_the_caller_and_the_others_are_given_up():
    with worker_pool() as pool, pytest.raises(ArithmeticError, match="three"):
        list(map_ordered(range(9), lambda job: pool.submit(failing, job), pool.queue_depth))


def test_a_pool_can_be_a_client_itself():
    with worker_pool(workers=2, kind="threads") as outer, worker_pool(outer) as inner:
        assert inner is outer


def test_a_missing_dask_is_explained(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'drystone\[dask\]'"):
        connect("tcp://127.0.0.1:8786")


def test_a_missing_scheduler_file_is_explained(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no scheduler file"):
        connect(str(tmp_path / "scheduler.json"))


def test_an_address_that_makes_no_sense_is_explained():
    with pytest.raises(ConnectionError, match="no Dask scheduler answers at 'nonsense://'"):
        connect("nonsense://")


class Global:
    """Draws from torch's global generator, slowly."""

    def sample(self, n, y):
        first = torch.randn(n, *y.shape)
        threading.Event().wait(0.01)
        return first + torch.randn(n, *y.shape)


@pytest.mark.filterwarnings("ignore:the rows of a, b, c are without `log_q`")
def test_members_that_share_a_generator_draw_the_same_in_threads():
    theta = np.random.default_rng(0).normal(size=(12, 2))
    members = {"a": Global(), "b": Global(), "c": Global()}
    here = ds.tabulate(members, theta, theta, draws=4)
    with ThreadPoolExecutor(4) as pool:
        there = ds.tabulate(members, theta, theta, draws=4, client=pool)
    np.testing.assert_array_equal(there.mean, here.mean)


@pytest.mark.parametrize("draw", [torch.randn, np.random.rand], ids=["torch", "numpy"])
def test_a_seeded_body_leaves_the_global_generators_as_they_were(draw):
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    expected = float(draw(1)[0])
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    with seeded(8):
        inside = float(draw(1)[0])
    assert float(draw(1)[0]) == expected != inside
