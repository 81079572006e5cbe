"""Code of others beside ours: its threads, its use of the global generators, and signals that it swallows."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType

import numpy as np
import torch

__all__ = ["generators_restored", "one_thread", "seeded", "signals_watched"]


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread: the arrays are too small for more, and two can be ten times slower."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


# All threads share the global generators: one thread at a time.
_generators_lock = threading.RLock()


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Run the body with the global generators of torch, NumPy and Python set to ``seed``, and restore them.

    Threads take turns. With None the generators are left as they are. Only for code that takes no generator
    (other libraries, the initialization of torch's layers): Drystone's own code takes generators as arguments.

    Example:
        >>> with seeded(3):
        ...     first = torch.randn(2)
        >>> with seeded(3):
        ...     print(torch.equal(first, torch.randn(2)))
        True
    """
    if seed is None:
        yield
        return
    with _generators_lock, _generators_restored():
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        random.seed(seed)
        yield


@contextmanager
def generators_restored() -> Iterator[None]:
    """Run the body, which has its own generators, and restore the global ones in case it has set them.

    Not in threads, where others may use them at the same time.
    """
    with _generators_restored() if threading.current_thread() is threading.main_thread() else nullcontext():
        yield


@contextmanager
def _generators_restored() -> Iterator[None]:
    state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(state)


@contextmanager
def signals_watched() -> Iterator[Callable[[], None]]:
    """Yield a function that raises what the handler of a signal has raised since, if one came.

    So Ctrl-C is told from a ``KeyboardInterrupt`` that other code raises by itself, and is not lost if that code
    swallows it. Only the main thread gets signals.
    """
    main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM) if main}
    raised: list[BaseException] = []

    def handle(number: int, frame: FrameType | None) -> None:
        handler = handlers[signal.Signals(number)]
        try:
            if callable(handler):
                handler(number, frame)
        except BaseException as error:
            raised.append(error)
            raise

    def reraise() -> None:
        if raised:
            raise raised[0]

    watched = [number for number, handler in handlers.items() if callable(handler)]
    for number in watched:
        signal.signal(number, handle)
    try:
        yield reraise
    finally:
        for number in watched:
            signal.signal(number, handlers[number])
