"""Lotka–Volterra: predators and prey counted ten times (sbibm)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drystone.simulation.prior import LogNormal, Normal
from drystone.tasks.numerics.noisy_path import NoisyPath
from drystone.tasks.numerics.runge_kutta import runge_kutta

__all__ = ["LotkaVolterra"]

Array = NDArray[np.float64]

TIMES = 2.1 * np.arange(10)  # 0, 2.1, ..., 18.9
SMALLEST, LARGEST = 1e-10, 1e4
# Against a step of 0.002 the log populations err by at most 1.4e-4 over the prior; their noise is 0.1.
STEP = 0.01
NOISE = Normal(np.zeros(20), np.full(20, 0.1))


class LotkaVolterra(NoisyPath):
    r"""Growth α and predation β of prey X, death γ and growth δ of predators Y.

    .. math::
        \log\alpha, \log\gamma \sim N(-0.125,\, 0.5^2), \qquad \log\beta, \log\delta \sim N(-3,\, 0.5^2) \\
        \dot X = \alpha X - \beta XY, \quad \dot Y = \delta XY - \gamma Y, \qquad X(0) = 30,\; Y(0) = 1 \\
        \log y \sim N(\log x,\, 0.1^2), \qquad
        x = \mathrm{clip}[(X(t_1), \dots, X(t_{10}), Y(t_1), \dots, Y(t_{10})),\, 10^{-10},\, 10^4]

    at :math:`t_k = 0, 2.1, \dots, 18.9`. Solved as :math:`u = \log X, v = \log Y`:
    :math:`\dot u = \alpha - \beta e^v, \dot v = \delta e^u - \gamma`. The data span thirteen decades; their
    logarithms are the natural input of a network.

    Example:
        >>> import drystone as ds
        >>> task = ds.tasks.LotkaVolterra()
        >>> theta, y = ds.simulate(task, n=20, seed=1)
        >>> y.shape, bool((y > 0).all())
        ((20, 20), True)
        >>> task.log_likelihood(theta, y).shape
        (20,)
    """

    name = "lotka_volterra"
    parameters = ("alpha", "beta", "gamma", "delta")
    y_dim = 20
    prior = LogNormal([-0.125, -3.0, -0.125, -3.0], [0.5, 0.5, 0.5, 0.5])
    log_prior = prior.log

    def path(self, theta: Array) -> Array:
        """Return the log populations at the ten times, prey first, shape (N, 20)."""
        alpha, beta, gamma, delta = theta.T

        def derivative(u: Array, v: Array) -> tuple[Array, Array]:
            return alpha - beta * np.exp(v), delta * np.exp(u) - gamma

        start = (np.full(len(theta), np.log(30.0)), np.zeros(len(theta)))
        prey, predators = runge_kutta(derivative, start, TIMES.tolist(), STEP)
        return np.concatenate([prey, predators], -1).clip(np.log(SMALLEST), np.log(LARGEST))

    def observe(self, path: Array, rng: np.random.Generator) -> Array:
        """Multiply by log-normal noise."""
        return np.exp(path + NOISE.sample(len(path), rng))

    def log_noise(self, y: Array, path: Array) -> Array:
        r"""Evaluate :math:`\sum_k \log N(\log y_k; \log x_k, 0.1^2) - \log y_k`."""
        log_y = np.log(y)
        return NOISE.log_prob(log_y - path) - log_y.sum(-1)
