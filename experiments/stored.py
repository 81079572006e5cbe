"""Arrays that take long to compute, kept on disk so that an interrupted experiment continues."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from drystone._files import replacing

__all__ = ["by_blocks", "stored"]

BLOCK = 50


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
