"""Import arrays in ``.npy`` files as the simulations of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import drystone as ds
from drystone._arrays import rows_of_data
from drystone.runs.config import Config
from drystone.runs.manifest import Manifest
from drystone.runs.run import Run

if TYPE_CHECKING:
    from drystone import Simulations

__all__ = ["import_arrays", "read_npy"]


def read_npy(path: Path) -> np.ndarray:
    """Read an array of finite numbers from a ``.npy`` file; nothing is unpickled."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
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
    if run.simulations.exists() and not force:
        raise ValueError(f"{run.simulations} already exists; --force replaces it.")
    row = np.arange(len(parameters))
    simulations = ds.Simulations(parameters, data, row, {}, {"simulator": "made elsewhere", "n": len(row)})
    Manifest(run).forget("simulate")
    simulations.save(run.path)
    config.write(run.config_file)
    return simulations
