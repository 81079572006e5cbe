"""Execution of jobs in this process, in processes that can be stopped, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future
from typing import Any

import cloudpickle

from drystone._parallel import (
    Executor,
    OutOfTimeError,
    ProcessDiedError,
    Processes,
    ProcessPool,
    WorkerPool,
    as_completed,
    worker_pool,
)
from drystone.tabulation.job import Job, Part, describe_error, tabulate_rows, too_slow

__all__ = ["tabulate_jobs"]


def tabulate_jobs(
    jobs: Iterable[Job], workers: int, client: Executor | None, *, stoppable: bool
) -> Iterator[tuple[Job, Part]]:
    """Yield each job with its part, in the order in which the jobs end.

    With ``stoppable`` members run in processes that can be stopped: also for a single worker, and beside the
    workers of a client.
    """
    if client is not None:
        with worker_pool(client) as pool:
            # On Dask always: a worker that ends with exit code 0 is not started again, and none may be left.
            run = _beside if stoppable or pool.client is not None else _within
            send = _sender(lambda pickled, limit: pool.submit(run, pickled, limit))
            for job, future in as_completed(jobs, send, pool.queue_depth):
                yield job, _part_of_cluster(future, job, pool)
    elif workers == 1 and not stoppable:
        yield from ((job, tabulate_rows(job)) for job in jobs)
    else:
        processes = ProcessPool(workers)
        try:
            send = _sender(processes.submit_pickled)
            # None ahead: further jobs of a member that hangs would each take the time limit.
            for job, future in as_completed(jobs, send, lambda: workers):
                yield job, _part(future, job)
        finally:
            processes.close()


def _sender(submit: Callable[[bytes, float | None], Any]) -> Callable[[Job], Any]:
    """Return a function that pickles a job and submits it; a member that cannot be pickled is a failed job."""

    def send(job: Job) -> Any:
        try:
            pickled = _pickle(job)
        except Exception as error:  # the member's own code may raise anything
            failed: Future[Part] = Future()
            failed.set_exception(error)
            return failed
        return submit(pickled, job.plan.limit)

    return send


def _pickle(job: Job) -> bytes:
    return cloudpickle.dumps((tabulate_rows, (job,)))


def _part(future: Future[Part], job: Job) -> Part:
    """Return the result of a future; an error of the member becomes a part with a reason."""
    try:
        return future.result()
    except (BrokenExecutor, CancelledError):  # not an error of the member
        raise
    except OutOfTimeError as error:
        assert job.plan.limit is not None
        return Part(reason=too_slow(job.plan.limit), seconds=job.plan.limit, during=error.during)
    except ProcessDiedError as error:
        return Part(reason=str(error), during=error.during)
    except Exception as error:  # the member could not be pickled, or not be unpickled there
        return Part(reason=describe_error(error))


def _part_of_cluster(future: Future[Part], job: Job, pool: WorkerPool) -> Part:
    """Return the result of a future of a client, whose worker may have died with the member."""
    part = _part(future, job)
    if not part.reason.startswith("KilledWorker"):
        return part
    # Dask gives up on all jobs of a worker that dies several times. In a process beside the worker a member that
    # dies shows itself, and the others get their results.
    return _part(pool.submit(_beside, _pickle(job), job.plan.limit), job)


def _within(pickled: bytes, limit: float | None) -> Part:
    """Run a job in the worker of a client."""
    function, arguments = cloudpickle.loads(pickled)
    return function(*arguments)


# Of the worker of a client: they are used again for further jobs, and end with it.
_processes = Processes()


def _beside(pickled: bytes, limit: float | None) -> Part:
    """Run a job in a process beside the worker of a client, which is not hurt if the member hangs or dies."""
    return _processes.call(pickled, limit)
