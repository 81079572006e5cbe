"""Writing files so that a killed process leaves the old file or the new one, never half of either."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["recover", "replacing"]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success flush it to disk and rename it to ``path``.

    Works for a file and for a directory (a Zarr store). If the body raises, the temporary is removed and
    whatever stood at ``path`` is untouched. A directory cannot be exchanged in one system call: the old
    one is renamed aside, the new one renamed in, and the old one removed. Who reads a directory first calls
    :func:`recover`, which mends the moment between the two renamings.

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
        yield temporary
        _flush(temporary)
        if path.is_dir() and not temporary.is_dir():
            raise IsADirectoryError(f"'{path}' is a directory; a file cannot be written in its place.")
        if path.is_dir():
            aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.old")
            os.rename(path, aside)
            os.rename(temporary, path)
            shutil.rmtree(aside)
        else:
            os.replace(temporary, path)
        _flush_directory(path.parent)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        else:
            temporary.unlink(missing_ok=True)


def recover(path: str | os.PathLike[str]) -> None:
    """Put the old directory back if a process was killed between the two renamings of :func:`replacing`."""
    path = Path(path)
    if not path.exists():
        for aside in sorted(path.parent.glob(f".{path.name}.*.old"))[:1]:
            os.rename(aside, path)


def _flush(path: Path) -> None:
    """Ask the system to write the file, or every file of the directory, to the disk."""
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
