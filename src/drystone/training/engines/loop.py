"""The training loop that all engines share: epochs, early stopping, the best parameters, snapshots."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from drystone._early_stopping import EarlyStopping
from drystone._parallel import begin_step

if TYPE_CHECKING:
    from drystone.training.augmentation import Augmentation

__all__ = ["Data", "Fit", "Learner", "LearnerAround", "Schedule", "State", "fit", "replay"]

# The learning rate is multiplied by this at each drop.
LR_DROP = 0.3

# Everything that is learned, by name: "flow", and with an embedding "embedding.<name>".
State = dict[str, NDArray]


@dataclass(frozen=True)
class Data:
    """The standardized simulations, float32, with the training and the validation rows; shared by all members.

    With an augmentation the training rows are made anew in every epoch; with row weights (N,) each epoch sees a
    row as often, on average, as its weight says.
    """

    x: NDArray[np.float32]
    y: NDArray[np.float32]
    training: NDArray[np.int64]
    validation: NDArray[np.int64]
    augmentation: Augmentation | None = None
    row_weights: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Schedule:
    """The epochs of a training, early stopping and snapshots.

    Args:
        epochs: Maximum number of epochs.
        patience: Stop after so many epochs without a better validation loss; ``None`` for no early stop.
        snapshots: Epochs after which the parameters are stored.
        lr_drops: Number of times that the learning rate is lowered instead of stopping.
    """

    epochs: int
    patience: int | None
    snapshots: tuple[int, ...]
    lr_drops: int = 0

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"`epochs` must be at least 1; got {self.epochs}.")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"`patience` must be at least 1, or None; got {self.patience}.")
        if self.lr_drops < 0:
            raise ValueError(f"`lr_drops` must not be negative; got {self.lr_drops}.")


class Learner(Protocol):
    """One member in training."""

    def epoch(self, rows: NDArray[np.int64]) -> float:
        """Train on the rows in this order and return the mean loss."""
        ...

    def take(self, data: Data) -> None:
        """Train on other data from now on; the validation rows are the same."""
        ...

    def validation_loss(self) -> float:
        """Return the mean loss on the validation rows."""
        ...

    def scale_learning_rate(self, factor: float) -> None:
        """Multiply the learning rate by a factor."""
        ...

    def state(self) -> State:
        """Return a copy of all learned arrays."""
        ...


class LearnerAround:
    """A learner that leaves everything to another one; the base of those that change its rows or its data."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    def epoch(self, rows: NDArray[np.int64]) -> float:
        """Train on the rows in this order and return the mean loss."""
        return self.learner.epoch(rows)

    def take(self, data: Data) -> None:
        """Train on other data from now on."""
        self.learner.take(data)

    def validation_loss(self) -> float:
        """Return the mean loss on the validation rows, each once and as it is."""
        return self.learner.validation_loss()

    def scale_learning_rate(self, factor: float) -> None:
        """Multiply the learning rate by a factor."""
        self.learner.scale_learning_rate(factor)

    def state(self) -> State:
        """Return a copy of all learned arrays."""
        return self.learner.state()


@dataclass(frozen=True)
class Fit:
    """A finished training: the best state, the snapshots, the losses after each epoch, and the drops.

    The learning rate was lowered at the end of each of ``lr_drop_epochs``, counted from 1.
    """

    state: State
    snapshots: dict[int, State]
    losses: list[float]
    validation: list[float]
    diverged: bool
    lr_drop_epochs: tuple[int, ...] = ()

    @property
    def best_epoch(self) -> int:
        """The epoch with the lowest validation loss, counted from 1."""
        return int(np.argmin(self.validation)) + 1


def fit(
    learner: Learner,
    rows: NDArray[np.int64],
    schedule: Schedule,
    rng: np.random.Generator,
    go_on: Callable[[], None] = lambda: None,
) -> Fit:
    """Train until the schedule stops it, a loss is no longer finite, or ``go_on`` raises before an epoch."""
    stopping = EarlyStopping(learner.state(), schedule.patience)
    losses: list[float] = []
    validation: list[float] = []
    snapshots: dict[int, State] = {}
    drops: list[int] = []
    for epoch in range(1, schedule.epochs + 1):
        begin_step()
        go_on()
        losses.append(learner.epoch(rng.permutation(rows)))
        validation.append(learner.validation_loss())
        if not (math.isfinite(losses[-1]) and math.isfinite(validation[-1])):
            return Fit(stopping.best, snapshots, losses, validation, diverged=True)
        stopping.update(validation[-1], learner.state)
        if epoch in schedule.snapshots:
            snapshots[epoch] = learner.state()
        if stopping.exhausted:
            if len(drops) == schedule.lr_drops:
                break
            learner.scale_learning_rate(LR_DROP)
            stopping.wait_again()
            drops.append(epoch)
    # Snapshots after an early stop hold the last parameters.
    for epoch in schedule.snapshots:
        snapshots.setdefault(epoch, learner.state())
    return Fit(stopping.best, snapshots, losses, validation, False, tuple(drops))


def replay(
    learner: Learner, rows: NDArray[np.int64], epochs: int, lr_drop_epochs: Sequence[int], rng: np.random.Generator
) -> Fit:
    """Train for exactly so many epochs, with drops of the learning rate at the ends of the epochs listed."""
    losses: list[float] = []
    for epoch in range(1, epochs + 1):
        begin_step()
        losses.append(learner.epoch(rng.permutation(rows)))
        if not math.isfinite(losses[-1]):
            break
        if epoch in lr_drop_epochs:
            learner.scale_learning_rate(LR_DROP)
    state = learner.state()
    finite = math.isfinite(losses[-1]) and all(np.isfinite(array).all() for array in state.values())
    return Fit(state, {}, losses, [], not finite, tuple(lr_drop_epochs))
