"""Jobs worked on in this process, in processes that can be stopped, or on a cluster."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future
from typing import Any

import cloudpickle

from drystone._parallel import QUEUE_DEPTH, as_completed, exit_with_parent, release_generators, worker_pool
from drystone.tabulation.job import Job, Part, described, tabulate_rows, too_slow

__all__ = ["tabulate_jobs"]

# Exit code of a process that gave up its member and itself with it.
GAVE_UP = 75
# A process counts its own time, from when it has the member. One that cannot even do that, because the member
# holds the interpreter's lock, is stopped from outside this many seconds later.
LAST_RESORT = 60


def tabulate_jobs(
    jobs: Iterable[Job], workers: int, client: Any, *, stoppable: bool
) -> Iterator[tuple[Job, Part]]:
    """Yield each job with its part, in the order in which they end.

    With ``stoppable`` one worker on this machine is a process too, which can be stopped.
    """
    if client is not None:
        with worker_pool(client) as pool:
            send = _sender(lambda packed, job: pool.submit(_on_cluster, packed))
            for job, future in as_completed(jobs, send, pool.queue_depth):
                yield job, _outcome(future, job)
        return
    if workers == 1 and not stoppable:
        yield from ((job, tabulate_rows(job)) for job in jobs)
        return
    from pebble import ProcessPool

    # Spawned, not forked: safe with the threads of torch and Numba, and the same on every system.
    pool = ProcessPool(workers, initializer=exit_with_parent, context=multiprocessing.get_context("spawn"))
    try:
        send = _sender(lambda packed, job: pool.schedule(_in_process, args=[packed], timeout=_last_resort(job)))
        for job, future in as_completed(jobs, send, lambda: QUEUE_DEPTH * workers):
            yield job, _outcome(future, job)
    finally:
        pool.stop()
        pool.join()


def _sender(submit: Callable[[bytes, Job], Any]) -> Callable[[Job], Any]:
    """Return a function that packs a job and submits it; a member that cannot be packed is a failed job."""

    def send(job: Job) -> Any:
        try:
            packed = cloudpickle.dumps(job)
        except Exception as error:  # whatever the member's own code or what it holds makes of it
            failed: Future[Part] = Future()
            failed.set_exception(error)
            return failed
        return submit(packed, job)

    return send


def tabulate_or_give_up(job: Job) -> Part:
    """Work on a job in a thread that is left behind if it hangs: a cluster's worker cannot be killed from here."""
    if job.plan.limit is None:
        return tabulate_rows(job)
    answer: list[Part] = []
    thread = threading.Thread(target=lambda: answer.append(tabulate_rows(job)), daemon=True)
    thread.start()
    thread.join(job.plan.limit)
    if answer:
        return answer[0]
    release_generators()  # it may hold what others wait for
    return Part(reason=too_slow(job.plan.limit), seconds=job.plan.limit)


def _outcome(future: Future[Part], job: Job) -> Part:
    try:
        return future.result()
    except CancelledError:  # no fault of the member's: the cluster was closed
        raise
    except BrokenExecutor as error:
        raise RuntimeError(
            "no process could be started to work in. A script that tabulates with `workers` or `time_limit` must "
            'do so below `if __name__ == "__main__":`, because each process reads the script again.'
        ) from error
    except Exception as error:  # the process died, or the member does not survive the journey to it
        limit, code = job.plan.limit, getattr(error, "exitcode", None)
        if limit and (isinstance(error, TimeoutError) or code == GAVE_UP):
            return Part(reason=too_slow(limit), seconds=limit)
        return Part(reason=described(error) if code is None else f"its process died with exit code {code}")


def _on_cluster(packed: bytes) -> Part:
    return tabulate_or_give_up(cloudpickle.loads(packed))


def _in_process(packed: bytes) -> Part:
    """Work on a job in a process that ends together with a member that hangs."""
    job = cloudpickle.loads(packed)
    part = tabulate_or_give_up(job)
    if job.plan.limit is not None and part.seconds >= job.plan.limit:
        os._exit(GAVE_UP)
    return part


def _last_resort(job: Job) -> float | None:
    return None if job.plan.limit is None else job.plan.limit + LAST_RESORT
