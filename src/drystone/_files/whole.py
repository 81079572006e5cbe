"""Files and directories written whole or not at all."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["disk_full", "naming", "put_in_place", "recover", "remove", "replacing"]

# A file's name has at most 255 bytes; so many leave room for what is added to it.
LONGEST = 200
FULL = (errno.ENOSPC, errno.EDQUOT)
# How often a directory is removed that others still write into, and the errors by which that shows itself.
ATTEMPTS = 10
CHANGED = (errno.ENOENT, errno.ENOTEMPTY, errno.EISDIR)


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
    temporary = _hidden(path, uuid.uuid4().hex, "tmp")
    try:
        with naming(path):
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
    with naming(path):
        if path.is_dir():
            old = _hidden(path, uuid.uuid4().hex, "old")
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


def _hidden(path: Path, unique: str, ending: str) -> Path:
    """Return a hidden name beside ``path``: with its name or, if that is too long, the digest of it."""
    name = path.name
    if len(os.fsencode(name)) > LONGEST:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return path.with_name(f".{name}.{unique}.{ending}")


def remove(path: Path) -> None:
    """Remove a file, a link (not what it points to) or a directory with everything in it, if there is one.

    After a fault, threads of a library may still write into a directory: what vanishes or appears while it is
    removed is no error.
    """
    for attempt in range(ATTEMPTS):
        try:
            if path.is_symlink() or not path.is_dir():
                path.unlink(missing_ok=True)
                return
            shutil.rmtree(path)
        except OSError as error:
            if error.errno not in CHANGED or attempt == ATTEMPTS - 1:
                raise
            time.sleep(0.01 * attempt)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Raise an ``OSError`` that names ``path`` if its disk is full or fails; the system may name no file then."""
    try:
        yield
    except Exception as error:
        number = errno.ENOSPC if disk_full(error) else getattr(error, "errno", None)
        if isinstance(number, int) and (number in FULL or getattr(error, "filename", None) is None):
            raise OSError(number, os.strerror(number), str(path)) from error
        raise


def disk_full(error: BaseException) -> bool:
    """Return whether an error means a full disk or quota; some libraries give no error number, only the text."""
    return getattr(error, "errno", None) in FULL or os.strerror(errno.ENOSPC) in str(error)


def recover(path: str | os.PathLike[str]) -> None:
    """Restore the old directory if a process was killed between the two renamings of :func:`replacing`."""
    path = Path(path)
    if not path.exists():
        pattern = f"{glob.escape(_hidden(path, '', '').name.rstrip('.'))}.*.old"
        for old in sorted(path.parent.glob(pattern))[:1]:
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
