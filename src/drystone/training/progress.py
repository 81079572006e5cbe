"""A bar of members in training that moves with their epochs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

from drystone._messages import progress_bar

if TYPE_CHECKING:
    from tqdm.std import tqdm

__all__ = ["member_bar"]

# Seconds between two looks at the epochs.
INTERVAL = 1.0


@contextmanager
def member_bar(total: int, unit: str, progress: bool | None) -> Iterator[tuple[tqdm, Callable[[], None]]]:
    """Yield a bar of finished members, and a function for their threads to call at every epoch.

    Args:
        total: number of members.
        unit: their name.
        progress: whether it is shown; None for where there is a terminal or a notebook.
    """
    with progress_bar(total, unit, shown=progress) as bar:
        epochs, shown = count(1), time.monotonic()

        def step() -> None:
            nonlocal shown
            done, now = next(epochs), time.monotonic()
            if now - shown > INTERVAL:
                shown = now
                bar.set_description_str(f"{done} epochs")

        yield bar, step
