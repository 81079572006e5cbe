"""Files written whole or not at all, and checksums that detect later damage."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drystone.errors import DamagedError

__all__ = [
    "ROOT",
    "check",
    "check_seal",
    "check_store",
    "digest",
    "disk_full",
    "naming_full_disk",
    "put_in_place",
    "recover",
    "remove",
    "replacing",
    "seal",
]

FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success flush it to disk and rename it to ``path``.

    Works for a file and for a directory (a Zarr store). If the body raises, the temporary is removed and ``path``
    is untouched; see :func:`put_in_place`. A full disk is an ``OSError`` that names ``path``.

    Example:
        >>> import tempfile, pathlib
        >>> target = pathlib.Path(tempfile.mkdtemp()) / "weights.json"
        >>> with replacing(target) as temporary:
        ...     _ = temporary.write_text("[0.3, 0.7]")
        >>> target.read_text()
        '[0.3, 0.7]'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Hidden, and unique to this call, so that two writers never share a temporary.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with naming_full_disk(path):
            yield temporary
            _flush(temporary)
            if path.is_dir() and not temporary.is_dir():
                raise IsADirectoryError(f"'{path}' is a directory; a file cannot be written in its place.")
            put_in_place(temporary, path)
    finally:
        remove(temporary)


def put_in_place(new: Path, path: Path) -> None:
    """Rename a file or directory to ``path``, replacing an existing one.

    A directory cannot be replaced in one system call: the old one is renamed, the new one renamed to ``path``, and
    the old one removed. Call :func:`recover` before reading a directory; it repairs an interruption between the
    two renamings.
    """
    if path.is_dir():
        old = path.with_name(f".{path.name}.{uuid.uuid4().hex}.old")
        os.rename(path, old)
        try:
            os.rename(new, path)
        except OSError:
            os.rename(old, path)
            raise
        remove(old)
    else:
        os.replace(new, path)
    _flush_directory(path.parent)


def remove(path: Path) -> None:
    """Remove a file, a link (not what it points to) or a directory with everything in it, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def naming_full_disk(path: Path) -> Iterator[None]:
    """Raise an ``OSError`` that names ``path`` if its disk is full; the system names no file when it is."""
    try:
        yield
    except Exception as error:
        if disk_full(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        raise


def disk_full(error: BaseException) -> bool:
    """Return whether an error means a full disk or quota; some libraries give no error number, only the text."""
    return getattr(error, "errno", None) in FULL or os.strerror(errno.ENOSPC) in str(error)


def recover(path: str | os.PathLike[str]) -> None:
    """Restore the old directory if a process was killed between the two renamings of :func:`replacing`."""
    path = Path(path)
    if not path.exists():
        for old in sorted(path.parent.glob(f".{path.name}.*.old"))[:1]:
            os.rename(old, path)


def _flush(path: Path) -> None:
    """Flush the file, or every file of the directory, to the disk."""
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _flush_directory(path: Path) -> None:
    """Make the renaming itself durable (POSIX; elsewhere directories cannot be opened)."""
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


ROOT = "zarr.json"  # the file of a Zarr store that holds its attributes, including the seal


def digest(path: Path, leave_out: Collection[str] = ()) -> str:
    """Return the SHA-256 of a file; of a directory, the SHA-256 of the names and digests of all files below it.

    Args:
        path: The file or directory.
        leave_out: Files that are ignored, relative to the directory, such as the one that holds the digest.
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
    """Raise :class:`DamagedError`, which names the path, if the digest differs from the expected one."""
    if digest(path, leave_out) != expected:
        raise DamagedError(
            f"{path} is damaged: its checksum differs from the recorded one. {remedy or 'Make it again.'}"
        )


def seal(store: Path) -> None:
    """Add to a Zarr store the checksum of its arrays: Zarr silently reads a missing chunk as fill values."""
    import zarr

    zarr.open_group(store, mode="r+").attrs["checksum"] = digest(store, leave_out=(ROOT,))


def check_seal(store: Path, attributes: Mapping[str, Any], remedy: str = "") -> None:
    """Raise if the arrays of a Zarr store differ from their seal; a store without a seal passes."""
    if "checksum" in attributes:
        check(store, attributes["checksum"], leave_out=(ROOT,), remedy=remedy)


def check_store(store: Path, remedy: str = "") -> None:
    """Check the seal of a Zarr store, reading its attributes; a store that does not exist passes."""
    if (store / ROOT).exists():
        check_seal(store, json.loads((store / ROOT).read_text())["attributes"], remedy)
