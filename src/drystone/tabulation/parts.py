"""Finished parts of a table, in memory or on disk, until the table replaces them."""

from __future__ import annotations

import hashlib
import shutil
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from drystone._files import read_npz, recover, regular_files, write_npz
from drystone._resume import Record, continue_or_start
from drystone.errors import DamagedError
from drystone.table import Table
from drystone.table.statistics import Key, as_arguments, name_of
from drystone.tabulation.job import Job, Part, too_slow

__all__ = ["InMemoryParts", "Outcomes", "StoredParts", "TableHeader", "read_table"]


class Outcomes:
    """The failures of members so far, and the statistics of the others.

    Args:
        names: Names of all members.

    Attributes:
        failed: Reasons of failure by member.
    """

    def __init__(self, names: list[str]) -> None:
        self.failed: dict[str, str] = {}
        self._all_names = names
        self._seconds: dict[str, float] = defaultdict(float)
        self._types: dict[Key, np.dtype] = {}
        self._without: dict[Key, set[str]] = defaultdict(set)

    def add(self, job: Job, part: Part) -> None:
        """Add the part that a job returned."""
        name, limit = job.name, job.plan.limit
        self._seconds[name] += part.seconds
        reason = part.reason or (too_slow(limit) if limit is not None and self._seconds[name] > limit else "")
        if reason:
            self.failed.setdefault(name, reason)
            return
        for key in job.plan.statistics:
            if key not in part.statistics:
                self._without[key].add(name)
            else:
                self._types[key] = np.result_type(part.statistics[key], self._types.get(key, np.bool_))

    def fail(self, name: str, reason: str) -> None:
        """Note that a member failed in another's job."""
        self.failed.setdefault(name, reason)

    def forget(self, name: str) -> None:
        """Forget the parts of a member, which are made again."""
        self._seconds.pop(name, None)
        for without in self._without.values():
            without.discard(name)

    def add_finished(self, table: Table, keys: Sequence[Key]) -> None:
        """Add the members of a finished table that has these statistics, or some of them."""
        held = table._source.keys
        for key in keys:
            without = table.lacking.get(name_of(key), ()) if key in held else table.names
            self._without[key].update(without)
            if key in held:
                self._types[key] = np.result_type(table._source.dtype(key), self._types.get(key, np.bool_))

    @property
    def left_out(self) -> dict[str, str]:
        """The reasons in the order of the members, whichever of them failed first."""
        return {name: self.failed[name] for name in self._all_names if name in self.failed}

    @property
    def names(self) -> list[str]:
        """The members that did not fail."""
        return [name for name in self._all_names if name not in self.failed]

    @property
    def dtypes(self) -> dict[Key, np.dtype]:
        """The statistics of the members in ``names``, each with a type wide enough for all, and for NaN."""
        having = {
            key: dtype for key, dtype in self._types.items() if not self._without[key].issuperset(self.names)
        }
        without = self.lacking
        return {
            key: np.result_type(dtype, np.float32) if name_of(key) in without else dtype
            for key, dtype in having.items()
        }

    @property
    def lacking(self) -> dict[str, list[str]]:
        """The members in ``names`` that lack a statistic, by its name."""
        lacking: dict[str, list[str]] = {}
        for key in self._types:
            members = [name for name in self.names if name in self._without[key]]
            if members and len(members) < len(self.names):
                lacking[name_of(key)] = members
        return lacking


@dataclass(frozen=True, eq=False)
class TableHeader:
    """The contents of a table except the statistics.

    Attributes:
        theta, y, row_weights: The rows.
        names: Members that did not fail.
        parameters: Names of θ.
        dtypes: The statistics that some of these members have, with their types; quantiles by level.
        lacking: The members that lack a statistic, by its name.
        failed: Reasons of failure by member.
        S: Number of draws behind the ranks, if there are any.
        points: Shared points, or None.
    """

    theta: np.ndarray
    y: np.ndarray
    row_weights: np.ndarray | None
    names: Sequence[str]
    parameters: Sequence[str]
    dtypes: Mapping[Key, np.dtype]
    lacking: Mapping[str, Sequence[str]]
    failed: Mapping[str, str]
    S: int | None
    points: PointParts | None = None


