"""The training of one member from start to end, in a thread of this process or on a worker of a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from drystone.flows.architecture import Architecture
from drystone.training.engines.loop import Data, Fit, Learner, Schedule, fit, replay
from drystone.training.sweep import Configuration

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Job", "OutOfTime", "Outcome", "run", "run_again"]


class OutOfTime(Exception):
    """The time of a training ended before the training did."""


@dataclass(frozen=True)
class Job:
    """The settings of one member's training.

    Args:
        name: Name of the member.
        configuration: Its hyperparameters.
        key: Key of its stream of random numbers, to which the restart is appended.
        seed: Seed of the ensemble.
        engine: ``"compiled"`` or ``"torch"``.
        schedule: Epochs, early stopping and snapshots.
        embedding: Makes the embedding module; torch only.
        device: Device of the training; torch only.
        fingerprint: Digest of the data and settings of the training.
        deadline: When the training is given up, in seconds of ``time.time``; ``None`` for never.
    """

    name: str
    configuration: Configuration
    key: tuple[int, ...]
    seed: int
    engine: Literal["compiled", "torch"]
    schedule: Schedule
    embedding: Callable[[], nn.Module] | None
    device: str
    fingerprint: str
    deadline: float | None = None


@dataclass(frozen=True)
class Outcome:
    """The result of a job; after a restart the configuration has the lowered learning rate."""

    architecture: Architecture
    configuration: Configuration
    fit: Fit
    embedding: nn.Module | None
    restarts: int
    seconds: float = 0.0


def run(job: Job, data: Data) -> Outcome:
    """Train one member; if it diverges, train it once more with a tenth of the learning rate.

    Raises:
        OutOfTime: at the first epoch that would begin after the deadline.
    """
    start = time.perf_counter()
    training = partial(fit, schedule=job.schedule, go_on=partial(_check_time, job.deadline))
    _check_time(job.deadline)
    outcome = _attempt(job, data, 0, training)
    if outcome.fit.diverged:
        slower = replace(job.configuration, learning_rate=job.configuration.learning_rate * 0.1)
        outcome = _attempt(replace(job, configuration=slower), data, 1, training)
    return replace(outcome, seconds=time.perf_counter() - start)


def _check_time(deadline: float | None) -> None:
    if deadline is not None and time.time() > deadline:
        raise OutOfTime


def run_again(job: Job, data: Data, restart: int, epochs: int, lr_drop_epochs: Sequence[int]) -> Outcome:
    """Train one member from the same start for so many epochs, with the same drops of the learning rate.

    Args:
        job: The settings, with the learning rate of the attempt that succeeded.
        data: Simulations, all of which are trained on.
        restart: Which attempt succeeded.
        epochs: Number of epochs.
        lr_drop_epochs: Epochs at the ends of which the learning rate is lowered.
    """
    start = time.perf_counter()
    again = partial(replay, epochs=epochs, lr_drop_epochs=lr_drop_epochs)
    return replace(_attempt(job, data, restart, again), seconds=time.perf_counter() - start)


def _attempt(job: Job, data: Data, restart: int, training: Callable[..., Fit]) -> Outcome:
    configuration = job.configuration
    rng = np.random.default_rng(np.random.SeedSequence(job.seed, spawn_key=(*job.key, restart)))
    if job.engine == "compiled":
        from drystone.flows.kernels.blas import single_threaded
        from drystone.training.engines.compiled import CompiledLearner

        architecture = configuration.architecture(data.x.shape[1], data.y.shape[1], rng)
        with single_threaded():
            learner = CompiledLearner(architecture, configuration, data, rng)
            result = training(_augmented(learner, data, job, restart), data.training, rng=rng)
        return Outcome(architecture, configuration, result, None, restart)

    from drystone._parallel import seeded
    from drystone.training.engines.torch import TorchLearner, with_state

    with seeded(int(rng.integers(2**63))):
        learner = TorchLearner(configuration, data, job.embedding, job.device, rng)
        result = training(_augmented(learner, data, job, restart), data.training, rng=rng)
    embedding = None if learner.embedding is None else with_state(learner.embedding, result.state)
    return Outcome(learner.architecture, configuration, result, embedding, restart)


def _augmented(learner: Learner, data: Data, job: Job, restart: int) -> Learner:
    """Return the learner, with training rows made anew or resampled in every epoch if the data say so."""
    if data.augmentation is not None:
        from drystone.training.augmentation import AugmentedLearner

        # A stream of its own: the order of the rows does not depend on how much the user's function draws.
        rng = np.random.default_rng(np.random.SeedSequence(job.seed, spawn_key=(*job.key, restart, 0)))
        learner = AugmentedLearner(learner, data, data.augmentation, rng)
    if data.row_weights is not None:
        from drystone.training.resampling import ResamplingLearner

        rng = np.random.default_rng(np.random.SeedSequence(job.seed, spawn_key=(*job.key, restart, 1)))
        learner = ResamplingLearner(learner, data.row_weights, rng)
    return learner
