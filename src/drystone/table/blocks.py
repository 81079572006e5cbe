"""Tables on disk that are read in blocks of rows: for more rows than memory holds.

Everything the solvers ask of such a table is a sum over blocks of rows. Each block is read, used and forgotten:
here, or by the workers of a cluster, which open the store by its path.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from copy import copy
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import zarr

from drystone._files import check_seal
from drystone._parallel import Executor, map_ordered, one_thread, worker_pool
from drystone.table import disk as table_files
from drystone.table.inputs import columns_for, level_key, positions, scaled_weights
from drystone.table.table import Statistic, Table

__all__ = ["Columns", "Key", "Source", "StoredTable"]

# A statistic by name, or a level for the quantiles at it.
Key = str | float


class Source:
    """A store on disk, opened anew in each process that reads it.

    Args:
        path: of the Zarr store.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[type[Source], tuple[str]]:
        return Source, (self.path,)

    @cached_property
    def group(self) -> zarr.Group:
        """The store."""
        return zarr.open_group(self.path, mode="r")

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """What the store says of itself."""
        return self.group.attrs.asdict()

    @cached_property
    def levels(self) -> list[float]:
        """Levels of the quantiles it holds."""
        return [level_key(level) for level in np.asarray(self.array("level"))] if "level" in self.group else []

    @cached_property
    def keys(self) -> list[Key]:
        """The statistics it holds; quantiles by level."""
        return [*(name for name in table_files.STATISTICS if name in self.group), *self.levels]

    def array(self, name: str) -> zarr.Array:
        """One of its arrays."""
        array = self.group[name]
        assert isinstance(array, zarr.Array)
        return array

    def bytes_of_row(self, key: Key) -> int:
        """What a row of an array takes, of one member if it has members."""
        array, lead = self._of_statistic(key)
        before = len(lead) + (key in self.keys)
        return array.dtype.itemsize * int(np.prod(array.shape[before + 1 :], dtype=int))

    def chunk(self, key: Key) -> int:
        """How many rows are stored together."""
        array, lead = self._of_statistic(key)
        return array.chunks[len(lead) + 1]

    def rows(self, name: str, rows: range | np.ndarray) -> np.ndarray:
        """Rows of theta, y or row_weights."""
        stretch, inside = _stretch(rows)
        return np.asarray(self.array(name)[stretch])[inside]

    def statistic(self, key: Key, members: np.ndarray, rows: range | np.ndarray) -> np.ndarray:
        """A statistic of some members on some rows, (K, N, ...)."""
        stretch, inside = _stretch(rows)
        array, lead = self._of_statistic(key)
        if np.array_equal(members, np.arange(array.shape[len(lead)])):
            values = np.asarray(array[(*lead, slice(None), stretch)])
        else:  # a chunk is one member's, so that the others are not read
            values = np.stack([np.asarray(array[(*lead, int(k), stretch)]) for k in members])
        return values[:, inside]

    def _of_statistic(self, key: Key) -> tuple[zarr.Array, tuple[int, ...]]:
        """The array of a statistic and what goes before its axis of members."""
        if isinstance(key, str):
            return self.array(key), ()
        return self.array("quantiles"), (self.levels.index(key),)


class Columns(MutableMapping[Key, Any]):
    """Statistics by name, read when they are asked for.

    Args:
        keys: the names of those on disk.
        read: reads one.
        keep: whether to keep what was read, or derived, for the next time.
    """

    def __init__(self, keys: Iterable[Key], read: Callable[[Key], np.ndarray], keep: bool) -> None:
        self._keys, self._read, self._keep = list(keys), read, keep
        self._kept: dict[Key, Any] = {}

    def __getitem__(self, key: Key) -> Any:
        if key in self._kept:
            return self._kept[key]
        if key not in self._keys:
            raise KeyError(key)
        value = self._read(key)
        if self._keep:
            self._kept[key] = value
        return value

    def __setitem__(self, key: Key, value: Any) -> None:
        self._kept[key] = value

    def __delitem__(self, key: Key) -> None:
        del self._kept[key]

    def __contains__(self, key: object) -> bool:
        return key in self._keys or key in self._kept

    def __iter__(self) -> Iterator[Key]:
        return iter([*self._keys, *(key for key in self._kept if key not in self._keys)])

    def __len__(self) -> int:
        return len(list(iter(self)))


