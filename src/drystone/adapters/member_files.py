"""One file a member: what a job on a cluster writes and a table is collected from. NPZ, Zarr, HDF5 or netCDF.

A file holds some of ``log_q`` (N,), ``draws`` (N, S, d), ``rank`` and ``mean`` (N, d), ``cov`` (N, d, d),
``quantiles`` (L, N, d) with ``levels`` (L,), and beside them ``theta`` (N, d), ``y`` (N, ...) and ``name``.
Nothing is pickled.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from drystone.arrays import as_numpy, checked
from drystone.files import recover, replacing
from drystone.table_files import FORMAT

__all__ = ["SUFFIXES", "opened", "to_file"]

HDF5 = (".nc", ".h5", ".hdf5")
SUFFIXES = (".npz", ".zarr", *HDF5)
# The axes of each array: N simulations, S draws, d parameters, L levels.
LETTERS = {"log_q": "N", "draws": "NSd", "rank": "Nd", "mean": "Nd", "cov": "Ndd", "theta": "Nd"}
LETTERS |= {"levels": "L", "quantiles": "LNd"}


def to_file(
    path: str | os.PathLike[str],
    *,
    log_q: Any = None,
    draws: Any = None,
    rank: Any = None,
    mean: Any = None,
    cov: Any = None,
    quantiles: Mapping[float, Any] | None = None,
    theta: Any = None,
    y: Any = None,
    name: str | None = None,
) -> None:
    """Write what one member says of N simulations, whole or not at all: the last line of a job.

    Args:
        path: ending in ``.npz``, ``.zarr``, ``.h5``, ``.hdf5`` or ``.nc`` (which decides the format).
        log_q: log densities, (N,).
        draws: (N, S, d).
        rank: share of draws ≤ theta, (N, d).
        mean: (N, d).
        cov: (N, d, d).
        quantiles: ``{level: (N, d)}``.
        theta: the parameters of the simulations, (N, d), by which files are checked against each other.
        y: their data, (N, ...).
        name: the member's; None for the file's name without its suffix.

    Example:
        >>> import tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "maf_3.npz")
        >>> to_file(path, log_q=np.zeros(5), theta=np.ones((5, 2)))
        >>> with opened(path) as arrays:
        ...     sorted(arrays)
        ['log_q', 'theta']
    """
    given = {"theta": theta, "log_q": log_q, "draws": draws, "rank": rank, "mean": mean, "cov": cov}
    sizes: dict[str, int] = {}
    arrays = {key: checked(key, value, LETTERS[key], sizes) for key, value in given.items() if value is not None}
    if quantiles:
        columns = [checked(f"quantiles[{level}]", value, "Nd", sizes) for level, value in quantiles.items()]
        arrays |= {"levels": np.array(list(quantiles), float), "quantiles": np.stack(columns)}
    if not set(arrays) - {"theta"}:
        raise ValueError("a member's file needs at least one of `log_q`, `draws` and the statistics; got none.")
    if y is not None:
        arrays["y"] = _data(as_numpy(y), sizes["N"])
    suffix = _suffix(path)
    with replacing(path) as temporary:
        if suffix == ".npz":
            with temporary.open("wb") as file:  # given a name, NumPy would add a suffix to it
                labelled = arrays if name is None else {**arrays, "name": np.array(name)}
                np.savez(file, allow_pickle=False, **labelled)
        elif suffix == ".zarr":
            import zarr

            group = zarr.open_group(temporary, mode="w")
            for key, array in arrays.items():
                # Every chunk, also one of zeros, so that a missing one says that writing was interrupted.
                group.create_array(key, data=array, chunks=_chunks(array), config={"write_empty_chunks": True})
            group.attrs.update({} if name is None else {"name": name})
        else:
            _write_hdf5(temporary, arrays, name)


def _data(y: np.ndarray, N: int) -> np.ndarray:
    """y, checked."""
    if y.dtype.kind not in "fiub":
        raise TypeError(f"`y` must hold real numbers; got dtype {y.dtype}.")
    if y.ndim == 0 or len(y) != N:
        raise ValueError(f"`y` must have shape (N, ...) with N = {N} simulations; got {y.shape}.")
    return y


def _write_hdf5(path: Path, arrays: Mapping[str, np.ndarray], name: str | None) -> None:
    """As netCDF, which is HDF5 with named dimensions, so that xarray opens it too."""
    import xarray

    words = {"N": "simulation", "S": "draw", "d": "parameter", "L": "level"}
    named: dict[str, Any] = {
        key: ([words[letter] for letter in LETTERS[key]], array) for key, array in arrays.items() if key != "y"
    }
    if "cov" in named:
        named["cov"] = (["simulation", "parameter", "parameter_2"], arrays["cov"])  # no name twice
    if "y" in arrays:
        named["y"] = (["simulation", *(f"y_dim_{i}" for i in range(arrays["y"].ndim - 1))], arrays["y"])
    dataset = xarray.Dataset(named, attrs={} if name is None else {"name": name})
    dataset.to_netcdf(path, engine="h5netcdf")


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Mapping[str, Any]]:
    """The arrays of a file by name, read when sliced (``arrays["draws"][...]``); ``name`` is a string."""
    suffix = _suffix(path)
    recover(path)
    if suffix == ".npz":
        # Opened here, because NumPy leaves a file that it cannot read open.
        with Path(path).open("rb") as binary, np.load(binary, allow_pickle=False) as file:
            yield _Npz(file)
    elif suffix == ".zarr":
        import zarr

        group = zarr.open_group(os.fspath(path), mode="r")
        _refuse_table(group.attrs)
        arrays = dict(group.arrays())
        for key, array in arrays.items():
            # What was never written reads as zeros.
            if array.nchunks_initialized < array.nchunks:
                raise ValueError(f"`{key}` has {array.nchunks_initialized} of {array.nchunks} chunks")
        yield {**arrays, **_name(group.attrs)}
    else:
        import h5py

        with h5py.File(path, "r") as file:
            _refuse_table(file.attrs)
            arrays = {key: value for key, value in file.items() if isinstance(value, h5py.Dataset)}
            yield {**arrays, **_name(file.attrs)}


class _Npz(Mapping[str, Any]):
    """An NPZ file whose arrays are read when they are looked at."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def __getitem__(self, key: str) -> Any:
        return str(self.file[key]) if key == "name" else self.file[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.file.files)

    def __len__(self) -> int:
        return len(self.file.files)


def _refuse_table(attributes: Any) -> None:
    if attributes.get("format") == FORMAT:
        raise ValueError("this is a whole table, not a member's file: read it with `ds.Table.load`")


def _name(attributes: Any) -> dict[str, str]:
    return {"name": str(attributes["name"])} if "name" in attributes else {}


def _suffix(path: str | os.PathLike[str]) -> str:
    suffix = Path(path).suffix
    if suffix not in SUFFIXES:
        raise ValueError(f"a member's file ends in one of {', '.join(SUFFIXES)}; got {os.fspath(path)!r}.")
    return suffix


def _chunks(array: np.ndarray) -> tuple[int, ...]:
    """Whole rows, about 16 MB of them."""
    row = array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=int))
    return (max(1, min(len(array), 2**24 // max(row, 1))), *array.shape[1:])
