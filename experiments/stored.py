"""What takes long to compute, kept on disk so that an interrupted experiment continues, and how long it took."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from drystone._files import replacing

__all__ = ["Minutes", "by_blocks", "stored", "timed"]

BLOCK = 50
T = TypeVar("T")


class Minutes(NamedTuple):
    """How long something took; NaN if it was interrupted, since it is not counted in part."""

    clock: float
    processor: float


def stored(path: Path, values: Callable[[], np.ndarray]) -> np.ndarray:
    """Return an array from disk, computed first if it is not there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.save(file, values())
    return np.load(path)


def by_blocks(
    folder: Path, log_density: Callable[[np.ndarray, np.ndarray], np.ndarray], theta: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Return log densities of rows, computed block by block; blocks that are on disk are read."""
    values = []
    for start in range(0, len(theta), BLOCK):
        block = theta[start : start + BLOCK], y[start : start + BLOCK]
        values.append(stored(folder / f"{start}.npy", partial(log_density, *block)))
    return np.concatenate(values)


def timed(folder: Path, work: Callable[[], T]) -> tuple[T, Minutes]:
    """Return the result of work that fills a folder, and the minutes of when it did."""
    begun_before, clock, processor = folder.exists(), time.perf_counter(), time.process_time()
    result = work()
    taken = np.array([time.perf_counter() - clock, time.process_time() - processor]) / 60
    path = folder.with_name(f"{folder.name}-minutes.npy")
    return result, Minutes(*stored(path, lambda: np.full(2, np.nan) if begun_before else taken).tolist())
