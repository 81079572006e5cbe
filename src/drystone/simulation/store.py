"""The directory of one run: finished blocks, so that a killed run can continue, and in the end the simulations."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drystone._files import recover, replacing
from drystone.simulation.block import Block, Job
from drystone.simulation.simulations import FILE, Simulations

__all__ = ["Store"]

BLOCKS = "simulations.blocks"


class Store:
    """Keeps the blocks of a run in ``simulations.blocks`` until ``simulations.zarr`` takes their place.

    Args:
        directory: The directory of the run.
        settings: What the run is made with; a store made with other settings is refused.
        first: The first block of the run. Its parameters tell whether a store was made with another prior.
    """

    def __init__(self, directory: Path, settings: dict[str, Any], first: Job) -> None:
        self.directory, self.settings, self.first = directory, settings, first
        self.parts = directory / BLOCKS

    def finished(self) -> Simulations | None:
        """Read the finished simulations, or None if there are none yet."""
        recover(self.directory / FILE)
        if not (self.directory / FILE).exists():
            return None
        simulations = Simulations.load(self.directory)
        of_first = simulations.row < self.first.rows
        self._check(dict(simulations.settings), simulations.theta[of_first], simulations.row[of_first])
        self.clear()  # blocks are still there if the process was killed just before its end
        return simulations

    def blocks(self) -> dict[int, Block]:
        """Read the blocks of an interrupted run; start the record of settings if there is none."""
        file = self.parts / "settings.json"
        if not file.exists():
            with replacing(file) as temporary:
                temporary.write_text(json.dumps(self.settings, indent=1))
        blocks = {}
        for path in sorted(self.parts.glob("block-*.npz")):
            with np.load(path, allow_pickle=False) as arrays:
                block = Block(arrays["theta"], arrays["y"], arrays["reason"])
            blocks[int(path.stem.removeprefix("block-"))] = block
        theta = blocks[0].theta if 0 in blocks else np.empty((0, 0))
        self._check(json.loads(file.read_text()), theta, np.arange(len(theta)))
        return blocks

    def keep(self, index: int, block: Block) -> None:
        """Write one finished block."""
        with replacing(self.parts / f"block-{index:06d}.npz") as temporary, temporary.open("wb") as file:
            np.savez(file, theta=block.theta, y=block.y, reason=block.reason)

    def finish(self, simulations: Simulations) -> None:
        """Write the simulations in the place of the blocks."""
        simulations.save(self.directory)
        self.clear()

    def clear(self) -> None:
        """Remove the blocks."""
        shutil.rmtree(self.parts, ignore_errors=True)

    def _check(self, settings: dict[str, Any], theta: NDArray[np.float64], row: NDArray[np.int64]) -> None:
        """Raise if what is stored was made with other settings, or if ``theta`` is not what this prior draws."""
        if settings != self.settings:
            raise ValueError(
                f"'{self.directory}' holds simulations made with {settings}; these are asked for: "
                f"{self.settings}. Use another directory, or remove it."
            )
        if len(row) and not np.array_equal(theta, self.first.theta()[row]):
            raise ValueError(
                f"'{self.directory}' holds simulations whose parameters were drawn from another prior. "
                "Use another directory, or remove it."
            )
