"""A run: a directory of files with fixed names, opened by one process at a time."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drystone._files import (
    append_text,
    check_regular,
    in_use,
    locked,
    naming,
    recover,
    regular_files,
    remove,
)
from drystone.runs.config import Config

__all__ = ["LOG", "MANIFEST", "Run"]

LOG, MANIFEST = "log.jsonl", "manifest.json"
# Directories of unfinished simulations and tables.
PARTS = ("simulations.blocks", "table.parts")
# Directories of `drystone infer`, and its tables.
INFERENCE = "inference"
TABLES = (f"{INFERENCE}/stacking", f"{INFERENCE}/test")
OF_INFERENCE = (INFERENCE, *(f"{INFERENCE}/{name}" for name in ("members", "likelihoods", "refitted")), *TABLES)
# New tables and fits of an inference, until they are complete.
NEW_INFERENCE = (f"{INFERENCE}/.new", f"{INFERENCE}/.new/stacking", f"{INFERENCE}/.new/test")

# Directories of `drystone refine`, one per observation.
REFINED = "refined"

# Names of the temporary files of `drystone._files.replacing`.
TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.(tmp|old)")


@dataclass(frozen=True)
class Run:
    """A directory with the files of all stages, under fixed names.

    Attributes:
        path: the directory.
    """

    path: Path

    @property
    def config_file(self) -> Path:
        """The settings."""
        return self.path / "config.toml"

    @property
    def simulations(self) -> Path:
        """Parameters and data: training rows, stacking rows, test rows."""
        return self.path / "simulations.zarr"

    @property
    def members(self) -> Path:
        """The directory of the members, one ``<name>.safetensors`` and one ``<name>.json`` per member."""
        return self.path / "members"

    @property
    def likelihoods(self) -> Path:
        """The directory of the likelihoods, with files as those of the members."""
        return self.path / "likelihoods"

    @property
    def table(self) -> Path:
        """The statistics of the members on the stacking and the test rows."""
        return self.path / "table.zarr"

    @property
    def normalizer(self) -> Path:
        """How the likelihoods are normalized."""
        return self.path / "normalizer.json"

    @property
    def report(self) -> Path:
        """The report."""
        return self.path / "report.html"

    def fit(self, name: str) -> Path:
        """Return the path of a fit."""
        return self.path / "fits" / f"{name}.json"

    @property
    def config(self) -> Config:
        """The configuration in ``config.toml``; the defaults if there is none."""
        return Config.read(self.config_file) if self.config_file.exists() else Config()

    def check_exists(self) -> None:
        """Raise if the run is not a directory; the message tells how to start one."""
        if not self.path.exists():
            raise FileNotFoundError(
                f"there is no run at {self.path}; start one with `drystone simulate {self.path} --task NAME`."
            )
        if not self.path.is_dir():
            raise NotADirectoryError(f"{self.path} is a file; a run is a directory.")

    @contextmanager
    def opened(self, create: bool = False) -> Iterator[None]:
        """Hold the lock of the directory, and remove unfinished files of killed processes from it."""
        if create and not self.path.exists():
            self.path.mkdir(parents=True)
        self.check_exists()
        with locked(self.path):
            self._refuse_links()
            self._clear()
            yield
            self._clear()  # files of a process that was killed before there was a run

    def _refuse_links(self) -> None:
        """Raise if a file that is appended to, or a directory that is worked in, lies outside of the run.

        The simulations, the members, the table and the fits may be links, which are read; but see
        :meth:`check_inside`.
        """
        for name in (LOG, MANIFEST, self.config_file.name):
            check_regular(self.path / name)
        for pattern in (".new-*", ".ready-*", *PARTS):
            for path in self.path.glob(pattern):
                self.check_inside(path)

    def check_inside(self, path: Path) -> None:
        """Raise if a directory that is to be written into is a link: nothing outside of a run is written."""
        if path.is_symlink():
            raise ValueError(
                f"{path} is a link to {os.readlink(path)}, outside of the run, where nothing is written. Make the "
                "run itself a link, or replace this link by a directory."
            )

    def check_tree(self, path: Path) -> None:
        """Raise if a directory that is to be written into, or anything in it, is a link, a pipe or a device."""
        self.check_inside(path)
        regular_files(path)

    def _clear(self) -> None:
        # Only in a run (the path may name any directory), or in one of an inference alone; and if it is writable.
        ours = self.config_file.exists() or (self.path / INFERENCE / "inference.json").exists()
        if not (ours and os.access(self.path, os.W_OK)):
            return
        # A call in Python, which has a lock of its own, may be at work there.
        homes = (self.path / INFERENCE, *self.path.glob(f"{REFINED}/*"))
        busy = [home for home in homes if in_use(home)]

        def free(path: Path) -> bool:
            return not any(path.is_relative_to(home) for home in busy)

        tables = (self.path / name / self.table.name for name in TABLES)
        whole = (self.path / name for name in TABLES)
        for directory in (self.simulations, self.table, self.members, self.likelihoods, *whole, *tables):
            if free(directory):
                recover(directory)
        for staged in self.path.glob(f".ready-*/{self.config_file.name}"):
            # New files are being put in place (see drystone.runs.replacement): with the settings to continue by.
            os.replace(staged, self.config_file)
        for place in (self.path, *self.path.glob(".new-*")):
            tables = (*TABLES, *NEW_INFERENCE[1:])
            below = ("members", "likelihoods", "fits", *PARTS, *OF_INFERENCE, *NEW_INFERENCE)
            below += tuple(f"{table}/{PARTS[1]}" for table in tables)
            of_refinements = place.glob(f"{REFINED}/*"), place.glob(f"{REFINED}/*/refitted")
            for directory in (place, *(place / name for name in below), *of_refinements[0], *of_refinements[1]):
                # Of a link, and of what lies below one, nothing is removed.
                inside = directory.resolve() == self.path.resolve() / directory.relative_to(self.path)
                for path in directory.glob(".*") if inside and free(directory) else ():
                    if TEMPORARY.fullmatch(path.name):
                        remove(path)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add a line to ``log.jsonl`` when a stage has ended: the only file that holds times."""
        begun, start = time.time(), time.perf_counter()
        yield
        self.log(stage=stage, begun=round(begun), seconds=round(time.perf_counter() - start, 3))

    def log(self, **event: Any) -> None:
        """Add a line to ``log.jsonl``."""
        path = self.path / LOG
        with naming(path):
            append_text(path, json.dumps(event) + "\n")
