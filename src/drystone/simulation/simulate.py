"""Run a simulator many times: in parallel, on disk, resumable, the same for any number of workers."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import cloudpickle
import numpy as np

from drystone._arrays import as_integer
from drystone._defaults import SEED
from drystone._files import working_in
from drystone._messages import progress_bar, require
from drystone._parallel import Executor, as_completed, worker_pool
from drystone.simulation.block import Block, Job, Simulator, SimulatorWithPrior, simulate_block
from drystone.simulation.prior import Prior, as_prior
from drystone.simulation.simulations import Simulations, StoredBlocks
from drystone.simulation.support import Support

__all__ = ["simulate"]

# Rows per block of a function of unknown speed: few enough that a thousand rows keep eight workers busy.
DEFAULT_BLOCK = 100


def simulate(
    simulator: SimulatorWithPrior | Simulator,
    prior: object = None,
    n: int = 1000,
    seed: int = SEED,
    workers: int = 1,
    directory: str | os.PathLike[str] | None = None,
    client: Executor | None = None,
    *,
    block: int | None = None,
) -> Simulations:
    r"""Draw :math:`\theta_i \sim p(\theta)` and :math:`y_i \sim p(y \mid \theta_i)`, :math:`i = 1, \dots, n`.

    The n rows are cut into blocks of fixed size. Block b has its own random streams, derived from
    ``(seed, b)``, and is simulated by one call of the simulator. So the rows depend on ``seed``, ``n`` and
    ``block`` only, not on ``workers``, ``client`` or interruptions. With a ``directory`` every finished block
    is stored there; after a kill the same call continues with the missing blocks and ends with the same rows.

    Rows with NaN or infinite data fail: they are left out and counted. If the simulator raises, its block is run
    again row by row, each row with its own stream, and only the rows that raise fail.

    Args:
        simulator: A task, or a function ``(theta (N, d), rng) -> y (N, m)``.
        prior: Any that :func:`drystone.train` takes (ours, torch's, sbi's, SciPy's, a (lower, upper) pair), or
            an object with ``sample(n, rng) -> (n, d)``; may be omitted for a task, which has its own.
        n: Number of simulations.
        seed: Seed of all random numbers.
        workers: Number of processes on this machine.
        directory: Where ``simulations.zarr`` is written; None keeps the simulations in memory only. If the file
            exists and was made with the same settings, it is read and nothing is simulated; if it was made with
            others, :class:`~drystone.StaleError` is raised. After a change of the simulator's code use another
            directory.
        client: A Dask client, or any executor with ``submit``, to run the blocks instead of local processes.
        block: Rows per call. Default: the task's ``rows_per_block``, or 100 for a function.

    Returns:
        :class:`~drystone.Simulations`; unpacks as ``theta, y``.

    Example:
        >>> import drystone as ds
        >>> theta, y = ds.simulate(ds.tasks.get("slcp"), n=1000, seed=1)
        >>> theta.shape, y.shape
        ((1000, 5), (1000, 8))
    """
    if isinstance(simulator, SimulatorWithPrior):
        name, function, default = repr(simulator), simulator.simulate, simulator.rows_per_block
        prior = simulator.prior if prior is None else prior
    else:
        name, function = getattr(simulator, "__qualname__", type(simulator).__qualname__), simulator
        default = DEFAULT_BLOCK
    if prior is None:
        raise TypeError("`prior` must be passed when `simulator` is a function; only a task has its own.")
    sampler_alone = hasattr(prior, "sample") and not hasattr(prior, "log_prob")  # which is enough here
    drawn_from = cast(Prior, prior) if sampler_alone else as_prior(prior)
    n, workers = as_integer("n", n), as_integer("workers", workers)
    block = as_integer("block", default if block is None else block)
    settings = {"simulator": name, "n": n, "seed": seed, "block": block}
    jobs = [Job(function, drawn_from, seed, b, min(block, n - b * block)) for b in range(-(-n // block))]
    if workers > 1 and client is None:
        _check_travels(jobs[0])

    if directory is not None:
        require("zarr", "files", "`directory`")
    with working_in(directory):
        store = None if directory is None else StoredBlocks(Path(directory), settings, jobs[0])
        if store is not None and (finished := store.finished()) is not None:
            return finished
        blocks = {} if store is None else store.read()
        missing = [job for job in jobs if job.index not in blocks]
        finished_rows = n - sum(job.rows for job in missing)
        with (
            progress_bar(n, " simulations", initial=finished_rows) as progress,
            worker_pool(client, min(workers, max(len(missing), 1))) as pool,
        ):
            for job, future in as_completed(
                missing, lambda job: pool.submit(simulate_block, job), pool.queue_depth
            ):
                blocks[job.index] = future.result()
                if store is not None:
                    store.write(job.index, blocks[job.index])
                progress.update(job.rows)

        if not any(block.good.any() for block in blocks.values()):
            if store is not None:
                store.clear()
            reasons = _format_failures(_count_failures(blocks.values()))
            raise RuntimeError(f"all {n} simulations failed: {reasons}.")
        simulations = _join([blocks[job.index] for job in jobs], settings)
        d = simulations.theta.shape[1]
        names = tuple(map(str, getattr(simulator, "parameters", ())))
        simulations = replace(simulations, parameters=names, support=_support(drawn_from, d))
        if store is not None:
            store.finish(simulations)
        if simulations.left_out:
            failed = n - len(simulations.row)
            warnings.warn(
                f"{failed} of {n} simulations failed and are left out: {_format_failures(simulations.left_out)}.",
                stacklevel=2,
            )
        return simulations


def _join(blocks: list[Block], settings: dict[str, Any]) -> Simulations:
    """Join the blocks without the rows that failed."""
    # If every row of a block raised, its number of data values is unknown.
    widths = sorted({block.y.shape[1] for block in blocks if block.good.any()})
    if len(widths) > 1:
        raise ValueError(f"`simulator` must always return the same number of data values; it returned {widths}.")
    theta = np.concatenate([block.theta[block.good] for block in blocks])
    y = np.concatenate([block.y[block.good] for block in blocks if block.good.any()])
    row = np.flatnonzero(np.concatenate([block.good for block in blocks]))
    return Simulations(theta, y, row, _count_failures(blocks), settings)


def _support(prior: Prior, d: int) -> Support | None:
    """Return the bounds of a prior, or None if it has none to tell."""
    try:
        return Support.of(prior, d)
    except (TypeError, ValueError):
        return None


def _count_failures(blocks: Iterable[Block]) -> dict[str, int]:
    """Count the failed rows by reason."""
    reasons = (reason for block in blocks for reason in block.reason.tolist() if reason)
    return dict(sorted(Counter(reasons).items()))


def _format_failures(failures: Mapping[str, int]) -> str:
    return "; ".join(f"{reason} ({count})" for reason, count in failures.items())


def _check_travels(job: Job) -> None:
    """Raise, before any process is started, if the simulator cannot be sent to one."""
    try:
        cloudpickle.dumps(job)
    except Exception as error:
        raise TypeError(
            "`simulator` and `prior` must be picklable to run with `workers` > 1: leave out what belongs to this "
            f"process (open files, locks, connections), or use workers=1. ({error})"
        ) from error
