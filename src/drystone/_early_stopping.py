"""Early stopping: the best state by a loss on held-out rows, and when to give up waiting for a better one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["EarlyStopping"]

T = TypeVar("T")


class EarlyStopping(Generic[T]):
    """The best of a sequence of states.

    Args:
        best: the state before the first step, returned if no loss is ever finite.
        patience: give up after so many steps without a lower loss; None never.

    Attributes:
        best: the state with the lowest loss so far, the first of those that tie.
        loss: its loss.
        step: its position in the sequence, counted from 0.
        steps: the length of the sequence so far.

    Example:
        >>> stopping = EarlyStopping("start", patience=2)
        >>> for state, loss in zip("abcd", (3.0, 1.0, 2.0, 1.0)):
        ...     stopping.update(loss, lambda: state)
        >>> stopping.best, stopping.loss, stopping.step, stopping.exhausted
        ('b', 1.0, 1, True)
    """

    def __init__(self, best: T, patience: int | None = None) -> None:
        self.best, self.patience = best, patience
        self.loss = float("inf")
        self.step = self.steps = self._waited = 0

    def update(self, loss: float, state: Callable[[], T]) -> None:
        """Take the state of the next step if its loss is lower than any before; it is copied only then."""
        self._waited += 1
        if loss < self.loss:
            self.best, self.loss, self.step, self._waited = state(), loss, self.steps, 0
        self.steps += 1

    @property
    def exhausted(self) -> bool:
        """Whether ``patience`` steps have passed without a lower loss."""
        return self.patience is not None and self._waited >= self.patience

    def wait_again(self) -> None:
        """Begin to wait anew, as after a cut of the learning rate."""
        self._waited = 0
