"""Tables from one file per member, as written by the jobs of a cluster."""

from __future__ import annotations

import glob
import os
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import as_numpy
from drystone._messages import counted, first_few
from drystone.adapters.member_file import AXES, STATISTICS, opened
from drystone.errors import DamagedError
from drystone.table import Table

__all__ = ["FileDraws", "from_files"]


def from_files(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    theta: ArrayLike | None = None,
    y: ArrayLike | None = None,
    expected: int | np.integer | Sequence[str] | None = None,
    missing: Literal["raise", "drop"] = "raise",
    parameters: Sequence[str] | None = None,
) -> Table:
    """Return the table of members in one file each, as written by :func:`drystone.adapters.to_file`.

    Files are checked against each other: they must have the same sizes and simulations, both θ and y. The majority
    counts as right, so that the message names the files that differ from it. Fields that some files lack are NaN
    for these members (:meth:`drystone.Table.has`), with a warning that names them. Draws stay on disk and are read
    one member at a time.

    Args:
        paths: A glob pattern (``"members/*.npz"``) or the files. A path that exists is taken literally.
        theta: Parameters of the simulations, (N, d); None for those in the files.
        y: Data of the simulations, (N, ...); None for those in the files, if any.
        expected: Names of the members, or their exact number. Without it a job that wrote no file goes unnoticed.
        missing: "raise" if a file is missing, cannot be read or differs from the others, or "drop" it, warn, and
            list it in ``table.left_out``; either way all such files are named.
        parameters: Names of the parameters.

    Example:
        >>> import drystone as ds, tempfile
        >>> (theta, y), directory = ds.toy.simulate(20, seed=1), tempfile.mkdtemp()
        >>> for name, member in ds.toy.MEMBERS.items():  # one job each, on a cluster say
        ...     ds.adapters.to_file(f"{directory}/{name}.npz", theta=theta, log_q=member.log_prob(theta, y))
        >>> ds.adapters.from_files(f"{directory}/*.npz", expected=4)
        Table(K=4 members, N=20 simulations, d=1 parameter; gives log_q)
    """
    if missing not in ("raise", "drop"):
        raise ValueError(f'`missing` must be "raise" or "drop"; got {missing!r}.')
    left_out = LeftOut()
    files = _read_all(_find(paths), left_out)
    files = _select_shapes(files, left_out)
    files = _select_rows("theta", theta, files, left_out)
    files = _select_rows("y", y, files, left_out)
    files = _select_expected(files, expected, left_out)
    if left_out:
        lines = "\n".join(f"  {name}: {reason}" for name, reason in left_out.items())
        verb = "is" if len(left_out) == 1 else "are"
        message = f"{counted(len(left_out), 'member')} {verb} missing or unusable:\n{lines}"
        if missing == "raise" or not files:
            raise ValueError(
                f'{message}\nRun their jobs again, or continue with the others: missing="drop" '
                "(--drop on the command line)."
            )
        warnings.warn(f"{message}\nContinuing with the other {len(files)}.", stacklevel=2)
    _warn_of_fields(files)
    stored = {key: next((f.arrays[key] for f in files if key in f.arrays), None) for key in ("theta", "y")}
    theta, y = stored["theta"] if theta is None else theta, stored["y"] if y is None else y
    if theta is None:
        raise ValueError(
            f"no file has `theta` ({_paths(files)}): "
            "write it into the files, ds.adapters.to_file(..., theta=...), or pass `theta`."
        )
    fields = {key for file in files for key in file.shapes}
    stacked: dict[str, Any] = {
        key: np.stack([_array(file, key, files) for file in files]) for key in fields - {"draws", "quantiles"}
    }
    try:
        return Table(
            theta,
            y=y,
            draws=FileDraws(files) if "draws" in fields else None,
            quantiles=_quantiles(files) if "quantiles" in fields else None,
            lacking={key: [file.name for file in files if key not in file.shapes] for key in fields},
            names=[file.name for file in files],
            parameters=parameters,
            left_out=dict(left_out),
            **stacked,
        )
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error} (in {_paths(files)})") from error


def _paths(files: Sequence[MemberFile]) -> str:
    return first_few([str(file.path) for file in files])


@dataclass(frozen=True)
class MemberFile:
    """The contents of a member's file except the draws."""

    path: Path
    name: str
    arrays: dict[str, np.ndarray]
    shapes: dict[str, tuple[int, ...]]
    dtype: np.dtype | None


