"""Locks: a directory is worked in by one process at a time."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

from drystone._files.regular import open_regular, read_json
from drystone._files.whole import naming
from drystone.errors import LockedError

__all__ = ["LOCK", "in_use", "locked", "working_in"]

LOCK = ".lock"
# Seconds for which a lock is tried: a process that asks whether it is held has it for a moment.
TRIED = 0.1
# In each thread: the directories whose locks it holds.
_thread = threading.local()


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory, or raise :class:`LockedError`, which names the process that holds it.

    The lock is the operating system's, on the file ``.lock``. The system releases it when its holder ends, killed
    or not, so no lock is ever left over. The file names the holder (process, host, start) for the message, is
    emptied at the end, and stays: removing it would let a third process lock another file of the same name.

    Where there is no ``flock`` (not POSIX, or a file system without it) directories are not locked; nor are those
    that this process cannot write to, which it can only read.
    """
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open_regular(directory / LOCK, "a+"))
        except OSError:
            if os.access(directory, os.W_OK):
                raise
            yield
            return
        if not _acquired(file.fileno(), seconds=TRIED):
            raise _locked(directory)
        file.truncate(0)
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now():%Y-%m-%d %H:%M:%S}"}
        with naming(directory / LOCK):
            file.write(json.dumps(holder))
            file.flush()
        held, here = _held(), directory.resolve()
        held.append(here)
        try:
            yield
        finally:
            held.remove(here)
            file.truncate(0)


@contextmanager
def working_in(directory: str | os.PathLike[str] | None, *, own: bool = False) -> Iterator[None]:
    """Hold the lock of a directory for results, which is made if there is none; with None do nothing.

    If this thread holds the lock of the directory already, or of one above it, it is a caller that has this work
    done there, and nothing is locked again. A directory below one that another process works in is that one's.

    Args:
        directory: The directory.
        own: Whether it is locked by itself within a directory that this or another process has locked.

    Example:
        >>> import tempfile, pathlib
        >>> with working_in(home := pathlib.Path(tempfile.mkdtemp(), "new")), working_in(home / "members"):
        ...     [path.name for path in home.iterdir()]
        ['.lock', 'members']
    """
    if directory is None:
        yield
        return
    path = Path(directory)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise NotADirectoryError(f"'{path}' must be a directory, or not exist; a file is there.") from None
    here = path.resolve()
    if here in _held():
        yield
    elif not own and any(held in here.parents for held in _held()):
        if in_use(here):
            raise _locked(here)
        yield
    else:
        for above in () if own else here.parents:
            if in_use(above):
                raise _locked(above)
        with locked(path):
            yield


def in_use(directory: Path) -> bool:
    """Return whether another process holds the lock of a directory."""
    if directory.resolve() in _held() or not os.access(directory / LOCK, os.R_OK):
        return False
    with open_regular(directory / LOCK) as file:
        return not _acquired(file.fileno(), shared=True)


def _held() -> list[Path]:
    if not hasattr(_thread, "held"):
        _thread.held = []
    return _thread.held


def _acquired(descriptor: int, *, shared: bool = False, seconds: float = 0.0) -> bool:
    """Return whether the lock of a file was free, and take it until the file is closed; True without locks."""
    try:
        import fcntl
    except ImportError:
        return True
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(0.01)
            continue
        except OSError:  # this file system has no locks
            pass
        return True


def _locked(directory: Path) -> LockedError:
    return LockedError(f"{directory} is in use by {_holder(directory)}; wait until it has ended.")


def _holder(directory: Path) -> str:
    try:
        holder = read_json(directory / LOCK)
        return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    except (OSError, ValueError, KeyError):  # it has only just started, or is about to end
        return "another process"
