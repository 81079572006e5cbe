"""A table out of one file a member: what cluster jobs have written, collected, checked and counted."""

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

from drystone.adapters.member_files import opened, to_file
from drystone.arrays import as_numpy
from drystone.table import Table

__all__ = ["FileDraws", "from_files", "to_file"]

STATISTICS = ("log_q", "draws", "rank", "mean", "cov", "quantiles")


def from_files(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    theta: Any = None,
    y: Any = None,
    expected: int | Sequence[str] | None = None,
    missing: Literal["raise", "drop"] = "raise",
    parameters: Sequence[str] | None = None,
) -> Table:
    """The table of members that lie in a file each, as :func:`drystone.adapters.to_file` writes them.

    Files are checked against each other: the same fields, sizes and simulations. What most of them have is taken
    for right, so that the message names the odd ones. Draws stay on disk and are read one member at a time.

    Args:
        paths: a glob pattern (``"members/*.npz"``) or the files.
        theta: parameters of the simulations, (N, d); None for those in the files.
        y: their data, (N, ...); None for those in the files, if any.
        expected: the members' names, or how many there should be. Without it a job that wrote nothing is not
            missed.
        missing: "raise" if a file is missing, cannot be read or does not fit the others, or "drop" it, warn, and
            list it in ``table.left_out``; either way all of them are named.
        parameters: the parameters' names.
    """
    if missing not in ("raise", "drop"):
        raise ValueError(f'`missing` must be "raise" or "drop"; got {missing!r}.')
    left_out: dict[str, str] = {}
    files = _readable(_found(paths), left_out)
    files = _of_one_kind(files, left_out)
    files = _of_one_simulation(files, theta, left_out)
    files = _expected(files, expected, left_out)
    if left_out:
        lines = "\n".join(f"  {name}: {reason}" for name, reason in left_out.items())
        message = f"{len(left_out)} members are missing or unusable:\n{lines}"
        if missing == "raise" or not files:
            raise ValueError(f'{message}\nRun their jobs again, or pass missing="drop" to go on with the others.')
        warnings.warn(f"{message}\nGoing on with the other {len(files)}.", stacklevel=2)
    if theta is None and files[0].theta is None:
        raise ValueError("no file has `theta`; pass it: from_files(..., theta=...).")
    return Table(
        files[0].theta if theta is None else theta,
        y=next((f.arrays["y"] for f in files if "y" in f.arrays), None) if y is None else y,
        draws=FileDraws(files) if "draws" in files[0].shapes else None,
        quantiles=_quantiles(files),
        names=[file.name for file in files],
        parameters=parameters,
        left_out=left_out,
        **{
            key: np.stack([file.arrays[key] for file in files])
            for key in ("log_q", "rank", "mean", "cov")
            if key in files[0].shapes
        },
    )


@dataclass(frozen=True)
class MemberFile:
    """What has been read of a file: everything but the draws."""

    path: Path
    name: str
    arrays: dict[str, np.ndarray]
    shapes: dict[str, tuple[int, ...]]
    dtype: np.dtype | None

    @property
    def theta(self) -> np.ndarray | None:
        """The parameters, (N, d)."""
        return None if "theta" not in self.arrays else self.arrays["theta"].reshape(len(self.arrays["theta"]), -1)


class FileDraws:
    """Draws (K, N, S, d) in a file each; a member's are read when it is looked at."""

    def __init__(self, files: Sequence[MemberFile]) -> None:
        N, S, *rest = files[0].shapes["draws"]
        self.paths = [file.path for file in files]
        self.shape = (len(files), N, S, *(rest or [1]))
        self.dtype = np.result_type(*(file.dtype for file in files if file.dtype is not None))
        self.ndim = 4

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, key: Any) -> np.ndarray:
        first, *rest = key if isinstance(key, tuple) else (key,)
        if isinstance(first, int | np.integer):
            with opened(self.paths[first]) as arrays:
                return np.asarray(arrays["draws"][...], self.dtype).reshape(self.shape[1:])[tuple(rest)]
        return np.stack([self[(int(k), *rest)] for k in np.arange(len(self))[first]])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)


