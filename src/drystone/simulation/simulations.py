"""Simulations (θ, y) as one object, in memory and on disk, and the finished blocks of interrupted ones."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drystone._files import (
    open_store,
    read_npz,
    recover,
    replacing,
    seal_store,
    store_sealed,
    without_seal,
    write_npz,
)
from drystone._messages import counted, require
from drystone._resume import Record, check_same, continue_or_start, digest_array
from drystone.errors import DamagedError
from drystone.simulation.block import Block, Job
from drystone.simulation.support import Support

__all__ = ["Simulations", "StoredBlocks"]

FILE, BLOCKS = "simulations.zarr", "simulations.blocks"
# Version 1 had a checksum of the arrays alone, and neither names nor bounds of the parameters.
FORMAT, VERSION, UNSEALED = "drystone simulations", 2, 1
# The bounds of the prior; where there is none, files have null for the infinite value.
INFINITE = {"lower": -np.inf, "upper": np.inf}
CHUNK_BYTES = 2**22  # rows are stored in chunks of about 4 MB


@dataclass(frozen=True, eq=False)
class Simulations:
    """Parameters with their data; unpacks as ``theta, y = simulations``, and its length is their number.

    Attributes:
        theta: Parameters, shape (N, d).
        y: Data, shape (N, m).
        row: Index of each row among all n simulations, shape (N,); failed ones are missing.
        left_out: Number of failed simulations by reason.
        settings: Settings of the simulations: simulator, n, seed, block.
        parameters: Names of the parameters, of a task; else empty.
        support: Bounds of the prior; None if they are not known.

    Example:
        >>> import drystone as ds, tempfile
        >>> simulations = ds.simulate(ds.tasks.get("slcp"), n=100, seed=1)
        >>> theta, y = simulations
        >>> len(simulations), theta.shape, y.shape, dict(simulations.left_out)
        (100, (100, 5), (100, 8), {})
        >>> simulations.save(directory := tempfile.mkdtemp())
        >>> ds.Simulations.load(directory).settings["seed"]
        1
    """

    theta: NDArray[np.float64]
    y: NDArray[np.floating]
    row: NDArray[np.int64]
    left_out: Mapping[str, int]
    settings: Mapping[str, Any]
    parameters: tuple[str, ...] = ()
    support: Support | None = None

    def __iter__(self) -> Iterator[NDArray]:
        yield self.theta
        yield self.y

    def __len__(self) -> int:
        return len(self.theta)

    def __repr__(self) -> str:
        (n, d), m = self.theta.shape, self.y.shape[1]
        sizes = f"{n} of {counted(d, 'parameter')} and {counted(m, 'data value')}"
        return f"<Simulations: {sizes}; {sum(self.left_out.values())} failed and left out>"

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write ``simulations.zarr`` into ``directory``, whole or not at all."""
        require("zarr", "files", "a store of simulations")
        import zarr

        with replacing(Path(directory) / FILE) as temporary:
            group = zarr.create_group(temporary)
            for name in ("theta", "y", "row"):
                values = getattr(self, name)
                rows = max(1, CHUNK_BYTES // max(1, values[:1].nbytes))
                # Every chunk is written, also one of zeros, so that none that is missing was meant to be.
                group.create_array(
                    name,
                    data=values,
                    chunks=(min(rows, len(values)), *values.shape[1:]),
                    config={"write_empty_chunks": True},
                )
            attributes: dict[str, Any] = {"format": FORMAT, "version": VERSION}
            attributes |= {"settings": dict(self.settings), "left_out": dict(self.left_out)}
            attributes["parameters"] = list(self.parameters)
            if self.support is not None:
                attributes |= {name: _finite_or_none(getattr(self.support, name)) for name in INFINITE}
            group.attrs.update(attributes)
            seal_store(temporary)

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Simulations:
        """Read ``simulations.zarr`` from ``directory``."""
        require("zarr", "files", "a store of simulations")
        path = Path(directory) / FILE
        recover(path)
        if not path.exists():
            raise FileNotFoundError(f"there is no {FILE} in '{directory}'; was `simulate` finished?")
        try:
            return cls._read(path)
        except (DamagedError, ImportError, PermissionError):
            raise
        except Exception as error:  # Zarr raises several types for a store that it cannot read
            raise DamagedError(f"'{path}' cannot be read as simulations: {error}") from error

    @classmethod
    def _read(cls, path: Path) -> Simulations:
        group = open_store(path)
        attributes: dict[str, Any] = group.attrs.asdict()
        kind, version = attributes.get("format"), attributes.get("version")
        if kind != FORMAT or not isinstance(version, int) or version > VERSION:
            raise ValueError(f"not a store of simulations of version {VERSION}; its attributes are {attributes}.")
        if not store_sealed(path) and version > UNSEALED:
            raise without_seal(path)
        theta, y, row = (np.asarray(group[name]) for name in ("theta", "y", "row"))
        if (
            theta.ndim != 2
            or y.ndim != 2
            or not len(theta) == len(y) == row.size > 0
            or row.dtype.kind not in "iu"
        ):
            raise ValueError(f"theta, y and row have the shapes {theta.shape}, {y.shape} and {row.shape}.")
        support = None
        if INFINITE.keys() <= attributes.keys():
            support = Support(*(_with_infinite(attributes[name], value) for name, value in INFINITE.items()))
        parameters = tuple(map(str, attributes.get("parameters", ())))
        if len(parameters) not in (0, theta.shape[1]) or (support and len(support.lower) != theta.shape[1]):
            raise ValueError(f"names or bounds of other than the {theta.shape[1]} parameters.")
        return cls(theta, y, row, dict(attributes["left_out"]), dict(attributes["settings"]), parameters, support)


def _finite_or_none(bounds: NDArray[np.float64]) -> list[float | None]:
    """Return bounds as JSON can hold them."""
    return [float(bound) if np.isfinite(bound) else None for bound in bounds]


def _with_infinite(bounds: Sequence[float | None], infinite: float) -> list[float]:
    return [infinite if bound is None else bound for bound in bounds]


class StoredBlocks:
    """Finished blocks in ``simulations.blocks``, until ``simulations.zarr`` replaces them.

    Args:
        directory: The directory of both.
        settings: Settings of the simulations; blocks or simulations with other settings are refused.
        first: The first block. Its parameters tell whether the stored ones were drawn from another prior.
    """

    def __init__(self, directory: Path, settings: dict[str, Any], first: Job) -> None:
        self.directory, self.record, self.first = directory, Record(settings), first
        self.blocks = directory / BLOCKS
        self.messages = f"the simulations in '{directory}'", "Use another directory, or remove it."

    def finished(self) -> Simulations | None:
        """Read the finished simulations, or None if there are none yet."""
        recover(self.directory / FILE)
        if not (self.directory / FILE).exists():
            return None
        simulations = Simulations.load(self.directory)
        check_same(Record(simulations.settings), self.record, *self.messages)
        in_first = simulations.row < self.first.rows
        self._check_prior(simulations.theta[in_first], simulations.row[in_first])
        self.clear()  # blocks remain if the process was killed just before its end
        return simulations

    def read(self) -> dict[int, Block]:
        """Read the blocks of an interrupted simulation by index; write the record if there is none."""
        continue_or_start(self.blocks / "settings.json", self.record, *self.messages)
        blocks = {}
        for path in sorted(self.blocks.glob("block-*.npz")):
            try:
                arrays = read_npz(path)
                block = Block(arrays["theta"], arrays["y"], arrays["reason"])
                blocks[int(path.stem.removeprefix("block-"))] = block
            except (KeyError, ValueError) as error:
                warnings.warn(f"'{path}' cannot be read ({error}); it is made again.", stacklevel=2)
        if 0 in blocks:
            self._check_prior(blocks[0].theta, np.arange(self.first.rows))
        return blocks

    def write(self, index: int, block: Block) -> None:
        """Write one finished block."""
        arrays = {"theta": block.theta, "y": block.y, "reason": block.reason}
        write_npz(self.blocks / f"block-{index:06d}.npz", arrays)

    def finish(self, simulations: Simulations) -> None:
        """Write the simulations and remove the blocks."""
        simulations.save(self.directory)
        self.clear()

    def clear(self) -> None:
        """Remove the blocks."""
        shutil.rmtree(self.blocks, ignore_errors=True)

    def _check_prior(self, theta: NDArray[np.float64], row: NDArray[np.int64]) -> None:
        """Raise if the parameters of these rows of the first block differ from those drawn from the prior."""
        recorded, current = (
            Record(inputs={"the prior": digest_array(array)}) for array in (theta, self.first.theta()[row])
        )
        check_same(recorded, current, *self.messages)