class LeftOut(dict[str, str]):
    """Reasons by member; by file, if a member of that name is already left out."""

    def note(self, name: str, path: Path, reason: str) -> None:
        """Add the reason why a file is not used."""
        self[str(path) if name in self else name] = f"{path} {reason}"


class FileDraws:
    """Draws (K, N, S, d) in one file per member, each read on access; NaN for members without."""

    def __init__(self, files: Sequence[MemberFile]) -> None:
        N, S, *rest = next(file.shapes["draws"] for file in files if "draws" in file.shapes)
        self.paths = [file.path if "draws" in file.shapes else None for file in files]
        self.shape = (len(files), N, S, *(rest or [1]))
        self.dtype = np.result_type(*(file.dtype for file in files if file.dtype is not None))
        self.ndim = 4

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, key: Any) -> np.ndarray:
        first, *rest = key if isinstance(key, tuple) else (key,)
        if isinstance(first, int | np.integer):
            path = self.paths[first]
            values = np.full(self.shape[1:], np.nan) if path is None else self._read(path)
            return values[tuple(rest)]
        return np.stack([self[(int(k), *rest)] for k in np.arange(len(self))[first]])

    def _read(self, path: Path) -> np.ndarray:
        """Read the draws of a member, (N, S, d)."""
        try:
            with opened(path) as arrays:
                return np.asarray(arrays["draws"][...], self.dtype).reshape(self.shape[1:])
        except (DamagedError, ImportError, FileNotFoundError):
            raise
        except Exception as error:  # readers of four formats raise many types for a broken file
            raise DamagedError(f"{path} has changed: its draws cannot be read ({error}).") from error

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)


