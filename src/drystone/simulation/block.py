"""One block of simulations: drawn from its own random streams, with failed rows marked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from drystone._arrays import as_numpy
from drystone.simulation.prior import Prior

__all__ = ["Block", "Job", "Simulator", "SimulatorWithPrior", "simulate_block"]

Simulator = Callable[[NDArray[np.float64], np.random.Generator], NDArray]

NON_FINITE = "non-finite values"


@runtime_checkable
class SimulatorWithPrior(Protocol):
    """A simulator with a prior, such as a :class:`drystone.Task`."""

    @property
    def prior(self) -> Prior:
        """The prior."""
        ...

    @property
    def rows_per_block(self) -> int:
        """Number of rows to simulate in one call."""
        ...

    def simulate(self, theta: NDArray[np.float64], rng: np.random.Generator) -> NDArray:
        """Return data (N, m) for parameters (N, d)."""
        ...


@dataclass(frozen=True, eq=False)
class Job:
    """A block to be simulated.

    Attributes:
        simulator: Maps parameters (N, d) and a generator to data (N, m).
        prior: The prior.
        seed: Seed of the whole run.
        index: Number of the block in the run.
        rows: Number of its rows.
    """

    simulator: Simulator
    prior: Prior
    seed: int
    index: int
    rows: int

    def streams(self) -> list[np.random.SeedSequence]:
        """Return seeds for the prior, for the block as a whole, and for its rows when they are run alone."""
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
class Block:
    """A simulated block.

    Attributes:
        theta: Parameters, shape (rows, d).
        y: Data, shape (rows, m); NaN in rows that raised.
        reason: Reason of each row's failure, shape (rows,); '' if it did not fail.
    """

    theta: NDArray[np.float64]
    y: NDArray[np.floating]
    reason: NDArray[np.str_]

    @property
    def good(self) -> NDArray[np.bool_]:
        """Mask of the rows that did not fail."""
        return self.reason == ""


def simulate_block(job: Job) -> Block:
    """Simulate a block with one call or, if that raises, row by row; workers run this function."""
    theta = job.theta()
    _, whole, rows = job.streams()
    try:
        y = job.simulator(theta, np.random.default_rng(whole))
    except Exception:
        # It is not known which row raised, and the others must not be lost.
        return _row_by_row(job.simulator, theta, rows.spawn(job.rows))
    y = _data(y, job.rows)
    return Block(theta, y, np.where(np.isfinite(y).all(1), "", NON_FINITE))


def _row_by_row(simulator: Simulator, theta: NDArray[np.float64], streams: list[np.random.SeedSequence]) -> Block:
    """Simulate each row with its own stream, and record the errors of rows that raise."""
    rows, reasons = [], []
    for row, stream in zip(theta, streams, strict=True):
        try:
            y = simulator(row[None], np.random.default_rng(stream))
        except Exception as error:
            message = str(error).partition("\n")[0][:200]
            reasons.append(f"{type(error).__name__}: {message}" if message else type(error).__name__)
            continue
        y = _data(y, 1)
        reasons.append("" if np.isfinite(y).all() else NON_FINITE)
        rows.append(y)
    returned = np.array([reason in {"", NON_FINITE} for reason in reasons])
    values = np.concatenate(rows) if rows else np.empty((0, 0))
    y = np.full((len(theta), values.shape[1]), np.nan, dtype=values.dtype)
    y[returned] = values
    return Block(theta, y, np.array(reasons, dtype=np.str_))


def _data(y: NDArray, rows: int) -> NDArray[np.floating]:
    """Return the simulator's data as floats; a wrong shape is an error of the code, not a failed simulation."""
    y = as_numpy(y)
    if y.ndim != 2 or len(y) != rows:
        raise ValueError(f"`simulator` must return shape (N, m) = ({rows}, m); it returned {y.shape}.")
    return y if np.issubdtype(y.dtype, np.floating) else y.astype(float)
