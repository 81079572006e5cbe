"""Libraries that draw from global generators: set for a while, then put back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["abandon", "seeded"]

# There is one generator for all threads: one at a time.
_turn = threading.RLock()


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Run the body with torch's and NumPy's global generators set to ``seed``; both are put back afterwards.

    Threads take turns. With None the generators are used as they stand. For foreign code only: ours takes
    generators as arguments.

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
    with _turn:
        # The generators that are not to be used are those that foreign code does use.
        state = np.random.get_state()  # noqa: NPY002
        try:
            with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
                torch.manual_seed(seed)
                np.random.seed(seed % 2**32)  # noqa: NPY002
                yield
        finally:
            np.random.set_state(state)  # noqa: NPY002


def abandon() -> None:
    """Stop waiting for a thread that hangs within :func:`seeded`, and will never end its turn."""
    global _turn
    _turn = threading.RLock()
