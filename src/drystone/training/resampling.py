"""Weighted rows: every epoch draws rows in proportion to their weights (systematic resampling)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drystone._arrays import as_numpy
from drystone.training.engines.loop import Learner, LearnerAround

__all__ = ["ResamplingLearner", "as_row_weights"]


def as_row_weights(row_weights: ArrayLike, n: int) -> NDArray[np.float64]:
    """Return weights of n rows, checked."""
    weights = np.asarray(as_numpy(row_weights), float)
    if weights.shape != (n,):
        raise ValueError(f"`row_weights` must have shape (N,) = ({n},); got {weights.shape}.")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError("`row_weights` must be finite and not negative, and some must be positive.")
    return weights


class ResamplingLearner(LearnerAround):
    """A learner that sees a row ⌊N a_n⌋ or ⌈N a_n⌉ times per epoch, a_n its share of the weights.

    A factor in the loss would give the same expected gradient, but rows of large weight alone in a batch.
    """

    def __init__(self, learner: Learner, row_weights: NDArray[np.float64], rng: np.random.Generator) -> None:
        super().__init__(learner)
        self.row_weights, self.rng = row_weights, rng

    def epoch(self, rows: NDArray[np.int64]) -> float:
        """Train on as many rows, drawn by weight, and return the mean loss."""
        cumulated = np.cumsum(self.row_weights[rows])
        places = (self.rng.random() + np.arange(len(rows))) / len(rows) * cumulated[-1]
        drawn = rows[np.minimum(np.searchsorted(cumulated, places), len(rows) - 1)]
        return self.learner.epoch(self.rng.permutation(drawn))
