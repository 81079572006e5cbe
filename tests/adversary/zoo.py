"""Members that misbehave, each in its own way, and one that does not."""

import ctypes
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import torch

LIMIT = 3.0


class Good:
    """A Gaussian member."""

    def __init__(self, shift=0.0):
        self.shift = shift

    def log_prob(self, theta, y):
        return -0.5 * ((theta - y - self.shift) ** 2).sum(1)

    def sample(self, n, y, seed):
        return y + self.shift + np.random.default_rng(seed).normal(size=(n, *y.shape))


class Global(Good):
    """A good member that draws from the global generators, and has noise in its density, as some libraries do."""

    def log_prob(self, theta, y):
        return super().log_prob(theta, y) + 0.01 * np.random.rand(len(y)) + random.random()  # noqa: NPY002

    def sample(self, n, y):  # pyright: ignore[reportIncompatibleMethodOverride]
        return y + torch.randn(n, *y.shape).numpy()


class Bad(Good):
    """A member that misbehaves when its density is asked for."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def log_prob(self, theta, y):
        result = WAYS[self.how](theta, y)
        return super().log_prob(theta, y) if result is None else result


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError("no message")


def hang(theta, y):
    while True:
        time.sleep(1)


def hang_busily(theta, y):
    while True:
        pass


def hang_with_lock(theta, y):
    ctypes.PyDLL(None).sleep(100_000)


def hang_without_signals(theta, y):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    hang(theta, y)


def hang_with_child(theta, y):
    subprocess.Popen(["sleep", "4321"])
    hang(theta, y)


def stop_itself(theta, y):
    os.kill(os.getpid(), signal.SIGSTOP)


def terminate_itself(theta, y):
    os.kill(os.getpid(), signal.SIGTERM)


def interrupt_itself(theta, y):
    raise KeyboardInterrupt


def fork_and_go_on(theta, y):
    """Two processes return from this."""
    os.fork()


def fork_and_sleep(theta, y):
    """The child outlives the process, and holds its connection open."""
    if os.fork() == 0:
        time.sleep(4321)
        os._exit(0)
    os._exit(0)


def close_descriptors(theta, y):
    os.closerange(3, 256)


def close_and_open_descriptors(theta, y):
    """A file of the member has the number of the connection now."""
    os.closerange(3, 256)
    for _ in range(50):
        os.open(os.devnull, os.O_RDWR)


def use_up_memory(theta, y):
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, limits[1]))
    try:
        np.ones(10**8)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def change_arrays(theta, y):
    theta[:], y[:] = 0, 0


def seed_generators(theta, y):
    np.random.seed(0)  # noqa: NPY002
    random.seed(0)
    torch.manual_seed(0)


def change_settings(theta, y):
    np.seterr(all="raise")
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.set_num_threads(2)
    os.chdir("/")


def leave_a_timer(theta, y):
    """Kills the process after this member has returned."""
    threading.Timer(0.2, os._exit, [5]).start()


def print_much(theta, y):
    for stream in (sys.stdout, sys.stderr):
        stream.write("much\n" * 20_000)


def raise_(error):
    raise error


TOO_SLOW = f"took longer than the time limit of {LIMIT:g} s"
# What each does, and the reason for which it is left out; '' if it is not.
HANGING = {
    "hang": (hang, TOO_SLOW),
    "busy hang": (hang_busily, TOO_SLOW),
    "hang with the interpreter's lock": (hang_with_lock, TOO_SLOW),
    "hang without signals": (hang_without_signals, TOO_SLOW),
    "hang with a child": (hang_with_child, TOO_SLOW),
    "stopped": (stop_itself, TOO_SLOW),
}
DYING = {
    "exit 0": (lambda *_: os._exit(0), "its process died with exit code 0"),
    "exit 9": (lambda *_: os._exit(9), "its process died with exit code 9"),
    "segmentation fault": (lambda *_: ctypes.string_at(0), "its process was killed by SIGSEGV"),
    "abort": (lambda *_: os.abort(), "its process was killed by SIGABRT"),
    "killed": (lambda *_: os.kill(os.getpid(), 9), "its process was killed by SIGKILL (out of memory?)"),
    "terminated": (terminate_itself, "its process was killed by SIGTERM"),
    "fork and exit": (fork_and_sleep, "its process died with exit code 0"),
    "closed descriptors": (close_descriptors, "its process closed the connection that its results go through"),
    "other descriptors": (
        close_and_open_descriptors,
        "its process closed the connection that its results go through",
    ),
}
RAISING = {
    "error": (lambda *_: raise_(RuntimeError("boom\nand more")), "RuntimeError: boom"),
    "exit": (lambda *_: sys.exit(3), "SystemExit: 3"),
    "KeyboardInterrupt": (interrupt_itself, "KeyboardInterrupt"),
    "BaseException": (lambda *_: raise_(BaseException("base")), "BaseException: base"),
    "GeneratorExit": (lambda *_: raise_(GeneratorExit()), "GeneratorExit"),
    "no message": (lambda *_: raise_(UnspeakableError()), "UnspeakableError"),
    "out of memory": (use_up_memory, "MemoryError: "),
    "recursion": (lambda theta, y: Bad("recursion").log_prob(theta, y), "RecursionError: "),
    "a column": (lambda theta, y: np.zeros((len(theta), 1)), "ValueError: `log_prob` of member 'a column' must"),
    "one number": (lambda theta, y: 0.0, "ValueError: `log_prob` of member 'one number' must return shape"),
    "one row less": (lambda theta, y: np.zeros(len(theta) - 1), "ValueError: `log_prob` of member 'one row less'"),
    "a huge array": (lambda theta, y: np.zeros((len(theta), 10**5)), "ValueError: `log_prob` of member 'a huge"),
    "words": (
        lambda theta, y: np.full(len(theta), "a"),
        "TypeError: `log_prob` of member 'words' must return real",
    ),
    "complex": (lambda theta, y: np.zeros(len(theta), complex), "TypeError: `log_prob` of member 'complex' must"),
    "mutation": (change_arrays, "ValueError: member 'mutation' changed `theta` in place"),
}
HARMLESS = {
    "seeds": (seed_generators, ""),
    "settings": (change_settings, ""),
    "fork": (fork_and_go_on, ""),
    "print": (print_much, ""),
}
WAYS = {name: way for group in (HANGING, DYING, RAISING, HARMLESS) for name, (way, _) in group.items()}
WAYS["timer"] = leave_a_timer
