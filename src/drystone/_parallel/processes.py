"""Processes of this machine that can be stopped, and that take nothing with them when they die.

Each process has a connection of its own, so that one that hangs, dies or closes its descriptors disturbs no other,
and leads a process group, which is killed as a whole, so that its children end with it. A function and its
arguments travel by cloudpickle, and the script of the caller is not imported again: a script needs no
``if __name__ == "__main__":``.
"""

from __future__ import annotations

import faulthandler
import json
import math
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Pipe
from typing import Any

import cloudpickle

__all__ = ["OutOfTimeError", "ProcessDiedError", "ProcessPool", "Processes", "evaluating", "serve"]

# Seconds between two looks at a process that has not answered.
TICK = 0.05
# Most seconds beyond a limit that a process may take to import what its function needs.
LOADING = 60.0
# Seconds after which a process without work ends itself; on a cluster it is not closed otherwise.
IDLE = 120.0
# Seconds beyond its limit after which a process ends itself, if the one that should stop it is gone.
BACKSTOP = 30.0
# Exit code of a process that cannot answer any more (EX_IOERR).
NO_CONNECTION = 74
# Begins a message that names whose code runs; pickles, the other messages, begin with 0x80.
NAMING = b"now "

COMMAND = """
import json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
from drystone._parallel.processes import serve
serve(int(sys.argv.pop(1)))
"""


class ProcessDiedError(RuntimeError):
    """A process ended before it answered.

    Attributes:
        code: its exit code; negative for a signal.
        during: whose code ran then, if the function said so (:func:`evaluating`).
    """

    def __init__(self, code: int, during: str = "") -> None:
        self.code, self.during = code, during
        super().__init__(f"its process {_describe_exit(code)}")

    def __reduce__(self) -> tuple[type[ProcessDiedError], tuple[int, str]]:
        return ProcessDiedError, (self.code, self.during)


class OutOfTimeError(TimeoutError):
    """A process was stopped because it took longer than its limit.

    Attributes:
        during: whose code took longest at a time, if the function said so (:func:`evaluating`).
    """

    def __init__(self, during: str = "") -> None:
        self.during = during
        super().__init__(during)


class Processes:
    """Processes that run one function after another, started as they are needed."""

    def __init__(self) -> None:
        self._lock, self._closed = threading.Lock(), False
        self._all: set[_Process] = set()
        self._idle: list[_Process] = []

    def call(self, pickled: bytes, limit: float | None = None) -> Any:
        """Return the result of a function in a process; raise its error, or if the process died or was stopped.

        If the process dies and had done other work before, the function is run once more in a new one: timers,
        threads or damaged memory that other work left behind are not its fault.

        Args:
            pickled: The function and its arguments, ``cloudpickle.dumps((function, arguments))``.
            limit: Most seconds, from when the process has imported what the function needs.
        """
        process = self._idle_or_new()
        try:
            try:
                answer = process.call(pickled, limit)
            except ProcessDiedError:
                if process.fresh or self._closed:
                    raise
                self._end(process)
                process = self._new()
                answer = process.call(pickled, limit)
        except BaseException:
            self._end(process)
            raise
        process.fresh = False
        with self._lock:
            self._idle.append(process)
        result, error = cloudpickle.loads(answer)
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """Kill all processes and their children; calls that wait for one raise."""
        with self._lock:
            self._closed = True
            for process in self._all:
                process.kill()

    def _idle_or_new(self) -> _Process:
        with self._lock:
            process = self._idle.pop() if self._idle else None
        if process is not None and process.alive():
            return process
        if process is not None:  # it had no work for so long that it has ended
            self._end(process)
        return self._new()

    def _new(self) -> _Process:
        process = _Process()
        with self._lock:
            self._all.add(process)
            if self._closed:
                process.kill()
        return process

    def _end(self, process: _Process) -> None:
        process.kill()
        process.connection.close()
        with self._lock:
            self._all.discard(process)


class ProcessPool:
    """An executor of processes that can be stopped.

    Args:
        workers: Number of processes.
    """

    def __init__(self, workers: int) -> None:
        self._processes, self._threads = Processes(), ThreadPoolExecutor(workers)

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Start ``function(*arguments)`` and return its future."""
        return self.submit_pickled(cloudpickle.dumps((function, arguments)))

    def submit_pickled(self, pickled: bytes, limit: float | None = None) -> Future[Any]:
        """Start a function as in :meth:`Processes.call` and return its future."""
        return self._threads.submit(self._processes.call, pickled, limit)

    def close(self) -> None:
        """Kill all processes; results that are not there yet are lost."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._processes.close()
        self._threads.shutdown()


