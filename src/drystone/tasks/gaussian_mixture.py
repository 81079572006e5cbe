"""Gaussian Mixture: one location, two scales (sbibm)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from drystone.simulation.prior import Uniform
from drystone.tasks.numerics import truncated_normal
from drystone.tasks.task import Task

__all__ = ["GaussianMixture"]

Array = NDArray[np.float64]

SCALES = np.array([1.0, 0.1])
BOUND = 10.0


class GaussianMixture(Task):
    r"""A common mean under a broad and a narrow Gaussian.

    .. math::
        \theta \sim U(-10, 10)^2, \quad y \mid \theta \sim \tfrac12 N(\theta, I) + \tfrac12 N(\theta, 0.1^2 I)

    One fair coin is tossed for each simulation and shared by both coordinates. The posterior is the same
    expression in :math:`\theta`, cut to the box.

    Example:
        >>> import drystone as ds, numpy as np
        >>> draws = ds.tasks.GaussianMixture().sample_posterior([3.0, 4.0], 10_000, np.random.default_rng(1))
        >>> draws.shape, draws.mean(0).round(1)
        ((10000, 2), array([3., 4.]))
    """

    name = "gaussian_mixture"
    parameters = ("theta_1", "theta_2")
    y_dim = 2
    rows_per_block = 1000
    prior = Uniform([-BOUND, -BOUND], [BOUND, BOUND])

    def simulate(self, theta: Array, rng: np.random.Generator) -> Array:
        """Toss a coin for the scale of each row, then add Gaussian noise of that scale."""
        scale = SCALES[rng.integers(0, 2, len(theta))]
        return theta + scale[:, None] * rng.standard_normal(theta.shape)

    def log_likelihood(self, theta: Array, y: Array) -> Array:
        """Evaluate the log of the average of the two densities."""
        distance2 = ((y - theta) ** 2).sum(-1, keepdims=True)
        log_density = -0.5 * distance2 / SCALES**2 - np.log(2 * np.pi * SCALES**2)
        return np.asarray(logsumexp(log_density, -1)) + np.log(0.5)

    def log_evidence(self, y: Array) -> Array:
        r"""Add the masses of the two Gaussians in the box.

        .. math::
            p(y) = \frac1{400}\,\frac12 \sum_s \prod_j
                \Bigl[\Phi\Bigl(\frac{10 - y_j}s\Bigr) - \Phi\Bigl(\frac{-10 - y_j}s\Bigr)\Bigr]
        """
        return np.asarray(logsumexp(self._log_masses(y), -1)) + np.log(0.5) - 2 * np.log(2 * BOUND)

    def sample_posterior(self, y: Array, n: int, rng: np.random.Generator) -> Array:
        """Choose the scale by its mass in the box, then draw from that Gaussian cut to the box."""
        log_masses = self._log_masses(y[None])[0]
        broad = np.exp(log_masses[0] - logsumexp(log_masses))
        scale = np.where(rng.random((n, 1)) < broad, *SCALES)
        return truncated_normal.sample(y, scale, -BOUND, BOUND, rng)

    @staticmethod
    def _log_masses(y: Array) -> Array:
        """Return the log mass in the box of a Gaussian about ``y`` (N, 2), for each scale; shape (N, 2)."""
        low, high = (-BOUND - y[..., None]) / SCALES, (BOUND - y[..., None]) / SCALES
        return truncated_normal.log_mass(low, high).sum(-2)
