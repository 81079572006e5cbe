"""Execution of jobs in this process, in processes that can be stopped, or on a cluster."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future
from typing import Any

import cloudpickle

from drystone._parallel import (
    QUEUE_DEPTH,
    Executor,
    as_completed,
    exit_with_parent,
    release_generators,
    worker_pool,
)
from drystone.tabulation.job import Job, Part, describe_error, tabulate_rows, too_slow

__all__ = ["tabulate_jobs"]

# Exit code of a process that ends itself because its member exceeded the time limit.
TIME_LIMIT_EXIT_CODE = 75
# A process measures its own time from when it has the member. If the member holds the interpreter's lock, so that
# the process cannot end itself, it is stopped from outside this many seconds later.
GRACE_SECONDS = 60


def tabulate_jobs(
    jobs: Iterable[Job], workers: int, client: Executor | None, *, stoppable: bool
) -> Iterator[tuple[Job, Part]]:
    """Yield each job with its part, in the order in which the jobs end.

    With ``stoppable`` a single worker on this machine is a process too, which can be stopped.
    """
    if client is not None:
        with worker_pool(client) as pool:
            send = _sender(lambda pickled, job: pool.submit(_on_cluster, pickled))
            for job, future in as_completed(jobs, send, pool.queue_depth):
                yield job, _part(future, job)
        return
    if workers == 1 and not stoppable:
        yield from ((job, tabulate_rows(job)) for job in jobs)
        return
    from pebble import ProcessPool

    # Spawned, not forked: safe with the threads of torch and Numba, and the same on every system.
    pool = ProcessPool(workers, initializer=exit_with_parent, context=multiprocessing.get_context("spawn"))
    try:
        send = _sender(lambda pickled, job: pool.schedule(_in_process, args=[pickled], timeout=_timeout(job)))
        for job, future in as_completed(jobs, send, lambda: QUEUE_DEPTH * workers):
            yield job, _part(future, job)
    finally:
        pool.stop()
        pool.join()


def _sender(submit: Callable[[bytes, Job], Any]) -> Callable[[Job], Any]:
    """Return a function that pickles a job and submits it; a member that cannot be pickled is a failed job."""

    def send(job: Job) -> Any:
        try:
            pickled = cloudpickle.dumps(job)
        except Exception as error:  # the member's own code may raise anything
            failed: Future[Part] = Future()
            failed.set_exception(error)
            return failed
        return submit(pickled, job)

    return send


def tabulate_within_limit(job: Job) -> Part:
    """Run a job in a thread that is abandoned if it hangs, since a cluster's worker cannot be killed."""
    if job.plan.limit is None:
        return tabulate_rows(job)
    parts: list[Part] = []
    thread = threading.Thread(target=lambda: parts.append(tabulate_rows(job)), daemon=True)
    thread.start()
    thread.join(job.plan.limit)
    if parts:
        return parts[0]
    release_generators()  # the thread may hold their lock
    return Part(reason=too_slow(job.plan.limit), seconds=job.plan.limit)


def _part(future: Future[Part], job: Job) -> Part:
    """Return the result of a future; an error of the member becomes a part with a reason."""
    try:
        return future.result()
    except CancelledError:  # not an error of the member: the cluster was closed
        raise
    except BrokenExecutor as error:
        raise RuntimeError(
            "no worker process could be started. A script that tabulates with `workers` or `time_limit` must do "
            'so below `if __name__ == "__main__":`, because each process imports the script again.'
        ) from error
    except Exception as error:  # the process died, or the member could not be unpickled in it
        limit, code = job.plan.limit, getattr(error, "exitcode", None)
        if limit and (isinstance(error, TimeoutError) or code == TIME_LIMIT_EXIT_CODE):
            return Part(reason=too_slow(limit), seconds=limit)
        return Part(reason=describe_error(error) if code is None else f"its process died with exit code {code}")


def _on_cluster(pickled: bytes) -> Part:
    return tabulate_within_limit(cloudpickle.loads(pickled))


def _in_process(pickled: bytes) -> Part:
    """Run a job in a process that ends itself if the member exceeds the time limit."""
    job = cloudpickle.loads(pickled)
    part = tabulate_within_limit(job)
    if job.plan.limit is not None and part.seconds >= job.plan.limit:
        os._exit(TIME_LIMIT_EXIT_CODE)
    return part


def _timeout(job: Job) -> float | None:
    return None if job.plan.limit is None else job.plan.limit + GRACE_SECONDS
