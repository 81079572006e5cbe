"""Statistics of rows that carry weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

__all__ = ["resampled", "standard_error"]


def standard_error(rows: np.ndarray, a: np.ndarray) -> float:
    """Of the weighted mean Σ a_n rows_n, with Σ a_n = 1; NaN where one row carries all the weight."""
    if a.max() >= 1:
        return float("nan")
    return float(np.sqrt((a**2 * (rows - a @ rows) ** 2).sum()))


def resampled(a: np.ndarray, times: int, seed: int) -> Iterator[np.ndarray]:
    """Bootstrap weights: rows drawn with replacement, alike, each carrying its own weight."""
    rng, N = np.random.default_rng(seed), len(a)
    for _ in range(times):
        weights = rng.multinomial(N, np.full(N, 1 / N)) * a
        yield weights / weights.sum()