def _find(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the files, those of a pattern in natural order: member_2 before member_10."""
    if isinstance(paths, str | os.PathLike):
        files = _matching(Path(paths))
        if not files:
            raise FileNotFoundError(f"no file matches {os.fspath(paths)!r}.")
        pieces = {p: [int(t) if t.isdigit() else t for t in re.split(r"(\d+)", str(p))] for p in files}
        return sorted(files, key=pieces.__getitem__)
    files = [Path(path) for path in paths]
    if not files:
        raise ValueError("`paths` is empty.")
    return files


def _matching(pattern: Path) -> list[Path]:
    """Return the files of a pattern; what exists under its very name, brackets and all, is no pattern."""
    if pattern.exists():
        return [pattern]
    existing = next((parent for parent in pattern.parents if parent.exists()), Path())
    rest = pattern.relative_to(existing)
    return [Path(path) for path in glob.glob(os.path.join(glob.escape(str(existing)), rest))]


def _read_all(paths: Sequence[Path], left_out: LeftOut) -> list[MemberFile]:
    """Return the contents of each file except the draws; leave out files that cannot be read."""
    files = []
    for path in paths:
        try:
            files.append(_read(path))
        except ImportError:  # a library is missing: not an error of the file
            raise
        except Exception as error:  # readers of four formats raise many types for a broken file
            left_out.note(path.stem, path, f"cannot be read ({type(error).__name__}: {error})")
    return files


def _read(path: Path) -> MemberFile:
    if not path.exists():
        raise FileNotFoundError("no such file")
    with opened(path) as arrays:
        contents = {key: np.asarray(arrays[key][...]) for key in AXES if key in arrays and key != "draws"}
        shapes = {key: tuple(arrays[key].shape) for key in STATISTICS if key in arrays}
        if not shapes:
            raise ValueError(f"it has none of {', '.join(STATISTICS)}, only {list(arrays)}")
        scalars = [key for key in AXES if key in arrays and arrays[key].ndim == 0]
        if scalars:
            raise ValueError(f"`{scalars[0]}` is a single number, not an array")
        if "log_q" in shapes and len(shapes["log_q"]) != 1:
            raise ValueError(f"`log_q` must be (N,), because a file holds one member; got {shapes['log_q']}")
        dtype = arrays["draws"].dtype if "draws" in shapes else None
        return MemberFile(path, str(arrays.get("name", path.stem)), contents, shapes, dtype)


def _select_shapes(files: list[MemberFile], left_out: LeftOut) -> list[MemberFile]:
    """Return the files whose fields have the most common shapes and whose name is unique."""

    def describe(file: MemberFile, key: str) -> str:
        levels = file.arrays["levels"].tolist() if "levels" in file.arrays else None
        return f"{key} {file.shapes[key]}" + (f" at levels {levels}" if key == "quantiles" else "")

    common = {key: _most_common([describe(f, key) for f in files if key in f.shapes]) for key in STATISTICS}
    selected: dict[str, MemberFile] = {}
    for file in files:
        different = [key for key in file.shapes if describe(file, key) != common[key]]
        if different:
            key = different[0]
            left_out.note(file.name, file.path, f"has {describe(file, key)}; the others have {common[key]}")
        elif file.name in selected:
            left_out[str(file.path)] = f"it has the name {file.name!r}, as {selected[file.name].path} has"
        else:
            selected[file.name] = file
    return list(selected.values())


def _select_rows(
    key: str, expected: ArrayLike | None, files: list[MemberFile], left_out: LeftOut
) -> list[MemberFile]:
    """Return the files with the expected, else the most common, theta or y up to single precision, or without."""
    if expected is not None and as_numpy(expected).ndim == 0:
        raise ValueError(f"`{key}` must have one row per simulation; got the single number {expected!r}.")
    stored = {file.name: _flat(file.arrays[key]) for file in files if key in file.arrays}
    if not stored:
        return files
    if expected is not None:
        reference = _flat(as_numpy(expected))
    else:
        by_bytes = {rows.astype(np.float32).tobytes(): rows for rows in stored.values()}
        reference = by_bytes[_most_common([rows.astype(np.float32).tobytes() for rows in stored.values()])]
    # A number near zero in a column of large ones has lost more than its own last digits.
    scale = 1e-6 * np.nan_to_num(reference.std(0))
    selected = []
    for file in files:
        rows = stored.get(file.name, reference)
        if rows.shape != reference.shape:
            left_out.note(file.name, file.path, f"has {key} of shape {rows.shape}, not {reference.shape}")
        elif not (same := np.isclose(rows, reference, atol=scale, equal_nan=True).all(1)).all():
            row = int(np.flatnonzero(~same)[0])
            reason = f"has {key} of other simulations, first in row {row}: {rows[row]} and not {reference[row]}"
            left_out.note(file.name, file.path, reason)
        else:
            selected.append(file)
    return selected


def _flat(array: np.ndarray) -> np.ndarray:
    """Return an array (N, ...) with all other axes joined into one."""
    return array.reshape(len(array), int(np.prod(array.shape[1:])))


def _warn_of_fields(files: list[MemberFile]) -> None:
    """Warn of fields that only some files have, and name the members that lack them."""
    for key in STATISTICS:
        lacking = [file.name for file in files if key not in file.shapes]
        if 0 < len(lacking) < len(files):
            warnings.warn(
                f"the files of {first_few(lacking)} have no `{key}`: fits that need it leave these members out.",
                stacklevel=3,
            )


def _select_expected(
    files: list[MemberFile], expected: int | np.integer | Sequence[str] | None, left_out: LeftOut
) -> list[MemberFile]:
    """Return the expected files in their order; those that do not exist are left out."""
    if expected is None:
        return files
    if isinstance(expected, int | np.integer):
        count = len(files) + len(left_out)
        if count < expected:
            left_out[f"{expected - count} more"] = f"expected {expected} files, found {count}"
        elif count > expected:
            names = ", ".join(file.name for file in files)
            left_out[f"{count - expected} too many"] = f"expected {expected} files, found {count}; usable: {names}"
        return files
    if isinstance(expected, str):
        raise TypeError(f"`expected` must be names or a number; got the string {expected!r}.")
    by_name = {file.name: file for file in files}
    for name in expected:
        if name not in by_name:
            left_out.setdefault(name, "there is no file")
    for name, file in by_name.items():
        if name not in expected:
            left_out.note(name, file.path, "is not expected")
    return [by_name[name] for name in expected if name in by_name]


def _most_common(values: list[Any]) -> Any:
    """Return the most common value, or None if there is none."""
    return Counter(values).most_common(1)[0][0] if values else None


def _quantiles(files: Sequence[MemberFile]) -> dict[float, np.ndarray]:
    first = next(file for file in files if "quantiles" in file.arrays)
    if "levels" not in first.arrays:
        raise ValueError(f"{first.path} has `quantiles` but not their `levels`.")
    stacked = np.stack([_array(file, "quantiles", files) for file in files], 1)
    return dict(zip(map(float, first.arrays["levels"]), stacked, strict=True))


def _array(file: MemberFile, key: str, files: Sequence[MemberFile]) -> np.ndarray:
    """Return a field of a file, or NaN of the shape that other files have."""
    if key in file.arrays:
        return file.arrays[key]
    return np.full(next(other.arrays[key].shape for other in files if key in other.arrays), np.nan)
