"""The parts of an unfinished table on disk, so that a killed tabulation continues where it stopped."""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zipfile import BadZipFile

import numpy as np

from drystone.files import recover, replacing
from drystone.table import Table
from drystone.tabulation.job import Job, Part
from drystone.tabulation.outline import Outline

__all__ = ["Store", "digest"]

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
                new.write(
                    0,
                    [k],
                    quantiles={key: array for key, array in of_member.items() if isinstance(key, float)},
                    **{key: array for key, array in of_member.items() if isinstance(key, str)},
                )
        table = self.finished()
        assert table is not None
        return table

    def _path(self, name: str, start: int, rows: int) -> Path:
        return self.parts / f"{quote(name, safe='')}-{start}-{rows}.npz"


def _read(path: Path) -> dict[str | float, np.ndarray]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return {_key(name): arrays[name] for name in arrays.files}


def _key(name: str) -> str | float:
    """The table's key of a statistic: a level is a number."""
    return float(name) if name[0].isdigit() else name
