"""What the training of a member is repeated from: seeds, schedule, and when the learning rate was lowered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from drystone.training.engines.job import Job
from drystone.training.engines.loop import Fit, Schedule

__all__ = ["Recipe"]


@dataclass(frozen=True)
class Recipe:
    """The settings of a training that the configuration and the history of a member do not hold.

    Args:
        seed: Seed of the ensemble.
        key: Key of the member's stream of random numbers.
        engine: ``"compiled"`` or ``"torch"``.
        schedule: Epochs, early stopping and snapshots.
        lr_drop_epochs: Epochs, counted from 1, at the ends of which the learning rate was lowered.
        augment: Name of the function that made new pairs in every epoch; empty if there was none.
    """

    seed: int
    key: tuple[int, ...]
    engine: Literal["compiled", "torch"]
    schedule: Schedule
    lr_drop_epochs: tuple[int, ...]
    augment: str = ""

    @classmethod
    def of(cls, job: Job, fit: Fit, augment: str = "") -> Recipe:
        """Return the recipe of a finished training."""
        return cls(job.seed, job.key, job.engine, job.schedule, fit.lr_drop_epochs, augment)

    def describe(self) -> dict[str, Any]:
        """Return the recipe as JSON."""
        return asdict(self)

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Recipe:
        """Return the recipe of :meth:`describe`."""
        schedule = dict(stored["schedule"])
        return cls(
            seed=stored["seed"],
            key=tuple(stored["key"]),
            engine=stored["engine"],
            schedule=Schedule(**{**schedule, "snapshots": tuple(schedule["snapshots"])}),
            lr_drop_epochs=tuple(stored["lr_drop_epochs"]),
            augment=stored.get("augment", ""),
        )
