"""Members and rows that cannot be used: NaN, infinities, densities of 0 from everybody."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drystone._messages import first_few
from drystone.table.table import Table

__all__ = ["culprits", "flaws"]


def flaws(table: Table, statistics: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """At how many rows statistics cannot be used, (statistics, K), and the rows where every density is 0."""
    counts, empty, before = 0, [], 0
    for of_block, impossible, n in table.each(_of_block, statistics):
        counts, before = counts + of_block, before + n
        empty.append(impossible + before - n)
    return np.asarray(counts), np.concatenate(empty)


def culprits(table: Table, counts: np.ndarray) -> str:
    """The members with counts (K,) above 0, in words."""
    return first_few([f"{table.names[k]!r} at {counts[k]} of {table.N} rows" for k in np.flatnonzero(counts)])


def _of_block(block: Table, statistics: Sequence[str]) -> tuple[np.ndarray, np.ndarray, int]:
    counts = np.array([_unusable(block, name).sum(1) for name in statistics])
    impossible = (block.log_q == -np.inf).all(0).nonzero()[0] if "log_q" in statistics else np.empty(0, int)
    return counts, impossible, block.N


def _unusable(table: Table, name: str) -> np.ndarray:
    """Where a statistic cannot be used, (K, N): NaN or ±inf; for a density, −inf is fine."""
    if name == "log_q":
        return np.isnan(table.log_q) | (table.log_q == np.inf)
    if name == "draws":
        return np.stack([~np.isfinite(np.asarray(table.draws[k])).all((1, 2)) for k in range(table.K)])
    arrays = {"rank": ["rank"], "mean": ["mean"], "moments": ["mean", "cov"]}.get(name, [])
    values = [getattr(table, array) for array in arrays] or [table.quantile(level) for level in table.levels]
    if not values:  # intervals still to be derived from draws
        return _unusable(table, "draws")
    return np.logical_or.reduce([~np.isfinite(v).reshape(table.K, table.N, -1).all(2) for v in values])
