"""Training with the compiled kernels of :mod:`drystone.flows`: one call per epoch, without Python's lock."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drystone.flows.architecture import Architecture
from drystone.flows.kernels import density, epoch
from drystone.training.engines.loop import Data, State
from drystone.training.sweep import Configuration, ema_share

__all__ = ["CompiledLearner"]

# The gradient norm is held to this, as sbi does.
CLIP = np.float32(5.0)


class CompiledLearner:
    """A flow, Adam's running means, and the state of the dropout's generator, all changed in place.

    ``average`` is evaluated and returned: the parameters themselves, unless they are averaged over epochs.
    """

    def __init__(
        self, architecture: Architecture, configuration: Configuration, data: Data, rng: np.random.Generator
    ) -> None:
        self.architecture = architecture
        self.configuration = configuration
        self.rate = configuration.learning_rate
        self.data = data
        self.parameters = architecture.initial(rng)
        self.average = self.parameters.copy()
        self.epochs = 0
        self.mean = np.zeros_like(self.parameters)
        self.square = np.zeros_like(self.parameters)
        self.steps = np.zeros(1, np.int64)
        self.dropout_state = rng.integers(1, 2**63, 2, dtype=np.uint64)
        self.validation = data.x[data.validation], data.y[data.validation]

    def epoch(self, rows: NDArray[np.int64]) -> float:
        """Train on the rows in this order and return the mean loss."""
        configuration = self.configuration
        loss = epoch.train_epoch(
            self.architecture.plan, self.parameters, self.mean, self.square, self.steps, self.dropout_state,
            self.architecture.runs, self.data.x, self.data.y, rows, min(configuration.batch_size, rows.size),
            np.float32(self.rate), CLIP, np.float32(configuration.dropout),
        )  # fmt: skip
        self.epochs += 1
        decay = np.float32(ema_share(configuration.ema_decay, self.epochs))
        self.average = decay * self.average + (1 - decay) * self.parameters
        return loss

    def take(self, data: Data) -> None:
        """Train on other data from now on; the validation rows are the same."""
        self.data = data

    def validation_loss(self) -> float:
        """Return the mean negative log density on the validation rows."""
        log_q = np.empty(len(self.data.validation), np.float32)
        density.log_prob(self.architecture.plan, self.average, *self.validation, log_q)
        return -float(log_q.mean(dtype=np.float64))

    def scale_learning_rate(self, factor: float) -> None:
        """Multiply the learning rate by a factor."""
        self.rate *= factor

    def state(self) -> State:
        """Return a copy of the parameters, averaged if the configuration says so."""
        return {"flow": self.average.copy()}
