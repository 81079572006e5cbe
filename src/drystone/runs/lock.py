"""One process at a time in a run's directory."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

__all__ = ["LOCK", "LockedError", "locked"]

LOCK = ".lock"


class LockedError(RuntimeError):
    """Another process works in the run's directory."""


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a run, or raise :class:`LockedError`, which says who has it.

    The system's own lock on ``.lock`` decides, and the system gives it up when its holder dies, killed or not: so
    no lock is ever left over. The file names the holder (process, host, since when) for the message, is emptied at
    the end, and stays: removing it would let a third process lock another file of the same name.

    Where there is no ``flock`` (not POSIX, or a file system without it) runs are not locked; nor are those in a
    directory that this process cannot write to, which it can only read.
    """
    try:
        opened = (directory / LOCK).open("a+")
    except OSError:
        if os.access(directory, os.W_OK):
            raise
        yield
        return
    with opened as file:
        _acquire(file.fileno(), directory)
        file.truncate(0)
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now():%Y-%m-%d %H:%M:%S}"}
        file.write(json.dumps(holder))
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def _acquire(descriptor: int, directory: Path) -> None:
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LockedError(f"{directory} is in use by {_holder(directory)}; wait until it has ended.") from None
    except OSError:  # this file system has no locks
        return


def _holder(directory: Path) -> str:
    try:
        holder = json.loads((directory / LOCK).read_text())
        return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    except (OSError, ValueError, KeyError):  # it has only just begun, or is about to end
        return "another process"
