"""Tables as xarray datasets and as files: Zarr or netCDF, with a format version, never pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drystone.checksums import DamagedError, check_seal, seal
from drystone.files import recover, replacing

if TYPE_CHECKING:
    import xarray

    from drystone.table import Table

__all__ = ["from_dataset", "load", "save", "to_dataset"]

FORMAT, VERSION = "drystone-table", 1
# The statistics of a table by dimension; quantiles, one array a level, are stacked along "level".
DIMS = ("member", "simulation", "parameter")
STATISTICS = {
    "log_q": DIMS[:2],
    "rank": DIMS,
    "mean": DIMS,
    "cov": (*DIMS, "parameter_2"),
    "draws": ("member", "simulation", "draw", "parameter"),
}


def to_dataset(table: Table) -> xarray.Dataset:
    """A Dataset with dims member, simulation, draw, parameter, level."""
    import xarray

    data: dict[str, Any] = {"theta": (("simulation", "parameter"), table.theta)}
    if table.y is not None:
        data["y"] = (("simulation", *(f"y_dim_{i}" for i in range(table.y.ndim - 1))), table.y)
    if table.weighted:
        data["row_weights"] = (("simulation",), table.row_weights)
    held = table.held
    data |= {name: (dims, held[name]) for name, dims in STATISTICS.items() if name in held}
    coords: dict[str, Any] = {"member": list(table.names), "parameter": list(table.parameters)}
    if table.levels:
        data["quantiles"] = (("level", *DIMS), np.stack([held[level] for level in table.levels]))
        coords["level"] = list(table.levels)
    attributes: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    if table.left_out:
        attributes["left_out"] = json.dumps(table.left_out)
    return xarray.Dataset(data, coords, attributes)


def from_dataset(dataset: xarray.Dataset) -> dict[str, Any]:
    """The arguments of the table that a Dataset holds."""
    return _arguments(dataset.attrs, {str(name): dataset[name].values for name in dataset.variables})


def _arguments(attributes: Mapping[Any, Any], arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    kind, version = attributes.get("format"), int(attributes.get("version", 0))
    if kind != FORMAT:
        raise ValueError(f"not a Drystone table: attribute `format` is {kind!r}, expected {FORMAT!r}.")
    if version > VERSION:
        raise ValueError(
            f"the table has format version {version}; this Drystone reads up to {VERSION}. Upgrade it."
        )
    names = ("theta", "y", "row_weights", *STATISTICS)
    arguments: dict[str, Any] = {name: arrays[name] for name in names if name in arrays}
    if "quantiles" in arrays:
        arguments["quantiles"] = dict(zip(map(float, arrays["level"]), arrays["quantiles"], strict=True))
    arguments["names"], arguments["parameters"] = (
        [str(value) for value in np.atleast_1d(attributes.get(dim, arrays.get(dim, ())))]
        for dim in ("member", "parameter")
    )
    arguments["left_out"] = json.loads(attributes.get("left_out", "{}"))
    return arguments


def save(table: Table, path: str | os.PathLike[str]) -> None:
    """Write a table, whole or not at all."""
    suffix = _suffix(path)
    dataset = to_dataset(table)
    # Strings are not yet part of the Zarr 3 specification: names travel as JSON attributes.
    dataset = dataset.assign_attrs(member=list(table.names), parameter=list(table.parameters))
    dataset = dataset.drop_vars(["member", "parameter"])
    with replacing(path) as temporary:
        if suffix == ".zarr":
            dataset.to_zarr(temporary, mode="w", consolidated=False, encoding=_chunks(dataset))
            seal(temporary)
        else:
            dataset.to_netcdf(temporary, engine="h5netcdf")


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The arguments of the table that a file holds."""
    suffix = _suffix(path)
    recover(path)
    if not Path(path).exists():
        raise FileNotFoundError(f"no table at {os.fspath(path)!r}.")
    try:
        contents = _read_zarr(Path(path)) if suffix == ".zarr" else _read_netcdf(Path(path))
    except DamagedError:
        raise
    except Exception as error:  # each library has errors of its own for files it cannot make sense of
        raise DamagedError(f"{os.fspath(path)!r} cannot be read as a table: {error}") from error
    return _arguments(*contents)


def _read_zarr(path: Path) -> tuple[Mapping[Any, Any], dict[str, np.ndarray]]:
    """Attributes and arrays, read by Zarr alone: importing xarray and pandas would take half a second more."""
    import zarr

    group = zarr.open_group(path, mode="r")
    check_seal(path, group.attrs)
    return dict(group.attrs), {name: np.asarray(array[...]) for name, array in group.arrays()}


def _read_netcdf(path: Path) -> tuple[Mapping[Any, Any], dict[str, np.ndarray]]:
    import xarray

    with xarray.open_dataset(path, engine="h5netcdf") as dataset:
        return dataset.attrs, {str(name): dataset[name].values for name in dataset.variables}


def _suffix(path: str | os.PathLike[str]) -> str:
    suffix = Path(path).suffix
    if suffix not in (".zarr", ".nc"):
        raise ValueError(f"a table is saved as `.zarr` or `.nc`; got {os.fspath(path)!r}.")
    return suffix


def _chunks(dataset: xarray.Dataset) -> dict[str, Any]:
    """Chunks of about 16 MB: whole rows of one member where draws are large, so that both streams well."""
    encoding = {}
    for name in ("draws", "cov", "quantiles", "rank", "mean", "log_q"):
        if name in dataset:
            array = dataset[name]
            lead = array.dims.index("simulation")
            row = array.dtype.itemsize * int(np.prod(array.shape[lead + 1 :], dtype=int))
            rows = max(1, min(array.shape[lead], 2**24 // max(row, 1)))
            encoding[name] = {"chunks": (1,) * lead + (rows,) + array.shape[lead + 1 :]}
    return encoding