class _Process:
    """One process with its connection.

    Attributes:
        connection: Functions go there, answers come back.
        fresh: Whether it has not run a function yet.
        running: Whose code runs, '' if the function did not say, and since when.
        longest: Whose code has taken longest at a time, and how long.
    """

    def __init__(self) -> None:
        if os.name != "posix":
            raise OSError(
                "processes that can be stopped need Linux, macOS or WSL; use `workers=1`, no `time_limit`."
            )
        from fcntl import F_DUPFD_CLOEXEC, fcntl

        self.fresh, self._killed = True, False
        self.running, self.longest = ("", 0.0), ("", 0.0)
        self.connection, there = Pipe()
        # Above 2, even if the caller's standard output is closed: else a member would print to the connection.
        descriptor = fcntl(there.fileno(), F_DUPFD_CLOEXEC, 3)
        path = json.dumps([entry for entry in sys.path if isinstance(entry, str)])
        flags = subprocess._args_from_interpreter_flags()  # pyright: ignore[reportAttributeAccessIssue]
        try:
            self._popen = subprocess.Popen(
                [sys.executable, *flags, "-c", COMMAND, path, str(descriptor)],
                pass_fds=[descriptor],
                stdin=subprocess.DEVNULL,
                # Its own group, to be killed as a whole, and out of reach of Ctrl-C, which is the caller's.
                start_new_session=True,
            )
        finally:
            there.close()
            os.close(descriptor)

    def call(self, pickled: bytes, limit: float | None) -> bytes:
        """Return the pickled result and error of a function."""
        try:
            self.connection.send_bytes(b"" if limit is None else str(limit).encode())
            self.connection.send_bytes(pickled)
            self._answer(None if limit is None else limit + LOADING)  # it has what it needs: its time begins
            self.running, self.longest = ("", time.monotonic()), ("", 0.0)
            return self._answer(limit)
        except OutOfTimeError:
            raise
        except (EOFError, OSError):
            raise ProcessDiedError(self._exit_code(), self.running[0]) from None

    def alive(self) -> bool:
        """Return whether the process still runs."""
        return self._popen.poll() is None

    def kill(self) -> None:
        """Kill the process and its children, and wait for its end."""
        if not self._killed:  # once: later the number may belong to others
            self._killed = True
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # it cannot end while it waits for a device
            self._popen.wait(5.0)

    def _answer(self, seconds: float | None) -> bytes:
        """Return the next message; raise if the process has ended, or after so many seconds."""
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        while True:
            # Looked for as well: a forked child may hold the connection open after the end of the process.
            ended = not self.alive()
            if self.connection.poll(0 if ended else TICK):
                message = self.connection.recv_bytes()
                if not message.startswith(NAMING):
                    return message
                self._note(message.removeprefix(NAMING).decode())
            elif ended:
                raise EOFError
            if time.monotonic() > deadline:
                self._note("")
                raise OutOfTimeError(self.longest[0])

    def _note(self, name: str) -> None:
        """Note whose code runs now, and how long that of the one before took."""
        (before, since), now = self.running, time.monotonic()
        if now - since > self.longest[1]:
            self.longest = before, now - since
        self.running = name, now

    def _exit_code(self) -> int:
        """Return the exit code of a process whose connection is lost."""
        with suppress(subprocess.TimeoutExpired):
            return self._popen.wait(1.0)
        return NO_CONNECTION


def serve(descriptor: int) -> None:
    """Run functions that come through a connection, one after another; the main function of a process."""
    global _send_name
    connection, socket, me = Connection(descriptor), os.fstat(descriptor).st_ino, os.getpid()

    def send_name(name: str) -> None:
        with suppress(OSError):  # the connection is closed, which is noticed at the end
            # Not in a copy that the function forked, and not to a file that now has this number.
            if os.getpid() == me and os.fstat(descriptor).st_ino == socket:
                connection.send_bytes(NAMING + name.encode(errors="replace"))

    _send_name = send_name
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    received: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, received), daemon=True).start()
    with open(os.devnull, "w") as nowhere:
        while True:
            try:
                limit = received.get(timeout=IDLE)
            except queue.Empty:
                os._exit(0)
            if limit:
                faulthandler.dump_traceback_later(float(limit) + BACKSTOP, exit=True, file=nowhere)
            answer = _run(received.get(), connection)
            if os.getpid() != me:  # a copy that the function forked
                os._exit(0)
            faulthandler.cancel_dump_traceback_later()
            try:
                # The function may have closed the descriptor, and opened a file that now has its number.
                if os.fstat(descriptor).st_ino != socket:
                    os._exit(NO_CONNECTION)
                connection.send_bytes(answer)
            except OSError:
                os._exit(NO_CONNECTION)


# In a process of `serve`: sends a name to the process that waits for this one; and the name that was sent last.
_send_name: Callable[[str], None] | None = None
_running = ""


@contextmanager
def evaluating(name: str) -> Iterator[None]:
    """Say whose code runs in the body, so that it can be named if it hangs or ends the process.

    Costs nothing in a process that no other waits for.

    Example:
        >>> with evaluating("a"):
        ...     pass
    """
    global _running
    if _send_name is None:
        yield
        return
    before, _running = _running, name
    _send_name(name)
    try:
        yield
    finally:
        _running = before
        _send_name(before)


def _receive(connection: Connection, received: queue.SimpleQueue[bytes]) -> None:
    """Pass on what comes; when the caller is gone, end this process and its children."""
    while True:
        try:
            received.put(connection.recv_bytes())
        except (EOFError, OSError):
            os.killpg(0, signal.SIGKILL)


def _run(pickled: bytes, connection: Connection) -> bytes:
    """Return the pickled result and error of a function."""
    try:
        try:
            function, arguments = cloudpickle.loads(pickled)
        finally:
            connection.send_bytes(b"")
        answer = function(*arguments), None
    except BaseException as error:
        answer = None, error
    with suppress(Exception):  # a process that is killed does not write what it has printed
        sys.stdout.flush()
        sys.stderr.flush()
    try:
        return cloudpickle.dumps(answer)
    except Exception as error:
        return cloudpickle.dumps((None, RuntimeError(f"{answer[1] or error!r}")))


def _describe_exit(code: int) -> str:
    if code == NO_CONNECTION:
        return "closed the connection that its results go through"
    if code >= 0:
        return f"died with exit code {code}"
    name = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
    return f"was killed by {name}" + (" (out of memory?)" if -code == signal.SIGKILL else "")
