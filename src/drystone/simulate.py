"""Running a simulator many times: in parallel, on disk, resumable, with any number of workers the same."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import threading
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from drystone.files import recover, replacing
from drystone.simulations import FILE, Simulations
from drystone.tasks.prior import Prior
from drystone.tasks.task import Task

__all__ = ["simulate"]

Simulator = Callable[[NDArray[np.float64], np.random.Generator], NDArray]

BLOCKS = "simulations.blocks"
DEFAULT_BLOCK = 256
NON_FINITE = "non-finite values"


class Executor(Protocol):
    """What is needed of a ``client``: ``submit``, as Dask's client and ``concurrent.futures`` have it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Start ``fn(*args)`` and return a future with ``result()`` and ``cancel()``."""
        ...


def simulate(
    simulator: Task | Simulator,
    prior: Prior | None = None,
    n: int = 1000,
    seed: int = 0,
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
    is kept there; after a kill the same call continues with the missing blocks and ends with the same rows.

    Rows with NaN or infinite data are left out and counted. If the simulator raises, its block is run again
    row by row, each row with a stream of its own, and only the rows that raise are left out and counted.

    Args:
        simulator: A task, or a function ``(theta (N, d), rng) -> y (N, m)``. With several workers it must be
            importable: defined at the top level of a module; a script needs ``if __name__ == "__main__":``.
        prior: Has ``sample(n, rng) -> (n, d)``; may be omitted for a task, which has its own.
        n: Number of simulations.
        seed: Seed of all random numbers.
        workers: Number of processes on this machine.
        directory: Where ``simulations.zarr`` is written (none: memory only). If it is there already and was
            made with the same settings, it is read and nothing is simulated.
        client: A Dask client, or any executor with ``submit``, to run the blocks instead of local processes.
        block: Rows a call. Default: the task's ``rows_per_block``, or 256 for a function.

    Returns:
        :class:`~drystone.simulations.Simulations`; unpacks as ``theta, y``.

    Example:
        >>> import drystone as ds
        >>> theta, y = ds.simulate(ds.tasks.get("slcp"), n=1000, seed=1)
        >>> theta.shape, y.shape
        ((1000, 5), (1000, 8))
    """
    if prior is None:
        if not isinstance(simulator, Task):
            raise TypeError("`prior` must be given when `simulator` is a function; only a task has its own.")
        prior = simulator.prior
    block = block or (simulator.rows_per_block if isinstance(simulator, Task) else DEFAULT_BLOCK)
    for name, value in (("n", n), ("workers", workers), ("block", block)):
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1; got {value}.")
    settings = {"simulator": _name(simulator), "n": n, "seed": seed, "block": block}
    function = simulator.simulate if isinstance(simulator, Task) else simulator
    jobs = [_Job(function, prior, seed, b, min(block, n - b * block)) for b in range(-(-n // block))]
    if workers > 1 and client is None:
        _check_importable(jobs[0])

    store = None if directory is None else _Store(Path(directory), settings, jobs[0])
    if store is not None and (finished := store.finished()) is not None:
        return finished
    blocks = {} if store is None else store.blocks()
    missing = [job for job in jobs if job.index not in blocks]
    done = n - sum(job.rows for job in missing)
    with tqdm(total=n, initial=done, unit=" simulations", disable=None) as progress:
        for job, result in zip(missing, _results(missing, workers, client), strict=True):
            blocks[job.index] = result
            if store is not None:
                store.keep(job.index, result)
            progress.update(job.rows)

    simulations = _joined([blocks[job.index] for job in jobs], settings)
    if store is not None:
        store.finish(simulations)
    if simulations.left_out:
        reasons = "; ".join(f"{reason} ({count})" for reason, count in simulations.left_out.items())
        failed = sum(simulations.left_out.values())
        warnings.warn(f"{failed} of {n} simulations failed and are left out: {reasons}.", stacklevel=2)
    return simulations


@dataclass(frozen=True, eq=False)
class _Job:
    """One block to be simulated."""

    function: Simulator
    prior: Prior
    seed: int
    index: int
    rows: int

    def streams(self) -> list[np.random.SeedSequence]:
        """Seeds for the prior, for the block as a whole, and for its rows when they are run alone."""
        return np.random.SeedSequence(self.seed, spawn_key=(self.index,)).spawn(3)

    def theta(self) -> NDArray[np.float64]:
        """Draw the parameters of the block, shape (rows, d)."""
        theta = np.asarray(self.prior.sample(self.rows, np.random.default_rng(self.streams()[0])), dtype=float)
        if theta.ndim != 2 or len(theta) != self.rows:
            raise ValueError(
                f"`prior.sample` must return shape (n, d) = ({self.rows}, d); it returned {theta.shape}."
            )
        return theta


@dataclass(frozen=True, eq=False)
class _Block:
    """The rows of a block, failed ones with NaN for data, and why they failed ('' if they did not)."""

    theta: NDArray[np.float64]
    y: NDArray[np.floating]
    reason: NDArray[np.str_]


def _simulate_block(job: _Job) -> _Block:
    """Simulate a block with one call; if that raises, row by row. Runs in the worker."""
    theta = job.theta()
    _, whole, rows = job.streams()
    try:
        y = job.function(theta, np.random.default_rng(whole))
    except Exception:
        # Which row is at fault is not known, and the others shall not be lost.
        streams = rows.spawn(job.rows)
        outcomes = [_simulate_row(job.function, row, stream) for row, stream in zip(theta, streams, strict=True)]
        reason = np.array([why for _, why in outcomes], dtype=np.str_)
        good = [values for values, why in outcomes if not why]
        y = np.full((job.rows, good[0].shape[1] if good else 0), np.nan)
        if good:
            y[reason == ""] = np.concatenate(good)
            y = y.astype(good[0].dtype)
    else:
        y = _data(y, job.rows)
        reason = np.full(job.rows, "", dtype=np.str_)
    bad = ~np.isfinite(y).all(1) & (reason == "")
    return _Block(theta, y, np.where(bad, NON_FINITE, reason))


def _simulate_row(
    function: Simulator, theta: NDArray[np.float64], stream: np.random.SeedSequence
) -> tuple[NDArray[np.floating], str]:
    """Simulate one row (1, m); on failure return no data and the reason."""
    try:
        y = function(theta[None], np.random.default_rng(stream))
    except Exception as error:
        message = str(error).partition("\n")[0][:200]
        return np.empty((0, 0)), f"{type(error).__name__}: {message}" if message else type(error).__name__
    return _data(y, 1), ""


def _data(y: NDArray, rows: int) -> NDArray[np.floating]:
    """Check what the simulator returned. A wrong shape is its author's error, not a failed simulation."""
    y = np.asarray(y)
    if y.ndim != 2 or len(y) != rows:
        raise ValueError(f"`simulator` must return shape (N, m) = ({rows}, m); it returned {y.shape}.")
    return y if np.issubdtype(y.dtype, np.floating) else y.astype(float)


def _results(jobs: list[_Job], workers: int, client: Executor | None) -> Iterator[_Block]:
    """Yield the blocks in the order of the jobs."""
    if client is not None:
        yield from _submitted(client, jobs)
    elif workers == 1 or len(jobs) < 2:
        yield from map(_simulate_block, jobs)
    else:
        # Spawned, not forked: safe with threads, and the same on every system.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(workers, len(jobs)), context, _end_with_parent) as pool:
            yield from _submitted(pool, jobs)


def _submitted(executor: Executor, jobs: Iterable[_Job]) -> Iterator[_Block]:
    futures = deque(executor.submit(_simulate_block, job) for job in jobs)
    try:
        while futures:
            yield futures.popleft().result()
    finally:
        for future in futures:
            future.cancel()


def _end_with_parent() -> None:
    """End this worker when its parent is killed; otherwise it would wait for work for ever."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _joined(blocks: list[_Block], settings: dict[str, Any]) -> Simulations:
    """Put the blocks together, without the rows that failed."""
    reason = np.concatenate([block.reason for block in blocks])
    left_out = dict(sorted(Counter(why for why in reason.tolist() if why).items()))
    good = [block for block in blocks if (block.reason == "").any()]
    if not good:
        reasons = "; ".join(f"{why} ({count})" for why, count in left_out.items())
        raise RuntimeError(f"all {len(reason)} simulations failed: {reasons}. Nothing is stored as finished.")
    widths = sorted({block.y.shape[1] for block in good})
    if len(widths) > 1:
        raise ValueError(f"`simulator` must return the same number of data values always; it returned {widths}.")
    theta = np.concatenate([block.theta[block.reason == ""] for block in good])
    y = np.concatenate([block.y[block.reason == ""] for block in good])
    return Simulations(
        theta, y, np.flatnonzero(reason == ""), MappingProxyType(left_out), MappingProxyType(settings)
    )


class _Store:
    """The directory of one run of :func:`simulate`: its blocks, and at the end ``simulations.zarr``."""

    def __init__(self, directory: Path, settings: dict[str, Any], first: _Job) -> None:
        self.directory, self.settings, self.first = directory, settings, first
        self.parts = directory / BLOCKS

    def finished(self) -> Simulations | None:
        """Read the finished store, or None if there is none yet."""
        recover(self.directory / FILE)
        if not (self.directory / FILE).exists():
            return None
        simulations = Simulations.load(self.directory)
        kept = simulations.row < self.first.rows
        self._check(dict(simulations.settings), simulations.theta[kept], simulations.row[kept])
        shutil.rmtree(self.parts, ignore_errors=True)  # left if the process was killed just before its end
        return simulations

    def blocks(self) -> dict[int, _Block]:
        """Read the blocks of an interrupted run; start the record of settings if there was none."""
        file = self.parts / "settings.json"
        if not file.exists():
            with replacing(file) as temporary:
                temporary.write_text(json.dumps(self.settings, indent=1))
        blocks = {}
        for path in sorted(self.parts.glob("block-*.npz")):
            with np.load(path, allow_pickle=False) as arrays:
                blocks[int(path.stem.removeprefix("block-"))] = _Block(
                    arrays["theta"], arrays["y"], arrays["reason"]
                )
        theta = blocks[0].theta if 0 in blocks else np.empty((0, 0))
        self._check(json.loads(file.read_text()), theta, np.arange(len(theta)))
        return blocks

    def keep(self, index: int, block: _Block) -> None:
        """Write one finished block."""
        with replacing(self.parts / f"block-{index:06d}.npz") as temporary, temporary.open("wb") as file:
            np.savez(file, theta=block.theta, y=block.y, reason=block.reason)

    def finish(self, simulations: Simulations) -> None:
        """Write ``simulations.zarr`` and remove the blocks."""
        simulations.save(self.directory)
        shutil.rmtree(self.parts)

    def _check(self, settings: dict[str, Any], theta: NDArray[np.float64], row: NDArray[np.int64]) -> None:
        """Raise if what is stored was made with other settings or another prior (its draws tell)."""
        if settings != self.settings:
            raise ValueError(
                f"'{self.directory}' holds simulations made with {settings}; "
                f"these are asked for: {self.settings}. "
                "Use another directory, or remove it."
            )
        if len(row) and not np.array_equal(theta, self.first.theta()[row]):
            raise ValueError(
                f"'{self.directory}' holds simulations whose parameters were drawn from another prior. "
                "Use another directory, or remove it."
            )


def _name(simulator: Task | Simulator) -> str:
    """Name the simulator in the record of settings."""
    if isinstance(simulator, Task):
        return repr(simulator)
    return getattr(simulator, "__qualname__", type(simulator).__qualname__)


def _check_importable(job: _Job) -> None:
    """Raise before any process is started if the simulator cannot be sent to one."""
    try:
        ForkingPickler.dumps(job)
    except Exception as error:
        raise TypeError(
            "`simulator` and `prior` must be importable to run with `workers` > 1: define them at the top "
            f"level of a module instead of in a function or as a lambda, or use workers=1. ({error})"
        ) from error
