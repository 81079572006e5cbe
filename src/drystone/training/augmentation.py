r"""Augmentation: in every epoch the user's code makes new pairs :math:`(\theta, y)` from the simulations.

For symmetries, :math:`p(g\theta, gy) = p(\theta, y)`, and for noise that is cheap to draw again. The pairs must be
distributed as the simulations are: :func:`told_apart` tests it once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from drystone._arrays import as_numpy
from drystone.flows.kernels.blas import single_threaded
from drystone.simulation.support import Support
from drystone.training.engines.loop import Data, Learner, LearnerAround
from drystone.training.inputs import check_inside

__all__ = ["Augment", "Augmentation", "AugmentedLearner", "name_of", "told_apart"]

Augment = Callable[[NDArray, NDArray, np.random.Generator], tuple[NDArray, NDArray]]

# Most rows of each side of the two-sample test, its permutations, and nearest neighbors of a row.
ROWS, PERMUTATIONS = 500, 2999
NEIGHBORS = 10
# Standardized values are held to this, so that single rows do not decide the test.
CLIP = 6.0


class Standardizing(Protocol):
    """A target: it turns rows of simulations into those of a flow."""

    def standardize(
        self, theta: NDArray, y: NDArray, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return x and y of a flow for pairs that stand at these rows of the simulations."""
        ...


@dataclass(frozen=True)
class Augmentation:
    """The user's function, and the simulations that it is applied to.

    Args:
        function: Maps (theta, y, rng) to pairs of the same shapes.
        target: Standardizes them.
        support: The support of the prior, which they must lie in.
        theta: Parameters of all simulations, (N, d).
        y: Their data, (N, …).
    """

    function: Augment
    target: Standardizing
    support: Support
    theta: NDArray
    y: NDArray

    def pairs(self, rows: NDArray[np.int64], rng: np.random.Generator) -> tuple[NDArray, NDArray]:
        """Return new pairs for these rows of the simulations, checked."""
        # Copies, because the function may change its arguments in place.
        theta, y = self.theta[rows], self.y[rows]
        made = self.function(theta.copy(), y.copy(), rng)
        if not isinstance(made, tuple | list) or len(made) != 2:
            raise TypeError(f"`augment` must return (theta, y); got {type(made).__name__}.")
        for name, new, old in zip(("theta", "y"), map(as_numpy, made), (theta, y), strict=True):
            if new.shape != old.shape:
                raise ValueError(f"`augment` must return `{name}` of shape {old.shape}; got {new.shape}.")
            if not np.isfinite(new).all():
                raise ValueError(f"`augment` must return finite numbers; some of `{name}` are not.")
        new_theta, new_y = map(as_numpy, made)
        try:
            check_inside(new_theta, self.support)
        except ValueError as error:
            raise ValueError(f"`augment`: {error}") from None
        return new_theta, new_y

    def data(self, data: Data, rng: np.random.Generator) -> Data:
        """Return the data of one epoch: new pairs in the training rows, the validation rows as they are."""
        made = self.target.standardize(*self.pairs(data.training, rng), data.training)
        x, y = data.x.copy(), data.y.copy()
        x[data.training], y[data.training] = made
        return replace(data, x=x, y=y)


class AugmentedLearner(LearnerAround):
    """A learner whose training rows are made anew before each epoch, with random numbers of their own."""

    def __init__(self, learner: Learner, data: Data, augmentation: Augmentation, rng: np.random.Generator) -> None:
        super().__init__(learner)
        self.data, self.augmentation, self.rng = data, augmentation, rng

    def epoch(self, rows: NDArray[np.int64]) -> float:
        """Train on new pairs at the rows in this order and return the mean loss."""
        self.learner.take(self.augmentation.data(self.data, self.rng))
        return self.learner.epoch(rows)

    def take(self, data: Data) -> None:
        """Train on other data from now on."""
        self.data = data


def name_of(augment: Augment | None) -> str:
    """Return the name of the function, which is all that a fingerprint can note of code; empty for none."""
    return "" if augment is None else getattr(augment, "__qualname__", type(augment).__name__)


def told_apart(data: Data, augmentation: Augmentation, seed: int) -> float:
    r"""Return a p-value: how likely pairs of one distribution would look as different as augmented and real ones.

    One half of the training rows is augmented and compared with the other half. With signs s = ±1 of the sides,
    distances D between standardized pairs, and the matrix A of nearest neighbors, the statistics are

    .. math:: -s^\top D s, \qquad s^\top A s

    the energy distance, which sees shifts, and the number of neighbors of the same side, which sees dependence.
    Their ranks among those of random signs are p-values, of which twice the smaller one counts.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(6,)))
    rows = rng.permutation(data.training)[: 2 * ROWS]
    half = len(rows) // 2
    if half < 2 * NEIGHBORS:  # too few to tell anything
        return 1.0
    augmented = augmentation.data(replace(data, training=rows[:half]), rng)
    both = np.concatenate([_joined(augmented, rows[:half]), _joined(data, rows[half : 2 * half])])
    D = cdist(both, both)
    nearest = np.argpartition(D + np.diag(np.full(len(D), np.inf)), NEIGHBORS, axis=1)[:, :NEIGHBORS]
    A = np.zeros_like(D)
    np.put_along_axis(A, nearest, 1.0, axis=1)
    s = np.ones((2 * half, 1 + PERMUTATIONS))
    s[half:, 0] = -1
    for k in range(1, 1 + PERMUTATIONS):
        s[rng.permutation(2 * half)[:half], k] = -1
    with single_threaded():  # rounding must not depend on the number of cores
        statistics = [np.einsum("ik,ik->k", s, M @ s) for M in (-D, A)]
    p = [(statistic >= statistic[0]).mean() for statistic in statistics]
    return min(1.0, 2 * float(min(p)))


def _joined(data: Data, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    pairs = np.concatenate([data.x[rows], data.y[rows].reshape(len(rows), -1)], axis=1).astype(np.float64)
    return np.clip(pairs, -CLIP, CLIP)
