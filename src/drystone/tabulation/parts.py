"""Finished parts of a table, in memory or on disk, until the table takes their place."""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zipfile import BadZipFile

import numpy as np

from drystone._files import recover, replacing
from drystone.table import Table
from drystone.table.statistics import Key, as_arguments
from drystone.tabulation.job import Job, Part, too_slow

__all__ = ["Memory", "Outline", "Store", "Tally", "digest"]


class Tally:
    """Counts parts as they come in.

    Args:
        members: the names of all.

    Attributes:
        left_out: those that failed, and why.
    """

    def __init__(self, members: list[str]) -> None:
        self.left_out: dict[str, str] = {}
        self._members = members
        self._seconds: dict[str, float] = defaultdict(float)
        self._types: dict[Key, np.dtype] = {}
        self._without: dict[Key, set[str]] = defaultdict(set)

    def count(self, job: Job, part: Part) -> None:
        """Take note of what came of a job."""
        name, limit = job.member.name, job.plan.limit
        self._seconds[name] += part.seconds
        reason = part.reason or (too_slow(limit) if limit is not None and self._seconds[name] > limit else "")
        if reason:
            self.left_out.setdefault(name, reason)
            return
        for key in job.plan.statistics:
            if key not in part.statistics:
                self._without[key].add(name)
            else:
                self._types[key] = np.result_type(part.statistics[key], self._types.get(key, np.bool_))

    @property
    def names(self) -> list[str]:
        """The members that did not fail."""
        return [name for name in self._members if name not in self.left_out]

    @property
    def dtypes(self) -> dict[Key, np.dtype]:
        """The statistics that all of these give, each with a type wide enough for all."""
        return {key: dtype for key, dtype in self._types.items() if self._without[key].isdisjoint(self.names)}

    def lacking(self) -> dict[tuple[Key, ...], list[str]]:
        """The statistics that only some of these give, with those who do not."""
        keys_by_names: dict[tuple[str, ...], list[Key]] = defaultdict(list)
        for key in self._types:
            keys_by_names[tuple(name for name in self.names if name in self._without[key])].append(key)
        return {tuple(keys): list(names) for names, keys in keys_by_names.items() if names}


@dataclass(frozen=True, eq=False)
class Outline:
    """What a table is made of besides the statistics.

    Attributes:
        theta, y, row_weights: The rows.
        names: Members that did not fail.
        parameters: Names of θ.
        dtypes: The statistics that all of them give, with their types; quantiles by level.
        left_out: Members that failed, and why.
        S: Draws behind the ranks, if there are any.
    """

    theta: np.ndarray
    y: np.ndarray
    row_weights: np.ndarray | None
    names: Sequence[str]
    parameters: Sequence[str]
    dtypes: Mapping[Key, np.dtype]
    left_out: Mapping[str, str]
    S: int | None


class Memory:
    """Keeps parts in arrays (K, N, ...) by statistic.

    Args:
        names: the members.
        N: how many rows.
    """

    def __init__(self, names: list[str], N: int) -> None:
        self.names, self.N = names, N
        self.arrays: dict[Key, np.ndarray] = {}

    def find(self, job: Job) -> Part | None:
        """Nothing is left of an earlier run."""
        return None

    def keep(self, job: Job, part: Part) -> None:
        """Put a part in its place."""
        for key, rows in part.statistics.items():
            if key not in self.arrays:
                self.arrays[key] = np.zeros((len(self.names), self.N, *rows.shape[1:]), rows.dtype)
            # Wide enough for every member's draws.
            self.arrays[key] = self.arrays[key].astype(np.result_type(self.arrays[key], rows), copy=False)
            self.arrays[key][self.names.index(job.member.name), job.start : job.start + len(rows)] = rows

    def table(self, outline: Outline) -> Table:
        """The table of the members that did not fail, with the statistics that all of them give."""
        held = {key: self.arrays.pop(key) for key in outline.dtypes}
        if outline.left_out:
            kept = [self.names.index(name) for name in outline.names]
            held = {key: array[kept] for key, array in held.items()}
        return Table(
            outline.theta,
            outline.y,
            names=outline.names,
            parameters=outline.parameters,
            row_weights=outline.row_weights,
            left_out=outline.left_out,
            S=outline.S,
            **as_arguments(held),
        )