def _found(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """The files in natural order: member_2 before member_10."""
    if isinstance(paths, str | os.PathLike):
        found = [Path(path) for path in glob.glob(os.fspath(paths))]
        if not found:
            raise FileNotFoundError(f"no file matches {os.fspath(paths)!r}.")
        pieces = {p: [int(t) if t.isdigit() else t for t in re.split(r"(\d+)", str(p))] for p in found}
        return sorted(found, key=pieces.__getitem__)
    found = [Path(path) for path in paths]
    if not found:
        raise ValueError("`paths` is empty.")
    return found


def _readable(paths: Sequence[Path], left_out: dict[str, str]) -> list[MemberFile]:
    """Read all but the draws of each file; of what cannot be read say why."""
    files = []
    for path in paths:
        try:
            files.append(_read(path))
        except Exception as error:  # whatever a broken file of one of four formats makes its reader raise
            left_out[path.stem] = f"{path} cannot be read ({type(error).__name__}: {error})"
    return files


def _read(path: Path) -> MemberFile:
    if not path.exists():
        raise FileNotFoundError("no such file")
    with opened(path) as arrays:
        held = {key: np.asarray(arrays[key][...]) for key in arrays if key not in ("draws", "name")}
        shapes = {key: tuple(arrays[key].shape) for key in STATISTICS if key in arrays}
        if not shapes:
            raise ValueError(f"it has none of {', '.join(STATISTICS)}, only {list(arrays)}")
        dtype = arrays["draws"].dtype if "draws" in shapes else None
        return MemberFile(path, str(arrays.get("name", path.stem)), held, shapes, dtype)


def _of_one_kind(files: list[MemberFile], left_out: dict[str, str]) -> list[MemberFile]:
    """Those with the usual fields and shapes, and a name of their own."""

    def described(file: MemberFile) -> str:
        levels = f" at {file.arrays['levels'].tolist()}" if "levels" in file.arrays else ""
        return ", ".join(f"{key} {shape}" for key, shape in file.shapes.items()) + levels

    usual = _usual([described(file) for file in files])
    kept: dict[str, MemberFile] = {}
    for file in files:
        if described(file) != usual:
            left_out[file.name] = f"{file.path} has {described(file)}; the others have {usual}"
        elif file.name in kept:
            left_out[str(file.path)] = f"it has the name {file.name!r}, as {kept[file.name].path} has"
        else:
            kept[file.name] = file
    return list(kept.values())


def _of_one_simulation(files: list[MemberFile], theta: Any, left_out: dict[str, str]) -> list[MemberFile]:
    """Those with the theta given, or else with the usual one, up to single precision."""
    if theta is not None:
        reference = as_numpy(theta).reshape(len(theta), -1)
    else:
        thetas = [file.theta for file in files if file.theta is not None]
        if not thetas:
            return files
        by_bytes = {theta.astype(np.float32).tobytes(): theta for theta in thetas}
        reference = by_bytes[_usual([theta.astype(np.float32).tobytes() for theta in thetas])]
    kept = []
    for file in files:
        if file.theta is not None and file.theta.shape != reference.shape:
            left_out[file.name] = f"{file.path} has theta of shape {file.theta.shape}, not {reference.shape}"
        elif file.theta is not None and not (same := np.isclose(file.theta, reference, atol=0).all(1)).all():
            row = int(np.flatnonzero(~same)[0])
            left_out[file.name] = (
                f"{file.path} has theta of other simulations, first in row {row}: {file.theta[row]} and not "
                f"{reference[row]}"
            )
        else:
            kept.append(file)
    return kept


def _expected(files: list[MemberFile], expected: Any, left_out: dict[str, str]) -> list[MemberFile]:
    """Those expected, in that order; what is not there at all is noted."""
    if expected is None:
        return files
    if isinstance(expected, int):
        found = len(files) + len(left_out)
        if found < expected:
            left_out[f"{expected - found} more"] = f"expected {expected} files, found {found}"
        return files
    if isinstance(expected, str):
        raise TypeError(f"`expected` must be names or a number; got the string {expected!r}.")
    by_name = {file.name: file for file in files}
    for name in expected:
        if name not in by_name:
            left_out.setdefault(name, "there is no file")
    for name, file in by_name.items():
        if name not in expected:
            left_out[name] = f"{file.path} is not expected"
    return [by_name[name] for name in expected if name in by_name]


def _usual(values: list[Any]) -> Any:
    """The most common value."""
    return Counter(values).most_common(1)[0][0] if values else None


def _quantiles(files: Sequence[MemberFile]) -> dict[float, np.ndarray] | None:
    if "quantiles" not in files[0].shapes:
        return None
    if "levels" not in files[0].arrays:
        raise ValueError(f"{files[0].path} has `quantiles` but not their `levels`.")
    stacked = np.stack([file.arrays["quantiles"] for file in files], 1)
    return dict(zip(map(float, files[0].arrays["levels"]), stacked, strict=True))
