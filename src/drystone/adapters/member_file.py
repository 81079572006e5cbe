"""The file of one member, in any of four formats: what it says of the simulations, written and read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import as_numpy, checked
from drystone._files import (
    open_hdf5,
    open_npz,
    open_store,
    recover,
    replacing,
    seal_file,
    seal_store,
    sealed,
    store_sealed,
    without_seal,
    write_npz,
)
from drystone._messages import require
from drystone.table.disk import FORMAT, named_axes
from drystone.table.inputs import check_ordered
from drystone.table.statistics import ROW_ARRAYS, SCHEMA

__all__ = ["AXES", "STATISTICS", "SUFFIXES", "opened", "to_file"]

HDF5 = (".nc", ".h5", ".hdf5")
SUFFIXES = (".npz", ".zarr", *HDF5)
# The attribute `format` of the files that have a seal.
MEMBER = "drystone-member"
# Libraries that read and write each format; the other formats are HDF5.
LIBRARIES = {".npz": (), ".zarr": ("zarr",)}
# The axes of each array, as in a table without K: N simulations, S draws, d parameters, L levels. Shared
# points are of all members, so that no member's file has them.
STATISTICS = {name: statistic.axes.replace("K", "") for name, statistic in SCHEMA.items() if name != "log_f"}
AXES = {**STATISTICS, "levels": "L", "theta": ROW_ARRAYS["theta"], "y": ROW_ARRAYS["y"]}


def to_file(
    path: str | os.PathLike[str],
    *,
    log_q: ArrayLike | None = None,
    draws: ArrayLike | None = None,
    rank: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    cov: ArrayLike | None = None,
    quantiles: Mapping[float, ArrayLike] | None = None,
    theta: ArrayLike | None = None,
    y: ArrayLike | None = None,
    name: str | None = None,
) -> None:
    """Write the statistics of one member on N simulations to a file, whole or not at all.

    Args:
        path: Path that ends in ``.npz``, ``.zarr``, ``.h5``, ``.hdf5`` or ``.nc``, which decides the format.
        log_q: Log densities, (N,).
        draws: Draws, (N, S, d).
        rank: Share of draws ≤ theta, (N, d).
        mean: Means, (N, d).
        cov: Covariances, (N, d, d).
        quantiles: Quantiles by level, ``{level: (N, d)}``; they rise with the level.
        theta: Parameters of the simulations, (N, d), by which files are checked against each other.
        y: Data of the simulations, (N, ...).
        name: Name of the member; None for the file's name without its suffix.

    Example:
        >>> import tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "maf_3.npz")
        >>> to_file(path, log_q=np.zeros(5), theta=np.ones((5, 2)))
        >>> with opened(path) as arrays:
        ...     sorted(arrays)
        ['log_q', 'theta']
    """
    values = {"theta": theta, "log_q": log_q, "draws": draws, "rank": rank, "mean": mean, "cov": cov}
    sizes: dict[str, int] = {}
    arrays = {key: checked(key, value, AXES[key], sizes) for key, value in values.items() if value is not None}
    if quantiles:
        axes = AXES["quantiles"].removeprefix("L")
        columns = {level: checked(f"quantiles[{level}]", value, axes, sizes) for level, value in quantiles.items()}
        check_ordered({level: column[None] for level, column in columns.items()}, [name or Path(path).stem])
        arrays |= {"levels": np.array(list(columns), float), "quantiles": np.stack(list(columns.values()))}
    if not set(arrays) - {"theta"}:
        raise ValueError("a member's file needs at least one of `log_q`, `draws` and the statistics; got none.")
    if y is not None:
        arrays["y"] = _data(as_numpy(y), sizes["N"])
    suffix = _suffix(path)
    if suffix == ".npz":
        write_npz(Path(path), arrays if name is None else {**arrays, "name": np.array(name)})
        return
    attributes = {"format": MEMBER, **({} if name is None else {"name": name})}
    with replacing(path) as temporary:
        if suffix == ".zarr":
            import zarr

            group = zarr.open_group(temporary, mode="w")
            for key, array in arrays.items():
                # Every chunk is written, also one of zeros, so that a missing one shows an interruption.
                group.create_array(key, data=array, chunks=_chunks(array), config={"write_empty_chunks": True})
            group.attrs.update(attributes)
            seal_store(temporary)
        else:
            _write_hdf5(temporary, arrays, attributes)
            seal_file(temporary)


def _data(y: np.ndarray, N: int) -> np.ndarray:
    """Return y; raise if its type or shape is wrong."""
    if y.dtype.kind not in "fiub":
        raise TypeError(f"`y` must hold real numbers; got dtype {y.dtype}.")
    if y.ndim == 0 or len(y) != N:
        raise ValueError(f"`y` must have shape (N, ...) with N = {N} simulations; got {y.shape}.")
    return y


def _write_hdf5(path: Path, arrays: Mapping[str, np.ndarray], attributes: Mapping[str, str]) -> None:
    """Write netCDF, which is HDF5 with named dimensions, so that xarray opens it too."""
    import xarray

    named = {key: (named_axes(AXES[key], array.ndim), array) for key, array in arrays.items()}
    xarray.Dataset(named, attrs=attributes).to_netcdf(path, engine="h5netcdf")


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the arrays of a file by name, read when sliced (``arrays["draws"][...]``); ``name`` is a string.

    The seal of the file is checked first; a file that was not written by :func:`to_file` has none.
    """
    suffix, path = _suffix(path), Path(path)
    recover(path)
    if suffix == ".npz":
        with open_npz(path) as arrays:
            yield _Npz(arrays)
    elif suffix == ".zarr":
        group = open_store(path)
        _check_attributes(path, group.attrs, store_sealed(path))
        yield {**dict(group.arrays()), **_name(group.attrs)}
    else:
        has_seal = sealed(path)
        with open_hdf5(path) as (file, datasets):
            _check_attributes(path, file.attrs, has_seal)
            yield {**datasets, **_name(file.attrs)}


class _Npz(Mapping[str, Any]):
    """The arrays of an NPZ file, in which the name is one of them."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.arrays = arrays

    def __getitem__(self, key: str) -> Any:
        return str(self.arrays[key]) if key == "name" else self.arrays[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)


def _check_attributes(path: Path, attributes: Any, has_seal: bool) -> None:
    """Raise if a file is a table, or has lost its seal."""
    if attributes.get("format") == FORMAT:
        raise ValueError("this is a whole table, not a member's file: read it with `ds.Table.load`")
    if attributes.get("format") == MEMBER and not has_seal:
        raise without_seal(path)


def _name(attributes: Any) -> dict[str, str]:
    return {"name": str(attributes["name"])} if "name" in attributes else {}


def _suffix(path: str | os.PathLike[str]) -> str:
    suffix = Path(path).suffix
    if suffix not in SUFFIXES:
        raise ValueError(f"a member's file must end in one of {', '.join(SUFFIXES)}; got {os.fspath(path)!r}.")
    for module in LIBRARIES.get(suffix, ("xarray", "h5netcdf", "h5py")):
        require(module, "files", f"a `{suffix}` file")
    return suffix


def _chunks(array: np.ndarray) -> tuple[int, ...]:
    """Return chunks of whole rows, about 16 MB each."""
    row = array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=int))
    return (max(1, min(len(array), 2**24 // max(row, 1))), *array.shape[1:])
