"""Checksums of files and directories: what tells a damaged or exchanged file from the one that was written."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

__all__ = ["DamagedError", "check", "check_seal", "digest", "seal"]

ROOT = "zarr.json"  # of a Zarr store: its attributes, the seal among them


class DamagedError(ValueError):
    """A file is not what was written: truncated, edited, exchanged, or a part of it is missing."""


def digest(path: Path, leave_out: Collection[str] = ()) -> str:
    """SHA-256 of a file; of a directory, of the names and digests of all files below it.

    Args:
        path: the file or directory.
        leave_out: files of a directory that do not count, relative to it: the one the digest is stored in.
    """
    if path.is_dir():
        total = hashlib.sha256()
        for name in sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file()):
            if name not in leave_out:
                total.update(f"{name}\0{digest(path / name)}\n".encode())
        return total.hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check(path: Path, expected: str, leave_out: Collection[str] = (), remedy: str = "") -> None:
    """Raise :class:`DamagedError`, which names the path, if its digest is not the expected one."""
    if digest(path, leave_out) != expected:
        raise DamagedError(
            f"{path} is damaged: its checksum is not the one it was written with. {remedy or 'Make it again.'}"
        )


def seal(store: Path) -> None:
    """Note in a Zarr store the checksum of its arrays: Zarr reads a missing chunk as fill values, silently."""
    import zarr

    zarr.open_group(store, mode="r+").attrs["checksum"] = digest(store, leave_out=(ROOT,))


def check_seal(store: Path, attributes: Mapping[str, Any]) -> None:
    """Raise if the arrays of a Zarr store are not those it was sealed with; a store without a seal passes."""
    if "checksum" in attributes:
        check(store, attributes["checksum"], leave_out=(ROOT,))
