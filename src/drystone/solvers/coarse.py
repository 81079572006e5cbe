"""A few of many rows: where a solver begins on a table that is large.

The optimum on 20,000 rows is nearly that on a hundred million, so that a few Newton steps on all of them remain.
"""

from __future__ import annotations

from collections.abc import Iterable

from drystone.table import Table

__all__ = ["coarse"]

# Rows to begin with: weights are then known to about 1/√ROWS of their scale, well inside Newton's reach.
ROWS = 20_000
# … or fewer, if they take more bytes than this.
BYTES = 2**28


def coarse(table: Table, needs: Iterable[str]) -> Table | None:
    """Every so many-th row in memory, with these statistics alone; None if that would hardly be fewer."""
    rows = min(ROWS, BYTES // table.bytes_of_row(needs))
    stride = table.N // max(rows, 1)
    return None if stride < 5 or rows < ROWS // 100 else table.part(needs, slice(None, None, stride))
