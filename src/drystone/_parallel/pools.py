"""Pools of threads, processes or a cluster's workers."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from drystone._messages import require
from drystone._parallel.processes import ProcessPool

__all__ = [
    "QUEUE_DEPTH",
    "Executor",
    "WorkerPool",
    "as_completed",
    "begin_step",
    "check_client",
    "connect",
    "cores",
    "map_ordered",
    "worker_pool",
]


# Jobs submitted per worker: one running and one waiting, so that none is idle and few are held in memory.
QUEUE_DEPTH = 2
# Least number of jobs submitted to a cluster: clusters that grow on demand look at the waiting jobs.
QUEUE_DEPTH_ON_CLUSTER = 64

J = TypeVar("J")


class Executor(Protocol):
    """The used part of a ``client``: ``submit``, as of a Dask client or a ``concurrent.futures`` executor."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Start ``fn(*args)`` and return a future with ``result()`` and ``cancel()``."""
        ...


class WorkerPool:
    """An executor with the number of jobs to keep submitted to it.

    Args:
        executor: Runs the jobs.
        depth: Number of jobs to keep submitted; on a cluster, which may grow, the least number.
        client: The Dask client that the executor belongs to, if any.
    """

    def __init__(self, executor: Executor, depth: int = QUEUE_DEPTH_ON_CLUSTER, client: Any = None) -> None:
        self.executor, self.depth, self.client = executor, depth, client

    def queue_depth(self) -> int:
        """Return the current number of jobs to keep submitted."""
        if self.client is None:
            return self.depth
        return max(self.depth, QUEUE_DEPTH * sum(self.client.nthreads().values()))

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Start ``fn(*args)`` and return its future."""
        return self.executor.submit(fn, *args)

    def share(self, value: Any) -> Any:
        """Return a reference to ``value`` for all jobs, so that it is sent once and not with each job."""
        # A task and not scattered data: if the last worker that holds it dies, the scheduler computes it again.
        return value if self.client is None else self.submit(_same, value)


@contextmanager
def worker_pool(
    client: Any = None,
    workers: int = 1,
    kind: Literal["processes", "threads"] = "processes",
    on_step: Callable[[], None] = lambda: None,
) -> Iterator[WorkerPool]:
    """Yield a pool that runs jobs on the ``client`` if there is one, else on workers of this machine.

    Args:
        client: A Dask client or another executor.
        workers: How many, of this machine.
        kind: Threads share memory, processes can be stopped.
        on_step: Called at every step of a job that runs in a thread of this machine.
    """
    check_client(client)
    if isinstance(client, WorkerPool):
        yield client
    elif hasattr(client, "get_executor"):
        from dask import config

        # Large objects are sent on purpose (data once, members with their rows); Dask would warn.
        with config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            try:
                yield WorkerPool(OnDask(client), client=client)
            except Exception as error:
                if client.status == "running":
                    raise
                raise ConnectionError(
                    "the Dask client was closed, or lost its scheduler, before the work was done. What is written "
                    "in a `directory` stays: the same call with a new client continues."
                ) from error
    elif client is not None:
        yield WorkerPool(client, QUEUE_DEPTH * cores())
    elif workers == 1 and kind == "processes":
        yield WorkerPool(Inline(), 1)
    elif kind == "processes":
        processes = ProcessPool(workers)
        try:
            yield WorkerPool(processes, QUEUE_DEPTH * workers)
        finally:
            processes.close()
    else:
        given_up = threading.Event()
        threads = ThreadPoolExecutor(workers, initializer=_enter_pool, initargs=(given_up, on_step))
        try:
            yield WorkerPool(threads, QUEUE_DEPTH * workers)
        except BaseException:
            given_up.set()
            raise
        finally:
            threads.shutdown(cancel_futures=True)


# In each thread of a pool: the event that says whether the pool is given up, and what is told of each step.
_thread = threading.local()


def _enter_pool(given_up: threading.Event, on_step: Callable[[], None]) -> None:
    _thread.given_up, _thread.on_step = given_up, on_step


def begin_step() -> None:
    """Tell the pool of a step, or raise if it is given up, as after Ctrl-C; long jobs call this at every step."""
    if not hasattr(_thread, "given_up"):
        return
    if _thread.given_up.is_set():
        raise CancelledError
    _thread.on_step()


def check_client(client: Any) -> None:
    """Raise if jobs cannot be submitted to a client."""
    if isinstance(client, str | Path):
        raise TypeError(
            f"`client` must be a Dask client or an executor with `submit`; got {str(client)!r}. Connect first: "
            f"client = distributed.Client({str(client)!r})."
        )
    if client is not None and not callable(getattr(client, "submit", None)):
        raise TypeError(f"`client` must be a Dask client or an executor with `submit`; got {client!r}.")
    if getattr(client, "status", None) == "closed":  # of Dask
        raise ConnectionError("the Dask client is closed; connect again, or use the call within its `with`.")


class OnDask:
    """An executor of Dask's own futures.

    Those of ``client.get_executor`` are never set if the worker that holds a result dies before it is fetched.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Start ``fn(*args)`` on the cluster and return its future."""
        # Not pure: the same job submitted again is run again, not looked up.
        return self.client.submit(fn, *args, pure=False)


class Inline:
    """An executor that runs each job in this thread when it is submitted."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Run ``fn(*args)`` and return its finished future."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args))
        except Exception as error:
            future.set_exception(error)
        return future


