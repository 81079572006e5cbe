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

from drystone.files import replacing
from drystone.table import Table
from drystone.tabulation.job import Job, Part

__all__ = ["Store", "digest"]


def digest(array: np.ndarray) -> str:
    """A fingerprint of an array's shape, dtype and bytes."""
    described = f"{array.shape}{array.dtype.str}".encode()
    return hashlib.sha256(described + np.ascontiguousarray(array).tobytes()).hexdigest()


class Store:
    """Keeps parts in ``table.parts`` until ``table.zarr`` takes their place; ``table.json`` says what was asked.

    Args:
        directory: The directory of the run.
        settings: What the table is made with; a store made with other settings is refused.
    """

    def __init__(self, directory: Path, settings: dict[str, Any]) -> None:
        self.table, self.parts, self.record = (
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
        """The finished table, or None."""
        try:
            table = Table.load(self.table)
        except FileNotFoundError:
            return None
        shutil.rmtree(self.parts, ignore_errors=True)  # still there if the process was killed at its very end
        return table

    def find(self, job: Job) -> Part | None:
        """The part of a job, if it was finished before. One that cannot be read is made again, with a warning."""
        path = self._path(job)
        if not path.exists():
            return None
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return Part({_key(name): arrays[name] for name in arrays.files})
        except (ValueError, OSError, EOFError, BadZipFile) as error:
            warnings.warn(f"'{path}' cannot be read ({error}); it is made again.", stacklevel=2)
            return None

    def keep(self, job: Job, part: Part) -> None:
        """Write a part. Failures are not kept: they are tried again when the run continues."""
        if not part.reason:
            with replacing(self._path(job)) as temporary, temporary.open("wb") as file:
                arrays: dict[str, Any] = {str(key): array for key, array in part.statistics.items()}
                np.savez(file, **arrays)

    def finish(self, table: Table) -> None:
        """Write the table in the place of the parts."""
        table.save(self.table)
        shutil.rmtree(self.parts, ignore_errors=True)

    def _path(self, job: Job) -> Path:
        return self.parts / f"{quote(job.member.name, safe='')}-{job.start}-{len(job.theta)}.npz"


def _key(name: str) -> str | float:
    """The table's key of a statistic: a level is a number."""
    return float(name) if name[0].isdigit() else name
