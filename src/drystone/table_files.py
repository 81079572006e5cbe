"""Tables as xarray datasets and as files: Zarr or netCDF, with a format version, never pickle."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

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
    kind, version = dataset.attrs.get("format"), int(dataset.attrs.get("version", 0))
    if kind != FORMAT:
        raise ValueError(f"not a Drystone table: attribute `format` is {kind!r}, expected {FORMAT!r}.")
    if version > VERSION:
        raise ValueError(
            f"the table has format version {version}; this Drystone reads up to {VERSION}. Upgrade it."
        )
    names = ("theta", "y", "row_weights", *STATISTICS)
    arguments: dict[str, Any] = {name: dataset[name].values for name in names if name in dataset}
    if "quantiles" in dataset:
        levels = map(float, dataset["level"].values)
        arguments["quantiles"] = dict(zip(levels, dataset["quantiles"].values, strict=True))
    arguments["names"], arguments["parameters"] = (
        [str(value) for value in dataset[dim].values] for dim in ("member", "parameter")
    )
    arguments["left_out"] = json.loads(dataset.attrs.get("left_out", "{}"))
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
        else:
            dataset.to_netcdf(temporary, engine="h5netcdf")


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The arguments of the table that a file holds."""
    import xarray

    suffix = _suffix(path)
    recover(path)
    if not Path(path).exists():
        raise FileNotFoundError(f"no table at {os.fspath(path)!r}.")
    if suffix == ".zarr":
        opened = xarray.open_zarr(path, consolidated=False, chunks=None)
    else:
        opened = xarray.open_dataset(path, engine="h5netcdf")
    with opened as dataset:
        named = {dim: np.atleast_1d(dataset.attrs[dim]) for dim in ("member", "parameter") if dim in dataset.attrs}
        return from_dataset(dataset.assign_coords(named))


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
