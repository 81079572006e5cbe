"""HDF5 files, opened after a look at where their numbers come from.

An HDF5 file may hold links to other files, datasets whose bytes lie in other files, and declare any size. Only
datasets of numbers or text at the top of the file itself are read, and only if the file can hold them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drystone._files.regular import open_regular
from drystone._files.stores import check_size
from drystone.errors import DamagedError

if TYPE_CHECKING:
    import h5py

__all__ = ["open_hdf5"]

# HDF5 writes placeholders for dimensions of netCDF that have no values, and allocates nothing for them.
PLACEHOLDER = b"This is a netCDF dimension but not a netCDF variable"
# Deflate, shuffle, Fletcher's checksum, szip, n-bit, scale and offset, LZF: those that come with h5py.
FILTERS = (1, 2, 3, 4, 5, 6, 32000)


@contextmanager
def open_hdf5(path: Path) -> Iterator[tuple[h5py.File, dict[str, h5py.Dataset]]]:
    """Yield an HDF5 file, opened for reading, and the datasets at its top; refuse what lies in other files."""
    import h5py

    with open_regular(path, follow=True):
        pass
    with h5py.File(path, "r") as file:
        datasets: dict[str, h5py.Dataset] = {}
        for name in map(str, file):
            if not isinstance(file.get(name, getlink=True), h5py.HardLink):
                raise DamagedError(f"{path} is refused: {name!r} is a link, which may lead to another file.")
            dataset = file[name]
            if isinstance(dataset, h5py.Dataset) and not _placeholder(dataset):
                _check(path, name, dataset)
                datasets[name] = dataset
        declared = sum(math.prod(d.shape) * d.dtype.itemsize for d in datasets.values())
        check_size(path, declared, path.stat().st_size)
        yield file, datasets


def _placeholder(dataset: h5py.Dataset) -> bool:
    name: Any = dataset.attrs.get("NAME", b"")
    return dataset.id.get_storage_size() == 0 and isinstance(name, bytes) and name.startswith(PLACEHOLDER)


def _check(path: Path, name: str, dataset: h5py.Dataset) -> None:
    """Raise if a dataset is not of numbers or text that lie in the file."""
    import h5py

    if dataset.external or dataset.is_virtual:
        raise DamagedError(f"{path} is refused: the values of {name!r} lie in other files.")
    if dataset.dtype.kind not in "fiubSU" and h5py.check_string_dtype(dataset.dtype) is None:
        raise DamagedError(f"{path} is refused: {name!r} holds {dataset.dtype}, not numbers or text.")
    plist, sizes = dataset.id.get_create_plist(), dataset.shape
    unknown = [i for i in range(plist.get_nfilters()) if plist.get_filter(i)[0] not in FILTERS]
    if unknown:
        raise DamagedError(f"{path} is refused: {name!r} needs a filter that does not come with h5py.")
    if math.prod(sizes) == 0:
        return
    if dataset.chunks is not None:
        expected = math.prod(-(-n // c) for n, c in zip(sizes, dataset.chunks, strict=True))
        check_size(path, expected * math.prod(dataset.chunks) * dataset.dtype.itemsize, path.stat().st_size)
        complete = dataset.id.get_num_chunks() == expected
    else:
        complete = dataset.id.get_storage_size() > 0
    if not complete:
        raise DamagedError(f"{path} is damaged: a part of {name!r} was never written.")