def _stretch(rows: range | np.ndarray) -> tuple[slice, Any]:
    """The stretch of a store that contains these (increasing) rows, and where they are in it."""
    if isinstance(rows, range):
        return slice(rows.start, rows.stop, rows.step), slice(None)
    return slice(int(rows[0]), int(rows[-1]) + 1), rows - rows[0]


T = TypeVar("T")


class StoredTable(Table):
    """A table on disk; :meth:`drystone.Table.open` makes one.

    What is asked for as a whole is read and handed over if it takes at most ``memory`` bytes, else an error says
    what to do instead. :func:`drystone.stack` never asks for more than a block of rows where the score is a sum
    over rows.

    Attributes:
        resident: False; True for a block of rows, which is held in memory while it is used.
    """

    resident: bool = False
    memory: int
    client: Executor | None = None
    _needs: frozenset[str] = frozenset()

    @classmethod
    def at(cls, path: str | os.PathLike[str], memory: int) -> StoredTable:
        """The table of a store."""
        path = Path(path)
        if path.suffix != ".zarr":
            raise ValueError(
                f"only a `.zarr` table can be opened without reading it; got '{path}'. Use Table.load."
            )
        source = Source(str(path.resolve()))
        with table_files.reading(path):
            attributes = source.attributes
            if sum(file.stat().st_size for file in path.rglob("*")) <= memory:  # a larger one would be read twice
                check_seal(path, attributes)
        table_files.check_format(attributes)
        table = object.__new__(cls)
        table.memory, table.names = memory, tuple(attributes["member"])
        table.parameters = tuple(attributes["parameter"])
        table.left_out = json.loads(attributes.get("left_out", "{}"))
        table._S = attributes.get("S")
        table.K, table.weighted = len(table.names), "row_weights" in source.group
        everything = range(source.array("theta").shape[0])
        return table._of(source, np.arange(table.K), everything, None)

    def _of(
        self, source: Source, members: np.ndarray, rows: range | np.ndarray, weights: np.ndarray | None
    ) -> StoredTable:
        """Make this a table of these members and rows of a store; with weights as in the store if None."""
        self._source, self._members, self._rows, self._memory = source, members, rows, {}
        if weights is None and self.weighted:
            weights = scaled_weights(source.rows("row_weights", rows), len(rows))
        self._weights = weights
        # Not a method of a block's: it would refer to itself, and stay in memory until it is searched for cycles.
        read = partial(_read, source, members, rows) if self.resident else self._read
        self._statistics = Columns(source.keys, read, keep=self.resident)
        self.__dict__.pop("gives", None)
        return self

    # ── what a table has ─────────────────────────────────────────────────────────────────────────────────

    @property
    def N(self) -> int:
        """How many simulations."""
        return len(self._rows)

    @property
    def d(self) -> int:
        """How many parameters."""
        return len(self.parameters)

    @property
    def S(self) -> int | None:
        """How many draws a member and simulation, kept or behind the ranks; None if that is not known."""
        return self._source.array("draws").shape[2] if "draws" in self._statistics else self._S

    @property
    def theta(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """True parameters, (N, d)."""
        return np.asarray(self._rows_of("theta"), float)

    @property
    def y(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Data, (N, ...)."""
        return self._rows_of("y") if "y" in self._source.group else None

    @property
    def row_weights(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """a_n, (N,)."""
        return np.full(self.N, 1 / self.N) if self._weights is None else self._weights

    @property
    def effective_rows(self) -> float:
        """1 / Σ a_n²."""
        return float(self.N) if self._weights is None else super().effective_rows

    def rank_of(self, statistic: Statistic) -> np.ndarray:
        """Ranks of a quantity of interest, (K, N, 1)."""
        if self.resident:
            return super().rank_of(statistic)
        return self._gathered(8 * self.K * self.N, "rank", _rank_of, statistic)

    def remember(self, key: Any, make: Callable[[], T]) -> T:
        """Return what ``make()`` gave the first time, for a block; a whole table keeps nothing."""
        return super().remember(key, make) if self.resident else make()

    def _rows_of(self, name: str) -> np.ndarray:
        if not self.resident:
            self._check_size(self.N * self._source.bytes_of_row(name), f"`{name}` of all rows")
        return self.remember(name, lambda: self._source.rows(name, self._rows))

    def _derived(self, key: Key, of_draws: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        if self.resident or key in self._statistics or "draws" not in self._statistics:
            return super()._derived(key, of_draws)
        size = 8 * self.K * self.N * self.d * (self.d if key == "cov" else 1)
        return self._gathered(size, key, _statistic, key)

    def _read(self, key: Key) -> np.ndarray:
        size = self.K * self.N * self._source.bytes_of_row(key)
        return self._gathered(size, key, _statistic, key)

    def _gathered(self, size: int, key: Key, part: Callable[..., np.ndarray], *arguments: Any) -> np.ndarray:
        self._check_size(size, f"`{key}` of all rows")
        return np.concatenate(list(self.each(part, *arguments)), 1)

    # ── parts ────────────────────────────────────────────────────────────────────────────────────────────

    def select(self, members: Any = None, rows: Any = None) -> StoredTable:
        """The table of some members and some rows, in increasing order; nothing is read."""
        k = positions("members", members, self.names)
        chosen = copy(self)
        chosen.K, chosen.names = len(k), tuple(self.names[i] for i in k)
        weights = self._weights
        if rows is None:
            n = self._rows
        elif isinstance(rows, slice):
            n, weights = self._rows[rows], None if weights is None else weights[rows]
            if rows.step is not None and rows.step < 0:
                raise ValueError("rows of a table on disk must be selected in increasing order, each once.")
        else:
            index = positions("rows", rows, range(self.N))
            if (np.diff(index) <= 0).any():
                raise ValueError("rows of a table on disk must be selected in increasing order, each once.")
            n = self._rows
            n = n[index] if isinstance(n, np.ndarray) else n.start + n.step * index
            weights = None if weights is None else weights[index]
        if len(n) == 0:
            raise ValueError("no `rows` selected.")
        if rows is not None and weights is not None:
            if weights.sum() == 0:
                raise ValueError("all selected rows have `row_weights` 0.")
            weights = weights / weights.sum()
        return chosen._of(self._source, self._members[k], n, weights)

    def reweighted(self, row_weights: np.ndarray) -> StoredTable:
        """The same table with other row weights."""
        other = copy(self)
        other.weighted = True
        return other._of(self._source, self._members, self._rows, scaled_weights(row_weights, self.N))

    def scratch(self) -> StoredTable:
        """The same table with a memory of its own."""
        return copy(self)._of(self._source, self._members, self._rows, self._weights)

    # ── sums over rows ───────────────────────────────────────────────────────────────────────────────────

    def reading(self, needs: Iterable[str], client: Executor | None = None) -> StoredTable:
        """The same table in blocks of a size for these statistics, worked through by a ``client`` if any."""
        other = self.scratch()
        other._needs, other.client = frozenset(needs), self.client if client is None else client
        return other

    def each(self, part: Callable[..., T], *arguments: Any) -> Iterator[T]:
        """``part(block, *arguments)`` for every block of rows, in order."""
        if self.resident:
            yield part(self, *arguments)
            return
        with worker_pool(self.client) as pool:
            yield from map_ordered(
                self._blocks(), lambda block: pool.submit(_of_block, block, part, arguments), pool.queue_depth
            )

    def total(self, part: Callable[..., tuple[Any, ...]], *arguments: Any) -> tuple[Any, ...]:
        """The sum of ``part(block, *arguments)`` over the blocks, entry by entry of the tuples it returns."""
        return reduce(_added, self.each(part, *arguments))

    def _blocks(self) -> Iterator[StoredTable]:
        """The rows in blocks: as many at a time as the store keeps together of the finest statistic needed."""
        step = min(map(self._source.chunk, self._columns))
        share = None if self._weights is not None else 1 / self.N
        for rows, weights in _cut(self._rows, self._weights, step):
            block = copy(self)
            block.resident, block.client = True, None
            yield block._of(
                self._source, self._members, rows, np.full(len(rows), share) if weights is None else weights
            )

    def in_memory(self, needs: Iterable[str] | None = None) -> Table:
        """The table with what these statistics take (None: all it has) in memory, if it fits."""
        needs = self.gives if needs is None else frozenset(needs)
        self._check_size(self.N * self.bytes_of_row(needs), "what is needed of all rows")
        here = self.scratch()
        here.client = None  # what is wanted here does not go through the workers
        return here.part(needs, slice(None))

    def part(self, needs: Iterable[str], rows: slice | np.ndarray) -> Table:
        """A table of some rows in memory, with what it takes for these statistics alone."""
        part = self.select(rows=rows).reading(needs)
        values: dict[Key, np.ndarray] = {}
        start = 0
        for found in part.each(_values, part._columns):
            n = next(iter(found.values())).shape[1]
            for key, of_block in found.items():
                if key not in values:
                    values[key] = np.empty((part.K, part.N, *of_block.shape[2:]), of_block.dtype)
                values[key][:, start : start + n] = of_block
            start += n
        return Table(
            part._source.rows("theta", part._rows),
            part._source.rows("y", part._rows) if "y" in part._source.group else None,
            quantiles={key: values.pop(key) for key in list(values) if isinstance(key, float)},
            names=part.names,
            parameters=part.parameters,
            row_weights=part._weights,
            left_out=part.left_out,
            S=part.S,
            **{str(key): array for key, array in values.items()},
        )

    def bytes_of_row(self, needs: Iterable[str]) -> int:
        """What a row takes, of what these statistics take."""
        return self.K * sum(map(self._source.bytes_of_row, columns_for(needs, self._source.keys)))

    @property
    def _columns(self) -> list[Key]:
        """What has to be read to give the statistics needed."""
        return sorted(columns_for(self._needs, self._source.keys), key=str) or self._source.keys

    def _check_size(self, size: int, what: str) -> None:
        if size > self.memory:
            raise MemoryError(
                f"{what} takes {size / 2**30:.3g} GiB, and `memory` is {self.memory / 2**30:.3g} GiB: select "
                "fewer rows, or give Table.open more memory."
            )


def _read(source: Source, members: np.ndarray, rows: range | np.ndarray, key: Key) -> np.ndarray:
    values = source.statistic(key, members, rows)
    return values if key == "draws" else np.asarray(values, float)


def _of_block(block: StoredTable, part: Callable[..., T], arguments: tuple[Any, ...]) -> T:
    """What a worker does. On a copy: Dask keeps what it was given for longer, and would keep what it reads."""
    with one_thread():
        return part(block.scratch(), *arguments)


def _cut(
    rows: range | np.ndarray, weights: np.ndarray | None, step: int
) -> Iterator[tuple[range | np.ndarray, np.ndarray | None]]:
    """Rows and their weights, cut where the store's stretches of ``step`` rows end."""

    def before(edge: int) -> int:
        """How many of the rows come before this one of the store."""
        if isinstance(rows, range):
            return max(-((rows.start - edge) // rows.step), 0)
        return int(np.searchsorted(rows, edge))

    for begin in range(int(rows[0]) // step * step, int(rows[-1]) + 1, step):
        part = slice(before(begin), before(begin + step))
        if len(rows[part]):
            yield rows[part], None if weights is None else weights[part]


def _added(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a + b for a, b in zip(first, second, strict=True))


def _statistic(block: Table, key: Key) -> np.ndarray:
    return getattr(block, key) if isinstance(key, str) else block.quantile(key)


def _rank_of(block: Table, statistic: Statistic) -> np.ndarray:
    return block.rank_of(statistic)


def _values(block: Table, keys: list[Key]) -> dict[Key, np.ndarray]:
    return {key: block.held[key] for key in keys}
