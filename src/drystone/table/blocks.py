"""Tables in blocks of rows, for more rows than memory holds, and what is computed once per table.

Everything the solvers ask of a table is a sum over blocks of rows. A table in memory is one block. Of a table on
disk each block is read, used and forgotten: here or by the workers of a cluster, which open the store by its path.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from drystone.table.inputs import Selection
from drystone.table.sources import BlockRows, MemoryRows
from drystone.table.statistics import POINT_ARRAYS, Key, as_arguments, axes_of, columns_for, derivable

if TYPE_CHECKING:
    from drystone._parallel import Executor
    from drystone.table.table import Table

__all__ = [
    "bytes_per_row",
    "cached",
    "concatenated",
    "derived",
    "each",
    "extract",
    "has_array",
    "held",
    "in_memory",
    "load",
    "memory_limit",
    "part",
    "point_arrays",
    "prepare",
    "sliced_draws",
    "statistic_of_all_rows",
    "total",
    "with_own_cache",
    "with_statistics",
]

T = TypeVar("T")


# ── passes over the rows ─────────────────────────────────────────────────────────────────────────────────


def each(table: Table, part: Callable[..., T], *arguments: Any) -> Iterator[T]:
    """Yield ``part(block, *arguments)`` for every block of rows, in order.

    A block is a table whose ``row_weights`` are those its rows have in the whole, so that what is a mean over rows
    of a table in memory is, for a block, its share of the mean.
    """
    source = table._source
    if isinstance(source, MemoryRows):
        yield part(table, *arguments)
        return
    from drystone._parallel import map_ordered, worker_pool  # which imports torch: not for tables in memory

    with worker_pool(source.client) as pool:
        yield from map_ordered(
            _blocks(table), lambda block: pool.submit(_on_block, block, part, arguments), pool.queue_depth
        )


def total(table: Table, part: Callable[..., tuple[Any, ...]], *arguments: Any) -> tuple[Any, ...]:
    """Return the sum of ``part(block, *arguments)`` over the blocks, entry by entry of the tuples it returns."""
    return reduce(_added, each(table, part, *arguments))


def prepare(table: Table, needs: Iterable[str], client: Executor | None = None) -> Table:
    """Return the same table, to be read in blocks of a size for these capabilities, by a ``client`` if any.

    A table in memory needs no preparation: there is nothing to send away.
    """
    source = table._source
    if isinstance(source, MemoryRows):
        return table
    client = source.client if client is None else client
    return table._with(source.reading(needs, client), table._weights)


def _blocks(table: Table) -> Iterator[Table]:
    """Yield a table on disk in parts that are small enough to be read, each with its share of the weights."""
    source, weights = table._source, table._weights
    assert not isinstance(source, MemoryRows)
    for rows, where in source.blocks():
        yield table._with(rows, np.full(rows.N, 1 / table.N) if weights is None else weights[where])


def _on_block(block: Table, part: Callable[..., T], arguments: tuple[Any, ...]) -> T:
    """Run ``part`` in a worker. What is read is held by a table of its own: Dask keeps ``block`` for longer."""
    from drystone._parallel import one_thread

    assert not isinstance(block._source, MemoryRows)
    with one_thread():
        return part(block._with(BlockRows(block._source), block._weights), *arguments)


def _added(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a + b for a, b in zip(first, second, strict=True))


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────


def in_memory(table: Table) -> bool:
    """Return whether the rows of a table are in memory."""
    return isinstance(table._source, MemoryRows)


def held(table: Table, need: str) -> bool:
    """Return whether a table holds what a capability takes, and need not derive it from draws."""
    return "draws" not in columns_for([need], table._source.keys)


def has_array(table: Table, name: str) -> bool:
    """Return whether a table holds an array of this name, such as ``effective``."""
    return name in table._source.keys


def memory_limit(table: Table) -> int | None:
    """Return how many bytes of a table on disk may be read at once; None for a table in memory."""
    return None if isinstance(table._source, MemoryRows) else table._source.memory


def bytes_per_row(table: Table, needs: Iterable[str]) -> int:
    """Return how many bytes one row of the statistics takes that these capabilities need."""
    return table._source.bytes_per_row(needs)


def load(table: Table, needs: Iterable[str] | None = None) -> Table:
    """Return the table in memory; of one on disk what these capabilities need (None: all), if it fits."""
    source = table._source
    if isinstance(source, MemoryRows):
        return table
    needs = table.gives if needs is None else frozenset(needs)
    source.check_size(table.N * source.bytes_per_row(needs), "what is needed of all rows")
    # It is needed here, so it does not go through the workers.
    return extract(table._with(source.reading(needs, None), table._weights), needs, slice(None))


def part(table: Table, members: Selection = None, rows: Selection = None) -> Table:
    """Return some members and rows to look at for a while: of a table in memory, arrays are copied when used.

    All arrays of ``table`` stay in memory with the one that is returned.
    """
    source = table._source
    return table._part(members, rows, source.part if isinstance(source, MemoryRows) else source.select)


def derived(table: Table, needs: Iterable[str]) -> Table:
    """Return the same table, ranks and moments derived from draws if needed: its parts then take them from it."""
    source = table._source
    if isinstance(source, MemoryRows):
        for key in derivable(needs, source.keys):
            source.statistic(key)
    return table


def sliced_draws(table: Table) -> Any:
    """Return the draws, (K, N, S, d), as anything that slices to NumPy along its first axis."""
    source = table._source
    return source.sliced_draws if isinstance(source, MemoryRows) else table.draws


def extract(table: Table, needs: Iterable[str], rows: Selection) -> Table:
    """Return a table of some rows in memory, with the statistics alone that these capabilities need."""
    source = table._source
    if isinstance(source, MemoryRows):
        columns = source.only(columns_for(needs, source.keys))
        return table._with(columns, table._weights).select(rows=rows)
    part = prepare(table.select(rows=rows), needs)
    stored = part._source
    assert not isinstance(stored, MemoryRows)
    values: dict[Key, np.ndarray] = {}
    start = 0
    for of_block in each(part, _statistics, stored.columns):
        n = next(iter(of_block.values())).shape[1]
        for key, array in of_block.items():
            if key not in values:
                values[key] = np.empty((part.K, part.N, *array.shape[2:]), array.dtype)
            values[key][:, start : start + n] = array
        start += n
    shared: dict[str, Any] = {}
    if "log_f" in values:
        shared = {name: stored.read_array(name) for name in point_arrays(part)}
    return type(table)(
        stored.read_array("theta"),
        stored.read_array("y") if "y" in stored.row_arrays else None,
        names=part.names,
        parameters=part.parameters,
        row_weights=part._weights,
        left_out=part.left_out,
        S=part.S,
        lacking=part.lacking,
        likelihoods=part.likelihoods,
        **as_arguments(values),
        **shared,
    )


def with_statistics(table: Table, keys: Iterable[Key]) -> Table:
    """Return a table in memory with these statistics alone, which it holds or derives from draws once."""
    source = table._source
    assert isinstance(source, MemoryRows)
    for key in (keys := list(keys)):
        source.statistic(key)
    return table._with(source.only(keys), table._weights)


def point_arrays(table: Table) -> list[str]:
    """Return the names of the arrays of shared points that a table has."""
    return [name for name in POINT_ARRAYS if name in table._source.row_arrays]


def statistic_of_all_rows(table: Table, key: Key) -> np.ndarray:
    """Return a statistic of a table on disk, (K, N, ...), read or derived from draws, if it fits into memory."""
    source = table._source
    assert not isinstance(source, MemoryRows)
    if key in source.keys:
        size = table.K * table.N * source.store.bytes_per_row(key)
    else:
        size = 8 * table.K * table.N * table.d ** axes_of(key).count("d")
    return concatenated(table, size, key, _statistic, key)


def concatenated(
    table: Table, size: int, key: Key, part: Callable[..., np.ndarray], *arguments: Any
) -> np.ndarray:
    """Return ``part(block, *arguments)``, (K, n, ...), of all blocks as one array, if ``size`` bytes fit."""
    source = table._source
    assert not isinstance(source, MemoryRows)
    source.check_size(size, f"`{key}` of all rows")
    return np.concatenate(list(each(table, part, *arguments)), 1)


def _statistic(block: Table, key: Key) -> np.ndarray:
    return block._statistic(key)


def _statistics(block: Table, keys: list[Key]) -> dict[Key, np.ndarray]:
    return {key: block._statistic(key) for key in keys}


# ── what is computed once ────────────────────────────────────────────────────────────────────────────────


def cached(table: Table, function: Callable[..., T], *arguments: Hashable) -> T:
    """Return ``function(table, *arguments)``, computed once per table in memory; a table on disk holds nothing."""
    if not in_memory(table):
        return function(table, *arguments)
    key = (function, arguments)
    if key not in table._cache:
        table._cache[key] = function(table, *arguments)
    return table._cache[key]


def with_own_cache(table: Table) -> Table:
    """Return the same table with a cache of its own, which is freed when that table is."""
    return table._with(table._source, table._weights)
