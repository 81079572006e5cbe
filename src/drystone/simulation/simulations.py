"""Simulations (θ, y) as one object, in memory and on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drystone._files import check_seal, recover, replacing, seal
from drystone._messages import require
from drystone.errors import DamagedError

__all__ = ["Simulations"]

FILE = "simulations.zarr"
FORMAT, VERSION = "drystone simulations", 1
CHUNK_BYTES = 2**22  # rows are stored in chunks of about 4 MB


@dataclass(frozen=True, eq=False)
class Simulations:
    """Parameters with their data; unpacks as ``theta, y = simulations``.

    Attributes:
        theta: Parameters, shape (N, d).
        y: Data, shape (N, m).
        row: Which of the simulations asked for each row is, shape (N,): failed ones are missing from it.
        left_out: How many simulations failed, by reason.
        settings: What the simulations were made with: simulator, n, seed, block.
    """

    theta: NDArray[np.float64]
    y: NDArray[np.floating]
    row: NDArray[np.int64]
    left_out: Mapping[str, int]
    settings: Mapping[str, Any]

    def __iter__(self) -> Iterator[NDArray]:
        yield self.theta
        yield self.y

    def __repr__(self) -> str:
        (n, d), m = self.theta.shape, self.y.shape[1]
        failed = sum(self.left_out.values())
        return f"<Simulations: {n} of {d} parameters and {m} data values; {failed} failed and left out>"

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write ``simulations.zarr`` into ``directory``, whole or not at all."""
        require("zarr", "files", "a store of simulations")
        import zarr

        with replacing(Path(directory) / FILE) as temporary:
            group = zarr.create_group(temporary)
            for name in ("theta", "y", "row"):
                values = getattr(self, name)
                rows = max(1, CHUNK_BYTES // max(1, values[:1].nbytes))
                group.create_array(name, data=values, chunks=(min(rows, len(values)), *values.shape[1:]))
            group.attrs.update(
                {
                    "format": FORMAT,
                    "version": VERSION,
                    "settings": dict(self.settings),
                    "left_out": dict(self.left_out),
                }
            )
            seal(temporary)

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Simulations:
        """Read ``simulations.zarr`` from ``directory``."""
        require("zarr", "files", "a store of simulations")
        import zarr

        path = Path(directory) / FILE
        recover(path)
        if not path.exists():
            raise FileNotFoundError(f"there is no {FILE} in '{directory}'; was `simulate` finished?")
        try:
            group = zarr.open_group(path, mode="r")
        except Exception as error:  # Zarr has several for a store it cannot make sense of
            raise DamagedError(f"'{path}' cannot be read as simulations: {error}") from error
        if group.attrs.get("format") != FORMAT or group.attrs.get("version") != VERSION:
            raise ValueError(
                f"'{path}' is not a store of simulations of version {VERSION}; "
                f"its attributes are {dict(group.attrs)}."
            )
        check_seal(path, group.attrs)
        theta, y, row = (np.asarray(group[name]) for name in ("theta", "y", "row"))
        attributes: dict[str, Any] = dict(group.attrs.asdict())
        return cls(theta, y, row, attributes["left_out"], attributes["settings"])