# Bytes of a table that is read; a larger one stays on disk.
MEMORY = 2**32


def digest(array: np.ndarray) -> str:
    """A fingerprint of an array's shape, dtype and bytes."""
    described = f"{array.shape}{array.dtype.str}".encode()
    return hashlib.sha256(described + np.ascontiguousarray(array).tobytes()).hexdigest()


class Store:
    """Keeps parts in ``table.parts`` until ``table.zarr`` takes their place; ``table.json`` says what was asked.

    Args:
        directory: The directory of the run.
        settings: What the table is made with; a store made with other settings is refused.
        rows: Rows of a part.
    """

    def __init__(self, directory: Path, settings: dict[str, Any], rows: int) -> None:
        self.rows = rows
        self.table_file, self.parts, self.record = (
            directory / f"table.{suffix}" for suffix in ("zarr", "parts", "json")
        )
        # As JSON gives it back, so that tuples and lists compare equal.
        settings = json.loads(json.dumps(settings))
        if self.record.exists():
            recorded = json.loads(self.record.read_text())
            different = sorted(key for key in settings if recorded.get(key) != settings[key])
            if different:
                raise ValueError(
                    f"'{directory}' holds a table made with other {', '.join(f'`{key}`' for key in different)}. "
                    "Use another `directory`, or remove table.* there."
                )
        else:
            with replacing(self.record) as temporary:
                temporary.write_text(json.dumps(settings, indent=1))

    def finished(self) -> Table | None:
        """The finished table, or None; one that is larger than memory should hold stays on disk."""
        recover(self.table_file)
        if not self.table_file.exists():
            return None
        size = sum(file.stat().st_size for file in self.table_file.rglob("*"))
        table = Table.load(self.table_file) if size <= MEMORY else Table.open(self.table_file, MEMORY)
        shutil.rmtree(self.parts, ignore_errors=True)  # still there if the process was killed at its very end
        return table

    def find(self, job: Job) -> Part | None:
        """The part of a job, if it was finished before. One that cannot be read is made again, with a warning."""
        path = self._path(job.member.name, job.start, len(job.theta))
        if not path.exists():
            return None
        try:
            return Part(_read(path))
        except (ValueError, OSError, EOFError, BadZipFile) as error:
            warnings.warn(f"'{path}' cannot be read ({error}); it is made again.", stacklevel=2)
            return None

    def keep(self, job: Job, part: Part) -> None:
        """Write a part. Failures are not kept: they are tried again when the run continues."""
        path = self._path(job.member.name, job.start, len(job.theta))
        with replacing(path) as temporary, temporary.open("wb") as file:
            arrays: dict[str, Any] = {str(key): array for key, array in part.statistics.items()}
            np.savez(file, **arrays)

    def table(self, outline: Outline) -> Table:
        """Write the table in the place of the parts, member by member, and return it."""
        N = len(outline.theta)
        with Table.create(self.table_file, N, outline.names, outline.parameters) as new:
            new.left_out, new.S = outline.left_out, outline.S
            new.write(0, theta=outline.theta, y=outline.y)
            if outline.row_weights is not None:
                new.write(0, row_weights=outline.row_weights)
            for k, name in enumerate(outline.names):
                parts = [_read(self._path(name, n, min(self.rows, N - n))) for n in range(0, N, self.rows)]
                of_member = {
                    key: np.concatenate([part[key] for part in parts], dtype=dtype)[None]
                    for key, dtype in outline.dtypes.items()
                }
                new.write(0, [k], **as_arguments(of_member))
        table = self.finished()
        assert table is not None
        return table

    def _path(self, name: str, start: int, rows: int) -> Path:
        return self.parts / f"{quote(name, safe='')}-{start}-{rows}.npz"


def _read(path: Path) -> dict[Key, np.ndarray]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return {_key(name): arrays[name] for name in arrays.files}


def _key(name: str) -> Key:
    """The table's key of a statistic: a level is a number."""
    return float(name) if name[0].isdigit() else name
