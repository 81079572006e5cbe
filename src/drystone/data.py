"""The data y of a table as features: flat, finite, standardised."""

from __future__ import annotations

import numpy as np

from drystone.table import Table

__all__ = ["flat_data", "spread_or_one"]


def flat_data(table: Table, why: str) -> np.ndarray:
    """y as (N, m) in float64, or an error that says ``why`` it is needed."""
    if table.y is None:
        raise ValueError(f"{why} `y` in the table; got None.")
    y = np.asarray(table.y, float).reshape(table.N, -1)
    bad = np.flatnonzero(~np.isfinite(y).all(1))
    if bad.size:
        raise ValueError(
            f"{why} finite `y`; {bad.size} of {table.N} rows are not (the first: {bad[0]}). Select others."
        )
    return y


def spread_or_one(x: np.ndarray) -> np.ndarray:
    """Standard deviation of each column, or 1 where a column is constant but for rounding."""
    spread = x.std(0)
    return np.where(spread > 1e-12 * np.abs(x).max(0), spread, 1.0)
