"""Where the rows of a table lie: in arrays in memory, or in a Zarr store, of which a table may use a part."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from drystone.table.inputs import Selection, positions
from drystone.table.statistics import POINT_ARRAYS, SCHEMA, Key, columns_for, derive, level_key

if TYPE_CHECKING:
    import zarr

    from drystone._parallel import Executor

__all__ = ["BlockRows", "MemoryRows", "Store", "StoredRows"]

K = TypeVar("K", str, Key)
# Where selected rows are: a slice, or positions.
Index = slice | np.ndarray


class MemoryRows:
    """Rows in memory.

    Args:
        N: how many.
        arrays: ``theta`` and, if there are data, ``y``, and the arrays of shared points, (N, ...) each.
        statistics: by key, (K, N, ...) each. Those that are derived from draws are added.
    """

    def __init__(self, N: int, arrays: Mapping[str, np.ndarray], statistics: MutableMapping[Key, Any]) -> None:
        self.N, self._arrays, self._statistics = N, arrays, statistics

    @property
    def keys(self) -> Collection[Key]:
        """The statistics held."""
        return self._statistics.keys()

    @property
    def row_arrays(self) -> Collection[str]:
        """The names of the arrays without members: ``theta``, ``y``, and those of shared points."""
        return self._arrays.keys()

    def array(self, name: str) -> np.ndarray:
        """Return ``theta``, ``y`` or an array of shared points."""
        return self._arrays[name]

    def dtype(self, key: Key) -> np.dtype:
        """Return the type of a statistic held."""
        return self._statistics[key].dtype

    def statistic(self, key: Key) -> Any:
        """Return a statistic, (K, N, ...); one that is not held is derived from draws, member by member."""
        if key not in self._statistics:
            derived = [derive(key, draws, self.array("theta")) for draws in self.draws_by_member()]
            self._statistics[key] = np.stack(derived)
        return self._statistics[key]

    @property
    def sliced_draws(self) -> Any:
        """The draws, (K, N, S, d), as anything that slices to NumPy along its first axis."""
        return self._statistics["draws"]

    def draws_by_member(self) -> Iterator[np.ndarray]:
        """Yield the draws of each member, (N, S, d)."""
        draws = self.sliced_draws
        return (np.asarray(draws[k]) for k in range(draws.shape[0]))

    def select(self, members: np.ndarray | None, rows: Selection) -> tuple[MemoryRows, Index]:
        """Return some members (None for all) and rows, and the positions of these rows."""
        part, n = self.part(members, rows)
        return MemoryRows(part.N, part._arrays, dict(part._statistics)), n

    def part(self, members: np.ndarray | None, rows: Selection) -> tuple[MemoryRows, Index]:
        """Return the same to look at for a while: statistics are copied when they are first used."""
        n = positions("rows", rows, range(self.N))
        return PartRows(self, members, None if rows is None else n), n

    def only(self, columns: Iterable[Key]) -> MemoryRows:
        """Return the same rows with these statistics alone."""
        return MemoryRows(self.N, self._arrays, {key: self._statistics[key] for key in columns})

    def bytes_per_row(self, needs: Iterable[str]) -> int:
        """Return how many bytes one row of the statistics takes that these capabilities need."""
        columns = [self._statistics[key] for key in columns_for(needs, self.keys)]
        return sum(array.dtype.itemsize * int(np.prod(array.shape, dtype=int)) // self.N for array in columns)


class Store:
    """A Zarr store, opened anew in each process that reads it.

    Args:
        path: of the store.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[type[Store], tuple[str]]:
        return Store, (self.path,)

    @cached_property
    def group(self) -> zarr.Group:
        """The opened store."""
        import zarr

        return zarr.open_group(self.path, mode="r", zarr_format=3, use_consolidated=False)

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the store."""
        return self.group.attrs.asdict()

    @cached_property
    def levels(self) -> list[float]:
        """The levels of its quantiles."""
        return [level_key(level) for level in np.asarray(self.array("level"))] if "level" in self.group else []

    @cached_property
    def keys(self) -> list[Key]:
        """The statistics it holds; quantiles by level."""
        names = [name for name in SCHEMA if name != "quantiles" and name in self.group]
        return [*names, *self.levels]

    def array(self, name: str) -> zarr.Array:
        """Return one of its arrays."""
        array: Any = self.group[name]
        return array

    def bytes_per_row(self, name: Key) -> int:
        """Return how many bytes one row of an array takes, of one member if it has members."""
        if name not in self.keys:
            array = self.array(str(name))
            return array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=int))
        array, lead = self._statistic(name)
        return array.dtype.itemsize * int(np.prod(array.shape[len(lead) + 2 :], dtype=int))

    def chunk(self, key: Key) -> int:
        """Return how many rows of a statistic are stored together."""
        array, lead = self._statistic(key)
        return array.chunks[len(lead) + 1]

    def read_rows(self, name: str, rows: range | np.ndarray) -> np.ndarray:
        """Read rows of theta, y or row_weights."""
        stretch, inside = _stretch(rows)
        return np.asarray(self.array(name)[stretch])[inside]

    def read_statistic(self, key: Key, members: np.ndarray, rows: range | np.ndarray) -> np.ndarray:
        """Read a statistic of some members on some rows, (K, N, ...): float64, but draws as they are."""
        stretch, inside = _stretch(rows)
        array, lead = self._statistic(key)
        if np.array_equal(members, np.arange(array.shape[len(lead)])):
            values = np.asarray(array[(*lead, slice(None), stretch)])
        else:  # a chunk belongs to one member, so that the others are not read
            values = np.stack([np.asarray(array[(*lead, int(k), stretch)]) for k in members])
        values = values[:, inside]
        return values if key == "draws" else np.asarray(values, float)

    def _statistic(self, key: Key) -> tuple[zarr.Array, tuple[int, ...]]:
        """Return the array of a statistic and the indices before its axis of members."""
        if isinstance(key, str):
            return self.array(key), ()
        return self.array("quantiles"), (self.levels.index(key),)


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Rows on disk that are read in blocks.

    Attributes:
        store: The store.
        members: Positions of the members in it that are used.
        rows: Positions of the rows in it that are used, increasing.
        memory: How many bytes may be read at once, as a whole.
        needs: The capabilities for which blocks are read; none for all of them.
        client: Works through the blocks, if there is one.
    """

    store: Store
    members: np.ndarray
    rows: range | np.ndarray
    memory: int
    needs: frozenset[str] = frozenset()
    client: Executor | None = None

    @property
    def N(self) -> int:
        """How many rows."""
        return len(self.rows)

    @property
    def keys(self) -> Collection[Key]:
        """The statistics held."""
        return self.store.keys

    @property
    def columns(self) -> list[Key]:
        """The statistics that are read for what is needed."""
        return sorted(columns_for(self.needs, self.keys), key=str) or self.store.keys

    @property
    def row_arrays(self) -> Collection[str]:
        """The names of the arrays without members: ``theta``, ``y``, and those of shared points."""
        return [name for name in ("theta", "y", *POINT_ARRAYS) if name in self.store.group]

    def dtype(self, key: Key) -> np.dtype:
        """Return the type that a statistic is read with."""
        return self.store.array("draws").dtype if key == "draws" else np.dtype(float)

    def array(self, name: str) -> np.ndarray:
        """Read ``theta``, ``y`` or an array of shared points, if it fits into memory."""
        self.check_size(self.N * self.store.bytes_per_row(name), f"`{name}` of all rows")
        return self.read_array(name)

    def read_array(self, name: str) -> np.ndarray:
        """Read one of ``row_arrays``, whatever its size; all but y in float64."""
        values = self.store.read_rows(name, self.rows)
        return values if name == "y" else np.asarray(values, float)

    def read_statistic(self, key: Key) -> np.ndarray:
        """Read a statistic, (K, N, ...), whatever its size."""
        return self.store.read_statistic(key, self.members, self.rows)

    def select(self, members: np.ndarray | None, rows: Selection) -> tuple[StoredRows, Index]:
        """Return some members (None for all) and rows, in increasing order, and where these are; read nothing."""
        if rows is None or isinstance(rows, slice):
            index = slice(None) if rows is None else rows
            increasing = index.step is None or index.step > 0
            chosen = self.rows[index]
        else:
            index = positions("rows", rows, range(self.N))
            increasing = (np.diff(index) > 0).all()
            n = self.rows
            chosen = n[index] if isinstance(n, np.ndarray) else n.start + n.step * index
        if not increasing:
            raise ValueError("rows of a table on disk must be selected in increasing order, each once.")
        if len(chosen) == 0:
            raise ValueError(f"no `rows` selected; select at least one of {self.N}.")
        return replace(
            self, members=self.members if members is None else self.members[members], rows=chosen
        ), index

    def blocks(self) -> Iterator[tuple[StoredRows, slice]]:
        """Yield blocks of rows, and where they are: as many as are stored together of the finest column."""
        step = min(map(self.store.chunk, self.columns))
        for begin in range(int(self.rows[0]) // step * step, int(self.rows[-1]) + 1, step):
            part = slice(self._before(begin), self._before(begin + step))
            if part.start < part.stop:
                yield replace(self, rows=self.rows[part], client=None), part

    def reading(self, needs: Iterable[str], client: Executor | None) -> StoredRows:
        """Return the same rows, to be read in blocks for these capabilities by a ``client``, if any."""
        return replace(self, needs=frozenset(needs), client=client)

    def bytes_per_row(self, needs: Iterable[str]) -> int:
        """Return how many bytes one row of the statistics takes that these capabilities need."""
        return len(self.members) * sum(map(self.store.bytes_per_row, columns_for(needs, self.keys)))

    def check_size(self, size: int, what: str) -> None:
        """Raise if so many bytes are more than may be read at once."""
        if size > self.memory:
            raise MemoryError(
                f"{what} takes {size / 2**30:.3g} GiB, and `memory` is {self.memory / 2**30:.3g} GiB: select "
                "fewer rows, or give Table.open more memory."
            )

    def _before(self, edge: int) -> int:
        """Return how many of the rows come before this row of the store."""
        if isinstance(self.rows, range):
            # Not beyond the last: slices of ranges are cut off there, and their lengths are taken from this.
            return min(max(-((self.rows.start - edge) // self.rows.step), 0), self.N)
        return int(np.searchsorted(self.rows, edge))


class BlockRows(MemoryRows):
    """A block of rows on disk, each array of which is read when it is first used, and held from then on.

    Args:
        stored: the rows on disk.
    """

    def __init__(self, stored: StoredRows) -> None:
        self._stored = stored
        # Not methods of ours: we would refer to ourselves, and stay in memory until garbage is collected.
        arrays = _ReadOnce(stored.row_arrays, stored.read_array)
        statistics = _ReadOnce(stored.keys, stored.read_statistic)
        super().__init__(stored.N, arrays, statistics)

    def select(self, members: np.ndarray | None, rows: Selection) -> tuple[BlockRows, Index]:
        """Return some members (None for all) and rows, which are read when they are used, and where these are."""
        stored, index = self._stored.select(members, rows)
        return BlockRows(stored), index

    def part(self, members: np.ndarray | None, rows: Selection) -> tuple[BlockRows, Index]:
        """Return the same, since nothing is copied."""
        return self.select(members, rows)


class PartRows(MemoryRows):
    """A part of rows in memory. Statistics are copied when they are first used, draws one member at a time.

    Args:
        whole: the rows of all members, which stay in memory with this.
        members: positions of those to use; None for all.
        rows: positions of those to use; None for all.
    """

    def __init__(self, whole: MemoryRows, members: np.ndarray | None, rows: np.ndarray | None) -> None:
        self._whole, self._members, self._rows = whole, members, rows
        arrays = whole._arrays if rows is None else {name: array[rows] for name, array in whole._arrays.items()}
        part = partial(_part, whole._statistics, members, rows)
        super().__init__(whole.N if rows is None else len(rows), arrays, _ReadOnce(whole.keys, part))

    @property
    def sliced_draws(self) -> Any:
        """The draws, (K, N, S, d), by member."""
        if self._rows is not None:
            return self._statistics["draws"]
        draws = self._whole.sliced_draws
        return draws if self._members is None else _ChosenMembers(draws, self._members)


def _part(
    statistics: Mapping[Key, Any], members: np.ndarray | None, rows: np.ndarray | None, key: Key
) -> np.ndarray:
    """Return some members (None for all) and rows of a statistic; one in files is read member by member."""
    array = statistics[key]
    if not isinstance(array, np.ndarray):
        chosen = range(array.shape[0]) if members is None else members
        return np.stack([np.asarray(array[int(k)])[slice(None) if rows is None else rows] for k in chosen])
    # All in C order: sums go along memory, and in another layout their last digits would be others.
    if rows is None:
        return array if members is None else array[members]
    return array.take(rows, 1) if members is None else array[np.ix_(members, rows)]


@dataclass(frozen=True)
class _ChosenMembers:
    """Some members of draws, nothing of which is copied.

    Attributes:
        draws: of all members, (K', N, S, d).
        members: positions in them, (K,).
    """

    draws: Any
    members: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """(K, N, S, d)."""
        return len(self.members), *self.draws.shape[1:]

    def __getitem__(self, k: int) -> np.ndarray:
        """Return the draws of one member, (N, S, d)."""
        return np.asarray(self.draws[int(self.members[k])])


class _ReadOnce(MutableMapping[K, Any]):
    """Arrays by name, each read when it is first looked up; others can be added.

    Args:
        names: of those that can be read.
        read: reads one.
    """

    def __init__(self, names: Iterable[K], read: Callable[[K], np.ndarray]) -> None:
        self._names, self._read = list(names), read
        self._values: dict[K, Any] = {}

    def __getitem__(self, key: K) -> Any:
        if key not in self._values:
            if key not in self._names:
                raise KeyError(key)
            self._values[key] = self._read(key)
        return self._values[key]

    def __setitem__(self, key: K, value: Any) -> None:
        self._values[key] = value

    def __delitem__(self, key: K) -> None:
        del self._values[key]

    def __contains__(self, key: object) -> bool:
        return key in self._names or key in self._values

    def __iter__(self) -> Iterator[K]:
        return iter([*self._names, *(key for key in self._values if key not in self._names)])

    def __len__(self) -> int:
        return len(list(iter(self)))


def _stretch(rows: range | np.ndarray) -> tuple[slice, Any]:
    """Return the stretch of a store that contains these (increasing) rows, and where they are in it."""
    if isinstance(rows, range):
        return slice(rows.start, rows.stop, rows.step), slice(None)
    return slice(int(rows[0]), int(rows[-1]) + 1), rows - rows[0]
