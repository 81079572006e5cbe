"""The Zarr store of a table: what it holds, and any rows of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from functools import cached_property
from typing import Any

import numpy as np
import zarr

from drystone import table_files
from drystone.levels import level_key

__all__ = ["Columns", "Key", "Source"]

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
