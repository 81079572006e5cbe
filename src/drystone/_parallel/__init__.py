"""Pools that jobs run in, processes that can be stopped, and the isolation of other libraries' code."""

from drystone._parallel.isolation import generators_restored, one_thread, seeded, signals_watched
from drystone._parallel.pools import (
    QUEUE_DEPTH,
    Executor,
    WorkerPool,
    as_completed,
    begin_step,
    check_client,
    connect,
    cores,
    map_ordered,
    worker_pool,
)
from drystone._parallel.processes import OutOfTimeError, ProcessDiedError, Processes, ProcessPool, evaluating

__all__ = [
    "QUEUE_DEPTH",
    "Executor",
    "OutOfTimeError",
    "ProcessDiedError",
    "ProcessPool",
    "Processes",
    "WorkerPool",
    "as_completed",
    "begin_step",
    "check_client",
    "connect",
    "cores",
    "evaluating",
    "generators_restored",
    "map_ordered",
    "one_thread",
    "seeded",
    "signals_watched",
    "worker_pool",
]