def as_completed(
    jobs: Iterable[J], submit: Callable[[J], Any], queue_depth: Callable[[], int]
) -> Iterator[tuple[J, Any]]:
    """Yield each job with its finished future, in the order in which the jobs end.

    Args:
        jobs: The jobs, taken one by one as the queue has room.
        submit: Starts a job and returns its future.
        queue_depth: Returns how many jobs may be submitted at a time.
    """
    jobs, running = iter(jobs), {}
    try:
        while True:
            room = queue_depth() - len(running)
            while room > 0 and (job := next(jobs, _NONE)) is not _NONE:
                running[submit(job)] = job
                room -= 1
            if not running:
                return
            for future in _wait_for_any(running):
                yield running.pop(future), future
    finally:
        for future in running:
            future.cancel()


def map_ordered(jobs: Iterable[J], submit: Callable[[J], Any], queue_depth: Callable[[], int]) -> Iterator[Any]:
    """Yield the results in the order of the jobs, so that sums over them are the same to the last bit."""
    futures: deque[Any] = deque()
    try:
        for job in jobs:
            futures.append(submit(job))
            if len(futures) >= queue_depth():
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()
    finally:
        for future in futures:
            future.cancel()


def connect(address: str) -> Any:
    """Return the Dask client of a running cluster.

    Args:
        address: Address of the scheduler, such as ``tcp://10.0.0.5:8786``, or path of its file (``.json``).
    """
    require("distributed", "dask", "a cluster")
    from distributed import Client
    from distributed.comm.addressing import parse_address
    from distributed.comm.registry import get_backend

    file = Path(address)
    if file.suffix == ".json":
        if not file.exists():
            raise FileNotFoundError(f"there is no scheduler file {address!r}; is the scheduler running?")
        return Client(scheduler_file=address)
    try:
        get_backend(parse_address(address)[0])  # a client for an unknown protocol would not be cleaned up
        return Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {address!r}; give the address that `dask scheduler` prints, "
            f"such as tcp://10.0.0.5:8786, or its scheduler file. ({error})"
        ) from None


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_NONE: Any = object()


def _wait_for_any(running: Iterable[Any]) -> list[Any]:
    """Return the futures that have ended, at least one; for a client with its own type of future, the oldest."""
    futures = list(running)
    if done := [future for future in futures if isinstance(future, Future) and future.done()]:
        return done
    if isinstance(futures[0], Future):
        return list(wait(futures, return_when=FIRST_COMPLETED).done)
    if type(futures[0]).__module__.partition(".")[0] == "distributed":
        from distributed import wait as wait_on_cluster

        ended: Any = wait_on_cluster(futures, return_when="FIRST_COMPLETED")
        return list(ended.done)
    return futures[:1]


def _same(value: Any) -> Any:
    return value
