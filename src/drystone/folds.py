"""Folds of rows for cross-validation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

__all__ = ["split_folds"]


def split_folds(N: int, folds: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of rows to fit on and rows to test on; every row is tested on once."""
    if not 2 <= folds <= N:
        raise ValueError(f"`folds` must be between 2 and the number of rows, {N}; got {folds}.")
    order = np.random.default_rng(seed).permutation(N)
    for test in np.array_split(order, folds):
        yield np.setdiff1d(order, test), np.sort(test)
