"""NumPy archives with a seal, of numbers and text alone, read after a look at the sizes they declare."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drystone._files.regular import open_regular
from drystone._files.seals import LENGTH, seal_file, sealed, without_seal
from drystone._files.stores import check_size
from drystone._files.whole import replacing
from drystone.errors import DamagedError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["open_npz", "read_npz", "write_npz"]

# An entry by which an archive that has lost its seal is told from one made elsewhere.
SEALED = "drystone_sealed"


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an archive with a seal, whole or not at all."""
    import numpy as np  # within functions: the command's help imports this module

    objects = [name for name, array in arrays.items() if np.asarray(array).dtype.hasobject]
    if objects:  # NumPy would pickle them, and cannot be told not to before version 2.1
        raise ValueError(f"{', '.join(objects)} must be of numbers or text; got arrays of objects.")
    with replacing(path) as temporary:
        # Opened here: NumPy would add a suffix to a path, and zipfile begins anew where it cannot open one.
        with temporary.open("w+b") as file:
            contents: dict[str, Any] = {**arrays, SEALED: np.array(1)}
            np.savez(file, **contents)
            with zipfile.ZipFile(file, "a") as archive:
                archive.comment = b" " * LENGTH
        seal_file(temporary, reserved=True)


@contextmanager
def open_npz(path: Path) -> Iterator[Mapping[str, np.ndarray]]:
    """Yield the arrays of an archive, each read on access; raise :class:`DamagedError` if it was changed."""
    import numpy as np

    has_seal = sealed(path)
    # Opened here, because NumPy does not close a file that it cannot read.
    with open_regular(path, follow=True) as binary:
        with zipfile.ZipFile(binary) as archive:
            names = _checked_names(path, archive)
        if SEALED in names and not has_seal:
            raise without_seal(path)
        binary.seek(0)
        with np.load(binary, allow_pickle=False) as file:
            yield _Arrays(file, [name for name in names if name != SEALED])


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """Read all arrays of an archive; raise :class:`DamagedError`, which names it, if it cannot be read."""
    try:
        with open_npz(path) as arrays:
            return dict(arrays)
    except DamagedError:
        raise
    except (
        ValueError,
        OSError,
        EOFError,
        KeyError,
        zipfile.BadZipFile,
        NotImplementedError,  # a way of compression that zipfile does not know
        RuntimeError,
    ) as error:
        raise DamagedError(f"{path} is damaged: it cannot be read as arrays ({error}).") from error


class _Arrays(Mapping[str, Any]):
    """The arrays of an open archive."""

    def __init__(self, file: Any, names: list[str]) -> None:
        self.file, self.names = file, names

    def __getitem__(self, key: str) -> np.ndarray:
        if key not in self.names:
            raise KeyError(key)
        return self.file[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def _checked_names(path: Path, archive: zipfile.ZipFile) -> list[str]:
    """Return the names of the arrays; raise if the headers declare more than the archive can hold."""
    names: list[str] = []
    declared = 0
    for entry in archive.infolist():
        name = entry.filename.removesuffix(".npy")
        with archive.open(entry) as file:
            shape, dtype = _header(file)
        size = math.prod(shape) * dtype.itemsize
        if name in names or dtype.hasobject or size > entry.file_size:
            raise DamagedError(
                f"{path} is damaged: `{name}` is {dtype} of shape {shape} in {entry.file_size} bytes."
            )
        names.append(name)
        declared += size
    check_size(path, declared, path.stat().st_size)
    return names


def _header(file: Any) -> tuple[tuple[int, ...], np.dtype]:
    import numpy as np

    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    return shape, dtype
