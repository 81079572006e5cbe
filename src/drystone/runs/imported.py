"""Import arrays in ``.npy`` files as the simulations of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import drystone as ds
from drystone._arrays import rows_of_data
from drystone._files import open_regular
from drystone._resume import digest_array
from drystone.errors import DamagedError
from drystone.runs.config import Config
from drystone.runs.manifest import Manifest, StageRecord, pending
from drystone.runs.replacement import Replacement
from drystone.runs.run import Run

if TYPE_CHECKING:
    from drystone import Simulations

__all__ = ["import_arrays", "read_npy"]


def read_npy(path: Path) -> np.ndarray:
    """Read an array of finite numbers from a ``.npy`` file; nothing is unpickled."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    with open_regular(path, follow=True):
        pass
    try:
        # Mapped first, which compares the size in the header with that of the file, and then read.
        array = np.array(np.load(path, allow_pickle=False, mmap_mode="r"))
    except Exception as error:  # NumPy parses the header as Python, and raises what that raises
        raise ValueError(f"{path} is not a NumPy array of numbers (.npy): {error}.") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
        raise ValueError(f"{path} must hold one array of numbers (.npy).")
    if not np.isfinite(array).all():
        raise ValueError(f"{path} holds values that are not finite.")
    return array


def import_arrays(run: Run, config: Config, theta: Path, y: Path, *, force: bool = False) -> Simulations:
    """Write parameters (N, d) and data (N, m), or (N,) for one column, as the simulations of a run."""
    parameters, data = (rows_of_data(str(path), read_npy(path).astype(float)) for path in (theta, y))
    if parameters.ndim != 2 or data.ndim != 2 or len(parameters) != len(data):
        raise ValueError(
            f"{theta} and {y} must have shapes (N, d) and (N, m) of the same N; got {parameters.shape} and "
            f"{data.shape}."
        )
    config.simulate.check_enough(len(parameters), theta)
    manifest = Manifest(run)
    inputs = {"theta": digest_array(parameters), "y": digest_array(data)}
    replacement = Replacement(manifest, "simulate", StageRecord({"simulator": "made elsewhere"}, inputs))
    row = np.arange(len(parameters))
    simulations = ds.Simulations(parameters, data, row, {}, {"simulator": "made elsewhere", "n": len(row)})
    if run.simulations.exists() and not (force or replacement.unfinished):
        if not _imported(run, config, simulations):
            raise ValueError(f"{run.simulations} already exists; --force replaces it.")
        manifest.forget("simulate")  # which an earlier process may have been killed before
        return simulations
    directory = replacement.directory(anew=run.simulations.exists() and not replacement.ready)
    if directory == run.path:
        config.write(run.config_file)
    simulations.save(directory)
    if directory != run.path:
        replacement.install(config, run.path / "simulations.blocks")
    manifest.forget("simulate", pending("simulate"))
    replacement.finish()
    return simulations


def _imported(run: Run, config: Config, simulations: Simulations) -> bool:
    """Return whether a run has these simulations, with these settings, already."""
    if not run.config_file.exists() or run.config.simulate != config.simulate:
        return False
    try:
        existing = ds.Simulations.load(run.path)
    except DamagedError:
        return False
    same = [np.array_equal(*pair) for pair in zip(existing, simulations, strict=True)]
    return all(same) and existing.settings == simulations.settings
