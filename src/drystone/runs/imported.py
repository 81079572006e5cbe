"""Import arrays in ``.npy`` files as the simulations of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.format import MAGIC_PREFIX

import drystone as ds
from drystone._arrays import rows_of_data
from drystone._files import open_regular
from drystone._resume import digest_array
from drystone.errors import DamagedError
from drystone.runs.config import Config, Simulate
from drystone.runs.manifest import Manifest, StageRecord, pending
from drystone.runs.replacement import Replacement
from drystone.runs.run import Run

if TYPE_CHECKING:
    from drystone import Simulations

__all__ = ["import_arrays", "read_arrays", "read_npy"]


def read_npy(path: Path) -> np.ndarray:
    """Read an array of finite numbers from a ``.npy`` file; nothing is unpickled."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    with open_regular(path, follow=True) as file:
        if file.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:
            raise ValueError(
                f"{path} is not a NumPy array (.npy), the only format that is read: text (.csv), .npz and others "
                "are not. Write the array with numpy.save."
            )
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


def read_arrays(theta: Path, y: Path, section: Simulate) -> tuple[np.ndarray, np.ndarray]:
    """Read parameters (N, d) and data (N, m), or (N,) for one column, that are enough for the settings."""
    parameters, data = (rows_of_data(str(path), read_npy(path).astype(float)) for path in (theta, y))
    if parameters.ndim != 2 or data.ndim != 2 or len(parameters) != len(data):
        raise ValueError(
            f"{theta} and {y} must have shapes (N, d) and (N, m) of the same N; got {parameters.shape} and "
            f"{data.shape}."
        )
    section.check_enough(len(parameters), theta)
    return parameters, data


def import_arrays(
    run: Run, config: Config, parameters: np.ndarray, data: np.ndarray, *, force: bool = False
) -> Simulations:
    """Write parameters (N, d) and data (N, m) as the simulations of a run."""
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
