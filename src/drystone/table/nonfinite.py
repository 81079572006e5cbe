"""Members and rows that cannot be used: NaN, infinities, densities of 0 from every member, rows of weight 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from drystone._messages import first_few
from drystone.table import blocks
from drystone.table.inputs import Crossing, first_crossing
from drystone.table.statistics import CAPABILITIES, Key, usable
from drystone.table.table import Table

# Numbers that are looked at together.
ENTRIES = 2**20

__all__ = ["Nonfinite", "count_nonfinite", "drop_zero_weight_rows", "name_members"]


class Nonfinite(NamedTuple):
    """What of a table cannot be used.

    Attributes:
        counts: at how many rows a capability of a member cannot be, (needs, K).
        rows: where no member can be used, as those of failed simulations.
        empty: where every density is 0.
    """

    counts: np.ndarray
    rows: np.ndarray
    empty: np.ndarray


def count_nonfinite(table: Table, needs: Sequence[str]) -> Nonfinite:
    """Return which members and rows of a table cannot be used where these capabilities are needed.

    Members that lack a capability altogether are not counted: they are known by :meth:`drystone.Table.has`.
    Quantiles on disk that cross are refused here, in the pass that reads them; those in memory were before.
    """
    counts, rows, empty, before = 0, [], [], 0
    ordered = blocks.in_memory(table) or "interval" not in needs
    for of_block, unusable, impossible, crossing, n in blocks.each(table, _count_in_block, needs, ordered):
        if crossing is not None:
            raise crossing.error(table.names, before)
        rows.append(unusable + before)
        empty.append(impossible + before)
        counts, before = counts + of_block, before + n
    return Nonfinite(np.asarray(counts), np.concatenate(rows), np.concatenate(empty))


def name_members(table: Table, counts: np.ndarray) -> str:
    """Return the members with counts (K,) above 0, in words."""
    return first_few([f"{table.names[k]!r} at {counts[k]} of {table.N} rows" for k in np.flatnonzero(counts)])


def drop_zero_weight_rows(table: Table) -> Table:
    """Return the rows with a weight above 0: 0 · (−∞) of another would be NaN."""
    positive = table.row_weights > 0 if table.weighted else np.array(True)
    return table if positive.all() else table.select(rows=np.flatnonzero(positive))


def _count_in_block(
    block: Table, needs: Sequence[str], ordered: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Crossing | None, int]:
    unusable = np.array([_unusable(block, need) for need in needs])
    rows = np.flatnonzero(unusable.any(0).all(0))
    impossible = np.empty(0, int)
    if "log_q" in needs:
        impossible = (block.log_q[block.has("log_q")] == -np.inf).all(0).nonzero()[0]
    elif "points" in needs:  # the first of them is the truth
        impossible = (block.log_f[block.has("points"), :, 0] == -np.inf).all(0).nonzero()[0]
    crossing = None if ordered else first_crossing({level: block.quantile(level) for level in block.levels})
    return unusable.sum(2), rows, impossible, crossing, block.N


def _unusable(block: Table, need: str) -> np.ndarray:
    """Return where the statistics of a capability cannot be used, (K, N)."""
    keys: list[Key] = []
    for name in CAPABILITIES[need]:
        # Intervals of a table without levels are still to be derived from draws.
        keys += (block.levels or ["draws"]) if name == "quantiles" else [name]
    unusable = np.zeros((block.K, block.N), bool)
    for array, key in ((block._statistic(key), key) for key in keys):
        # Few members at a time where they are large: draws may lie in files.
        step = max(1, block.K * ENTRIES // int(np.prod(array.shape, dtype=int)))
        for start in range(0, block.K, step):
            some = slice(start, start + step)
            unusable[some] |= ~usable(key, np.asarray(array[some]))
    unusable[~block.has(need)] = False
    return unusable
