"""Tasks whose data are a noisy record of a deterministic path, with a log-normal prior on its rates."""

from __future__ import annotations

import functools
from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from drystone.simulation.prior import Normal
from drystone.tasks.numerics.importance import ImportanceSample, anneal
from drystone.tasks.task import Task

__all__ = ["NoisyPath"]

Array = NDArray[np.float64]

# Number of prior draws whose paths are cached (0.7 MB): the search for any posterior starts from them.
CACHED_PATHS = 4096


class NoisyPath(Task):
    r"""A task with data :math:`y \sim p(y \mid x(\theta))` about the solution :math:`x(\theta)` of an ODE.

    A subclass gives the prior of :math:`\log\theta`, the path, the noise and the noise's density. Posteriors
    are sampled in :math:`\log\theta`, where they are nearly Gaussian; see
    :mod:`drystone.tasks.numerics.importance`.
    """

    log_prior: Normal
    rows_per_block = 1000  # the solver advances them together

    @abstractmethod
    def path(self, theta: Array) -> Array:
        """Solve the ODE for each row of ``theta`` (N, d) and return the noise-free data, shape (N, m)."""

    @abstractmethod
    def observe(self, path: Array, rng: np.random.Generator) -> Array:
        """Draw the data for each row of ``path``; shape (N, m)."""

    @abstractmethod
    def log_noise(self, y: Array, path: Array) -> Array:
        """Evaluate log p(y | path), broadcasting (..., m) against (..., m); shape (...,)."""

    def simulate(self, theta: Array, rng: np.random.Generator) -> Array:
        """Solve the ODE and observe it."""
        return self.observe(self.path(theta), rng)

    def log_likelihood(self, theta: Array, y: Array) -> Array:
        """Evaluate the density of the noise about the path."""
        return self.log_noise(y, self.path(theta))

    def log_evidence(self, y: Array) -> Array:
        """Estimate the evidence by importance sampling, to about 0.02 nats; a function of y alone."""
        return np.array([self.importance_sample(row).log_evidence for row in y])

    def sample_posterior(self, y: Array, n: int, rng: np.random.Generator) -> Array:
        """Draw by rejection from the importance proposal."""
        return np.exp(self.importance_sample(y).sample(n, rng))

    def importance_sample(self, y: Array) -> ImportanceSample:
        r"""Sample the posterior of :math:`\log\theta` for one data set (m,)."""

        def log_likelihood(log_theta: Array) -> Array:
            return self.log_noise(y, self.path(np.exp(log_theta)))

        log_theta, path = self._kept_paths
        # Seeded by the data: the estimate is a function of y, with independent errors between data sets.
        rng = np.random.default_rng(np.ascontiguousarray(y).view(np.uint32))
        return anneal(self.log_prior, log_likelihood, (log_theta, self.log_noise(y, path)), rng)

    @functools.cached_property
    def _kept_paths(self) -> tuple[Array, Array]:
        """Return draws of log θ from the prior and their paths."""
        log_theta = self.log_prior.sample(CACHED_PATHS, np.random.default_rng(0))
        return log_theta, self.path(np.exp(log_theta))
