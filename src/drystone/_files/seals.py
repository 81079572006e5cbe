"""Seals: the SHA-256 of everything in a file or directory, stored in it, by which later damage is detected.

A seal detects accidents and edits. It is no signature: whoever can write a file can also seal it.

- A file ends with the line ``drystone seal SHA-256 …`` of the bytes before it. HDF5 ignores what follows its own
  bytes; in a ZIP archive the line is the archive's comment.
- A Zarr store has the attribute ``seal``: of the names and bytes of all its files, without that attribute.
- A JSON file has the entry ``checksum`` of its own text, in which the entry is empty.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from drystone._files.regular import open_regular, parse_json, read_json, read_text, regular_files
from drystone._files.whole import replacing
from drystone.errors import DamagedError

__all__ = [
    "ROOT",
    "check",
    "digest",
    "read_sealed_json",
    "seal_file",
    "seal_store",
    "sealed",
    "store_sealed",
    "without_seal",
    "write_sealed_json",
]

ROOT = "zarr.json"  # the file of a Zarr store that holds its attributes, including the seal
MARK = b"\ndrystone seal SHA-256 "
LENGTH = len(MARK) + 64 + 1


def digest(path: Path, leave_out: Collection[str] = ()) -> str:
    """Return the SHA-256 of a file; of a directory, the SHA-256 of the names and digests of all files below it.

    Args:
        path: The file or directory.
        leave_out: Files that are ignored, relative to the directory, such as the one that holds the digest.
    """
    if path.is_dir():
        total = hashlib.sha256()
        for name in sorted(regular_files(path)):
            if name not in leave_out:
                total.update(f"{name}\0{digest(path / name)}\n".encode())
        return total.hexdigest()
    with open_regular(path) as file:
        return _digest_until(file, path.stat().st_size)


def check(path: Path, expected: str, remedy: str = "") -> None:
    """Raise :class:`DamagedError`, which names the path, if the digest differs from the expected one."""
    if digest(path) != expected:
        raise _damaged(path, remedy)


def _damaged(path: Path, remedy: str = "") -> DamagedError:
    remedy = remedy or "Make it again."
    return DamagedError(f"{path} is damaged: its checksum differs from the recorded one. {remedy}")


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────


def seal_file(path: Path, *, reserved: bool = False) -> None:
    """Write the seal of a file at its end.

    Args:
        path: The file.
        reserved: Whether its last ``LENGTH`` bytes are to be overwritten.
    """
    with path.open("r+b") as file:
        size = file.seek(0, 2) - (LENGTH if reserved else 0)
        line = MARK + _digest_until(file, size).encode() + b"\n"
        file.seek(size)
        file.write(line)


def sealed(path: Path) -> bool:
    """Return whether a file has a seal; raise :class:`DamagedError` if it has, and was changed."""
    with open_regular(path, follow=True) as file:
        size = file.seek(0, 2) - LENGTH
        if size < 0:
            return False
        file.seek(size)
        line = file.read(LENGTH)
        if not line.startswith(MARK):
            return False
        if line != MARK + _digest_until(file, size).encode() + b"\n":
            raise _damaged(path)
    return True


def _digest_until(file: Any, size: int) -> str:
    """Return the SHA-256 of the first bytes of an open file."""
    total = hashlib.sha256()
    file.seek(0)
    while size > 0:
        piece = file.read(min(size, 2**20))
        if not piece:
            break
        total.update(piece)
        size -= len(piece)
    return total.hexdigest()


# ── Zarr stores ──────────────────────────────────────────────────────────────────────────────────────────


def seal_store(store: Path) -> None:
    """Add the seal to a Zarr store; Zarr silently reads a missing chunk as fill values."""
    import zarr

    group = zarr.open_group(store, mode="r+", zarr_format=3)
    group.attrs["seal"] = _digest_store(store)


def _digest_store(store: Path) -> str:
    """Return the SHA-256 of a store's files and of its attributes, without the seal, and other metadata."""
    root = read_json(store / ROOT)
    root["attributes"] = {key: value for key, value in root["attributes"].items() if key != "seal"}
    text = json.dumps(root, sort_keys=True)
    return hashlib.sha256(f"{digest(store, leave_out=(ROOT,))}\n{text}".encode()).hexdigest()


def store_sealed(store: Path) -> bool:
    """Return whether a Zarr store has a seal; raise :class:`DamagedError` if it has, and was changed.

    Version 0.1 wrote the attribute ``checksum``, of the files except the one that holds the attributes.
    """
    attributes = read_json(store / ROOT).get("attributes")
    if not isinstance(attributes, dict):
        raise DamagedError(f"{store} is damaged: its {ROOT} has no attributes.")
    if "seal" in attributes:
        if attributes["seal"] != _digest_store(store):
            raise _damaged(store)
        return True
    if "checksum" in attributes and attributes["checksum"] != digest(store, leave_out=(ROOT,)):
        raise _damaged(store)
    return False


def without_seal(path: Path) -> DamagedError:
    """Return the error of a file that has no seal although files of its version have one."""
    return DamagedError(f"{path} is damaged: the checksum that it was written with is missing. Make it again.")


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────


def write_sealed_json(path: Path, content: Mapping[str, Any], default: Callable[[Any], Any] | None = None) -> None:
    """Write a JSON file with the checksum of its text, whole or not at all."""
    text = json.dumps({**content, "checksum": ""}, indent=1, default=default)
    with replacing(path) as temporary:
        temporary.write_bytes(text.replace(_checksum_line(""), _checksum_line(_text_digest(text)), 1).encode())


def read_sealed_json(path: Path, *, follow: bool = False) -> tuple[dict[str, Any], bool]:
    """Return the object in a JSON file, and whether it has a checksum; raise if it has, and was changed.

    Args:
        path: The file.
        follow: Whether the path itself may be a link.
    """
    text = read_text(path, follow=follow)
    plain = parse_json(text, path)
    if "checksum" not in plain:
        return plain, False
    checksum = str(plain.pop("checksum"))
    if checksum != _text_digest(text.replace(_checksum_line(checksum), _checksum_line(""), 1)):
        raise _damaged(path)
    return plain, True


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _checksum_line(checksum: str) -> str:
    return f'\n "checksum": "{checksum}"'
