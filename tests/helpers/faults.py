"""Faults of the file system in this process: a kill, a full or a broken disk at the n-th event below a directory.

An event is a file opened for writing, a renaming, a removal, a directory made or removed (seen by Python's audit
hooks, also in the threads of libraries), or a flush.
"""

import errno
import os
import sys
from contextlib import contextmanager
from pathlib import Path

import zarr

EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Killed(BaseException):
    """The process ends: nothing that follows in it has an effect on files."""


class Faults:
    """Counts the events below a directory, and has the n-th fail.

    Args:
        directory: Where events count.
        n: The event that fails, from 1; 0 for none.
        fault: "kill", after which every event fails, or the name of an error number.
    """

    def __init__(self, directory, n=0, fault="ENOSPC"):
        self.directory, self.n, self.fault, self.count = str(directory), n, fault, 0

    def event(self, path, named=True):
        if not str(path).startswith(self.directory):
            return
        self.count += 1
        if self.fault == "kill" and self.count >= self.n > 0:
            raise Killed
        if self.count == self.n:
            number = getattr(errno, self.fault)
            raise OSError(number, os.strerror(number), *([str(path)] if named else []))


current = None


def _hook(event, arguments):
    if current is None or event not in EVENTS or not arguments:
        return
    path = arguments[0]
    if event == "open":
        mode, flags = arguments[1], arguments[2]
        by_flags = isinstance(flags, int) and flags & WRITING
        if not by_flags and not (isinstance(mode, str) and set(mode) & set("wax+")):
            return
    if isinstance(path, int):
        return
    path = os.fsdecode(path)
    if not os.path.isabs(path):
        # `shutil.rmtree` gives names within an open directory, the last argument.
        within = arguments[-1] if event in ("os.remove", "os.rmdir") else -1
        path = os.path.join(_path(within) if isinstance(within, int) and within >= 0 else os.getcwd(), path)
    current.event(path)


def _path(descriptor):
    return os.readlink(f"/proc/self/fd/{descriptor}")


installed = False


@contextmanager
def injected(directory, n=0, fault="ENOSPC"):
    """Yield the faults, which last as long as the body.

    Zarr writes one chunk at a time in it: several that miss the same directory would each try to make it, so that
    the number of events would differ between equal calls.
    """
    global current, installed
    if not installed:  # a hook cannot be removed again
        sys.addaudithook(_hook)
        installed = True
    faults, fsync = Faults(Path(directory), n, fault), os.fsync

    def flush(descriptor):
        faults.event(_path(descriptor), named=False)
        fsync(descriptor)

    os.fsync, current = flush, faults
    try:
        with zarr.config.set({"async.concurrency": 1}):
            yield faults
    finally:
        os.fsync, current = fsync, None
