"""A run: a directory of files with fixed names, opened by one process at a time."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drystone._files import recover
from drystone.runs.config import Config
from drystone.runs.lock import locked

__all__ = ["Run"]

# What `drystone._files.replacing` calls what it has not finished.
LEFT = re.compile(r"\..+\.[0-9a-f]{32}\.(tmp|old)")


@dataclass(frozen=True)
class Run:
    """Where a run keeps what.

    Attributes:
        path: the directory.
    """

    path: Path

    @property
    def config_file(self) -> Path:
        """What the run is asked to do."""
        return self.path / "config.toml"

    @property
    def simulations(self) -> Path:
        """Parameters and data: training rows, stacking rows, test rows."""
        return self.path / "simulations.zarr"

    @property
    def members(self) -> Path:
        """A ``<name>.safetensors`` and a ``<name>.json`` for each member."""
        return self.path / "members"

    @property
    def table(self) -> Path:
        """What the members say of the stacking and the test rows."""
        return self.path / "table.zarr"

    @property
    def report(self) -> Path:
        """The report."""
        return self.path / "report.html"

    def fit(self, name: str) -> Path:
        """One stacking."""
        return self.path / "fits" / f"{name}.json"

    @property
    def config(self) -> Config:
        """What ``config.toml`` says; the defaults if there is none."""
        return Config.read(self.config_file) if self.config_file.exists() else Config()

    def check_exists(self) -> None:
        """Raise if the run is not a directory, and say how to begin one."""
        if not self.path.exists():
            raise FileNotFoundError(
                f"there is no run at {self.path}; begin one with `drystone simulate {self.path} --task NAME`."
            )
        if not self.path.is_dir():
            raise NotADirectoryError(f"{self.path} is a file; a run is a directory.")

    @contextmanager
    def opened(self, create: bool = False) -> Iterator[None]:
        """Hold the lock of the directory, and clear away what a killed process left half done in it."""
        if create and not self.path.exists():
            self.path.mkdir(parents=True)
        self.check_exists()
        with locked(self.path):
            # Only in a run (anyone may name any directory), and not where nothing can be written.
            if self.config_file.exists() and os.access(self.path, os.W_OK):
                self._clear()
            yield

    def _clear(self) -> None:
        for store in (self.simulations, self.table):
            recover(store)
        for directory in (self.path, self.members, self.path / "fits", self.path / "simulations.blocks"):
            for left in directory.glob(".*"):
                if LEFT.fullmatch(left.name):
                    shutil.rmtree(left) if left.is_dir() else left.unlink()

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add a line to ``log.jsonl`` when a stage has ended: the only place where times are kept."""
        begun, clock = time.time(), time.perf_counter()
        yield
        self.log(stage=stage, begun=round(begun), seconds=round(time.perf_counter() - clock, 3))

    def log(self, **event: Any) -> None:
        """Add a line to ``log.jsonl``."""
        with (self.path / "log.jsonl").open("a") as file:
            file.write(json.dumps(event) + os.linesep)
