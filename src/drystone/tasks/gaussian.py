"""The Gaussian toy problem: one parameter, one observation, everything in closed form."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drystone.simulation.prior import Normal
from drystone.tasks.task import Task

__all__ = ["Gaussian"]

Array = NDArray[np.float64]


class Gaussian(Task):
    r"""A normal mean with a nearly flat prior (the toy of the stacking paper, App. D.1).

    .. math::
        \theta \sim N(0, \tau^2), \qquad y \mid \theta \sim N(\theta, 1), \qquad
        \theta \mid y \sim N(s\,y,\; s), \quad s = \frac{\tau^2}{1 + \tau^2}

    Args:
        prior_sd: The prior's standard deviation :math:`\tau`. The default, 100, makes the posterior
            :math:`N(y, 1)` of the paper up to a factor 0.9999.

    Example:
        >>> import numpy as np
        >>> float(np.exp(Gaussian().log_posterior([[3.0]], [[3.0]]))[0])  # 1 / √(2π)
        0.3989...
    """

    name = "gaussian"
    parameters = ("theta",)
    y_dim = 1
    rows_per_block = 1000

    def __init__(self, prior_sd: float = 100.0) -> None:
        self.prior = Normal([0.0], [prior_sd])
        self.prior_sd = prior_sd

    def simulate(self, theta: Array, rng: np.random.Generator) -> Array:
        r"""Draw :math:`y \sim N(\theta, 1)`."""
        return theta + rng.standard_normal(theta.shape)

    def log_likelihood(self, theta: Array, y: Array) -> Array:
        r"""Evaluate :math:`\log N(y; \theta, 1)`."""
        return Normal([0.0], [1.0]).log_prob(y - theta)

    def log_evidence(self, y: Array) -> Array:
        r"""Evaluate :math:`p(y) = N(y; 0, \tau^2 + 1)`."""
        return Normal([0.0], [np.hypot(self.prior_sd, 1.0)]).log_prob(y)

    def sample_posterior(self, y: Array, n: int, rng: np.random.Generator) -> Array:
        r"""Draw from :math:`N(s\,y, s)`."""
        shrinkage = self.prior_sd**2 / (1 + self.prior_sd**2)
        return Normal(shrinkage * y, [np.sqrt(shrinkage)]).sample(n, rng)
