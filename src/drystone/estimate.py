"""Means over weighted rows, their standard errors, and how both are printed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

__all__ = ["plus_minus", "resampled", "split_folds", "standard_error"]


def plus_minus(value: float, se: float, sign: str = "") -> str:
    """``value ± se`` with the digits that the standard error supports.

    Args:
        value: nothing is printed for NaN.
        se: two of its digits are printed.
        sign: "+" to print the sign of positive values too.

    Example:
        >>> plus_minus(0.123456, 0.0123), plus_minus(3.2, 0.4, "+")
        ('0.123 ± 0.012', '+3.20 ± 0.40')
    """
    if np.isnan(value):
        return ""
    digits = 4 if not 1e-12 < se < np.inf else int(np.clip(1 - np.floor(np.log10(se)), 0, 8))
    return f"{value:{sign}.{digits}f} ± {se:.{digits}f}"


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


def split_folds(N: int, folds: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of rows to fit on and rows to test on; every row is tested on once."""
    if not 2 <= folds <= N:
        raise ValueError(f"`folds` must be between 2 and the number of rows, {N}; got {folds}.")
    order = np.random.default_rng(seed).permutation(N)
    for test in np.array_split(order, folds):
        yield np.setdiff1d(order, test), np.sort(test)