@dataclass(frozen=True, eq=False)
class PointParts:
    """Shared points: parts that are read one by one.

    Attributes:
        members: Names of the members whose log densities are in the parts, in this order.
        likelihoods: Those of all members that are likelihoods, and whether they are densities of y.
        parts: Starts and arrays of the parts, in order: points (n, M, d), log_r, log_prior (n, M), log_f (n, K,
            M).
    """

    members: Sequence[str]
    likelihoods: Mapping[str, bool]
    parts: Iterable[tuple[int, Mapping[Key, np.ndarray]]]

    def arrays(self, names: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the starts and arrays of the parts, those of all ``names`` with NaN where they have nothing."""
        for start, part in self.parts:
            n, _, M = part["log_f"].shape
            log_f = np.full((len(names), n, M), np.nan)
            for k, name in enumerate(self.members):
                if name in names:
                    log_f[names.index(name)] = part["log_f"][:, k]
            yield start, {**{str(key): array for key, array in part.items()}, "log_f": log_f}


class InMemoryParts:
    """Parts in arrays (K, N, ...) by statistic.

    Args:
        names: Names of the members.
        N: Number of rows.
    """

    def __init__(self, names: list[str], N: int) -> None:
        self.names, self.N = names, N
        self.arrays: dict[Key, np.ndarray] = {}

    earlier: Table | None = None

    def find(self, job: Job) -> Part | None:
        """Return None: memory holds nothing of an earlier call."""
        return None

    def add(self, job: Job, part: Part) -> None:
        """Copy a part into the arrays."""
        for key, rows in part.statistics.items():
            if key not in self.arrays:
                self.arrays[key] = np.zeros((len(self.names), self.N, *rows.shape[1:]), rows.dtype)
            # The type must be wide enough for every member's draws.
            self.arrays[key] = self.arrays[key].astype(np.result_type(self.arrays[key], rows), copy=False)
            self.arrays[key][self.names.index(job.name), job.start : job.start + len(rows)] = rows

    def table(self, header: TableHeader) -> Table:
        """Return the table of the members that did not fail; where one lacks a statistic there is NaN."""
        arrays = {key: self.arrays.pop(key).astype(dtype, copy=False) for key, dtype in header.dtypes.items()}
        for key, array in arrays.items():
            array[[self.names.index(name) for name in header.lacking.get(name_of(key), ())]] = np.nan
        if header.failed:
            positions = [self.names.index(name) for name in header.names]
            arrays = {key: array[positions] for key, array in arrays.items()}
        return Table(
            header.theta,
            header.y,
            names=header.names,
            parameters=header.parameters,
            row_weights=header.row_weights,
            left_out=header.failed,
            S=header.S,
            lacking=header.lacking,
            likelihoods=header.points.likelihoods if header.points else {},
            **as_arguments(arrays),
            **_concatenated(header),
        )


def _concatenated(header: TableHeader) -> dict[str, Any]:
    """Return the arrays of shared points of all rows, if there are any."""
    if header.points is None:
        return {}
    parts = [arrays for _, arrays in header.points.arrays(list(header.names))]
    return {name: np.concatenate([part[name] for part in parts], int(name == "log_f")) for name in parts[0]}


# Longest name of a member that is used in the names of its parts.
LONGEST_NAME = 150
# Most bytes of a table that is read into memory; a larger one stays on disk.
MEMORY = 2**32


def read_table(path: Path) -> Table:
    """Return a table; one of more than 4 GiB stays on disk."""
    size = sum(regular_files(path).values())
    return Table.load(path) if size <= MEMORY else Table.open(path, MEMORY)


class StoredParts:
    """Parts in ``table.parts``, until ``table.zarr`` replaces them; ``table.json`` is their record.

    Args:
        directory: The directory of all three.
        record: Settings and inputs of the table; parts or a table made from others are refused, unless members
            were added.
        names: Names of the members.
        rows: Rows per part.

    Attributes:
        earlier: A finished table of some of the members, or None.
    """

    def __init__(self, directory: Path, record: Record, names: Sequence[str], rows: int) -> None:
        self.names, self.rows = names, rows
        self._labels: dict[str, str] = {}  # of the jobs by member, last looked for
        self.table_file, self.parts = directory / "table.zarr", directory / "table.parts"
        remedy = "Use another `directory`, or remove table.* there."
        continue_or_start(directory / "table.json", record, f"the table in '{directory}'", remedy, growing="names")
        recover(self.table_file)
        self.earlier = Table.open(self.table_file, MEMORY) if self.table_file.exists() else None

    def finished(self) -> Table | None:
        """Return the finished table, or None if there is none of all members."""
        if self.earlier is None or not {*self.earlier.names, *self.earlier.left_out} >= set(self.names):
            return None
        return self._whole()

    def _whole(self) -> Table:
        """Return the table that is written, and remove its parts."""
        table = read_table(self.table_file)
        shutil.rmtree(self.parts, ignore_errors=True)  # they remain if the process was killed just before its end
        return table.select(members=[name for name in self.names if name in table.names])

    def find(self, job: Job) -> Part | None:
        """Return the part of a job if an earlier call finished it; warn if it cannot be read."""
        path = self._path(job.label, job.start, len(job.theta))
        self._labels[job.name] = job.label
        if not path.exists():
            return None
        try:
            return Part(_read(path))
        except (DamagedError, OSError) as error:
            warnings.warn(f"'{path}' cannot be read ({error}); it is made again.", stacklevel=2)
            return None

    def add(self, job: Job, part: Part) -> None:
        """Write a part; failed members have none and are tried again when the work continues."""
        path = self._path(job.label, job.start, len(job.theta))
        write_npz(path, {str(key): array for key, array in part.statistics.items()})

    def table(self, header: TableHeader) -> Table:
        """Write the table member by member, remove the parts, and return the table."""
        N = len(header.theta)
        with Table.create(self.table_file, N, header.names, header.parameters) as new:
            new.left_out, new.S = header.failed, header.S
            new.write(0, theta=header.theta, y=header.y)
            if header.row_weights is not None:
                new.write(0, row_weights=header.row_weights)
            for k, name in enumerate(header.names):
                keys = [key for key in header.dtypes if name not in header.lacking.get(name_of(key), ())]
                statistics = {
                    key: array.astype(header.dtypes[key]) for key, array in self._of_member(name, N, keys)
                }
                new.write(0, [k], **as_arguments(statistics))
            if header.points is not None:
                new.likelihoods = header.points.likelihoods
                having = [k for k, name in enumerate(header.names) if name not in header.lacking.get("log_f", ())]
                for start, arrays in header.points.arrays(list(header.names)):
                    new.write(start, having, log_f=arrays.pop("log_f")[having])
                    new.write(start, **arrays)
        return self._whole()

    def _of_member(self, name: str, N: int, keys: Sequence[Key]) -> Iterator[tuple[Key, np.ndarray]]:
        """Yield the statistics of one member, (1, N, ...), from the earlier table or from its parts."""
        if self.earlier is not None and name in self.earlier.names:
            one = self.earlier.select(members=[name])
            yield from ((key, one._statistic(key)) for key in keys)
            return
        label = self._labels.get(name, name)
        parts = [_read(self._path(label, n, min(self.rows, N - n))) for n in range(0, N, self.rows)]
        yield from ((key, np.concatenate([part[key] for part in parts])[None]) for key in keys)

    def _path(self, label: str, start: int, rows: int) -> Path:
        quoted = quote(label, safe="")
        if len(quoted) > LONGEST_NAME:  # a file's name has at most 255 bytes
            quoted = hashlib.sha256(label.encode()).hexdigest()
        return self.parts / f"{quoted}-{start}-{rows}.npz"


def _read(path: Path) -> dict[Key, np.ndarray]:
    return {_key(name): array for name, array in read_npz(path).items()}


def _key(name: str) -> Key:
    """Return the table's key of a statistic: a number for a level, else the name."""
    return float(name) if name[0].isdigit() else name
