"""SLCP, simple likelihood and complex posterior (Papamakarios et al. 2019; sbibm)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drystone.simulation.prior import Uniform
from drystone.simulation.support import Support
from drystone.tasks.numerics import truncated_normal
from drystone.tasks.numerics.bivariate_normal import rectangle
from drystone.tasks.numerics.importance import ImportanceSample, anneal
from drystone.tasks.task import Task

__all__ = ["SLCP"]

Array = NDArray[np.float64]

BOUND = 3.0
JITTER = 1e-6  # sbibm adds it to both variances
SMALLEST = 1e-300  # a probability that underflows, before its logarithm is taken
START_DRAWS = 4000


class SLCP(Task):
    r"""Mean and covariance of a bivariate normal from four points.

    .. math::
        \theta \sim U(-3, 3)^5, \quad m = (\theta_1, \theta_2), \quad s_1 = \theta_3^2,\; s_2 = \theta_4^2,\;
        \rho = \tanh\theta_5 \\
        x_1, \dots, x_4 \sim N(m, \Sigma), \qquad
        \Sigma = \begin{pmatrix} s_1^2 + \epsilon & \rho s_1 s_2 \\
                                 \rho s_1 s_2 & s_2^2 + \epsilon \end{pmatrix}, \quad \epsilon = 10^{-6}

    and :math:`y = (x_{11}, x_{12}, x_{21}, \dots, x_{42})`. The signs of :math:`\theta_3, \theta_4` do not
    matter: four equal modes. With :math:`\bar x` and :math:`S = \sum_i (x_i - \bar x)(x_i - \bar x)^\top` the
    mean can be integrated out,

    .. math::
        \int p(y \mid \theta)\,dm = (2\pi)^{-3}\,\tfrac14\,|\Sigma|^{-3/2}\,
        e^{-\frac12 \mathrm{tr}\,\Sigma^{-1}S}\; P(N(\bar x, \Sigma/4) \in [-3, 3]^2),

    which leaves :math:`g = (\log|\theta_3|, \log|\theta_4|, \theta_5)` to importance sampling.

    Example:
        >>> import drystone as ds, numpy as np
        >>> task = ds.tasks.SLCP()
        >>> theta, y = ds.simulate(task, n=100, seed=1)
        >>> mirrored = theta * [1, 1, -1, -1, 1]
        >>> np.allclose(task.log_likelihood(theta, y), task.log_likelihood(mirrored, y))
        True
    """

    name = "slcp"
    parameters = ("theta_1", "theta_2", "theta_3", "theta_4", "theta_5")
    y_dim = 8
    rows_per_block = 1000
    prior = Uniform([-BOUND] * 5, [BOUND] * 5)

    def simulate(self, theta: Array, rng: np.random.Generator) -> Array:
        """Draw four points from the Cholesky factor of Σ."""
        v11, v12, v22 = _covariance(theta[:, 2:])
        l11 = np.sqrt(v11)
        l21 = v12 / l11
        l22 = np.sqrt(v22 - l21**2)
        z1, z2 = rng.standard_normal((2, 4, len(theta)))
        x = np.stack([theta[:, 0] + l11 * z1, theta[:, 1] + l21 * z1 + l22 * z2])
        return x.transpose(2, 1, 0).reshape(len(theta), 8)

    def log_likelihood(self, theta: Array, y: Array) -> Array:
        """Add the four bivariate normal log densities."""
        x1, x2 = y[:, 0::2] - theta[:, :1], y[:, 1::2] - theta[:, 1:2]
        v11, v12, v22 = _covariance(theta[:, 2:])
        det = v11 * v22 - v12**2
        trace = (v22 * (x1**2).sum(-1) - 2 * v12 * (x1 * x2).sum(-1) + v11 * (x2**2).sum(-1)) / det
        return -0.5 * trace - 2 * np.log(det) - 4 * np.log(2 * np.pi)

    def log_evidence(self, y: Array) -> Array:
        """Estimate the evidence by importance sampling, to about 0.02 nats; a function of y alone."""
        return np.array([_importance_sample(row).log_evidence for row in y])

    def sample_posterior(self, y: Array, n: int, rng: np.random.Generator) -> Array:
        """Draw scales and correlation by rejection, signs by coins, then the mean from its cut normal."""
        g = _importance_sample(y).sample(n, rng)
        scales = np.exp(g[:, :2]) * np.where(rng.random((n, 2)) < 0.5, -1.0, 1.0)
        shape = np.column_stack([scales, g[:, 2]])
        return np.column_stack([_sample_mean(y, shape, rng), shape])


class _ShapePrior:
    """The prior of g = (log|θ₃|, log|θ₄|, θ₅) that the uniform prior of θ implies."""

    support = Support([-np.inf, -np.inf, -BOUND], [np.log(BOUND), np.log(BOUND), BOUND])

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        # 1 − u lies in (0, 1], so that the logarithm is finite.
        scales = BOUND * (1 - rng.random((n, 2)))
        return np.column_stack([np.log(scales), rng.uniform(-BOUND, BOUND, n)])

    def log_prob(self, theta: ArrayLike) -> Array:
        g = np.asarray(theta)
        log_density = g[:, 0] + g[:, 1] - 2 * np.log(BOUND) - np.log(2 * BOUND)
        return np.where(self.support.contains(g), log_density, -np.inf)


def _covariance(shape: Array) -> tuple[Array, Array, Array]:
    """Return the entries Σ₁₁, Σ₁₂, Σ₂₂ for (θ₃, θ₄, θ₅) in the columns of ``shape`` (N, 3)."""
    s1, s2, rho = shape[:, 0] ** 2, shape[:, 1] ** 2, np.tanh(shape[:, 2])
    return s1**2 + JITTER, rho * s1 * s2, s2**2 + JITTER


def _log_marginal(g: Array, y: Array) -> Array:
    r"""Evaluate :math:`\log\int p(y \mid \theta)\,p(m)\,dm` at each row of ``g`` (N, 3), with p(m) = 1/36."""
    # Draws outside the prior get weight 0 in any case; clipped, they do not overflow.
    shape = np.column_stack([np.exp(np.minimum(g[:, :2], np.log(BOUND))), g[:, 2]])
    v11, v12, v22 = _covariance(shape)
    det = v11 * v22 - v12**2
    x = y.reshape(4, 2)
    mean = x.mean(0)
    (s11, s12), (_, s22) = (x - mean).T @ (x - mean)
    trace = (v22 * s11 - 2 * v12 * s12 + v11 * s22) / det
    sd = np.sqrt([v11, v22]) / 2
    low, high = (-BOUND - mean[:, None]) / sd, (BOUND - mean[:, None]) / sd
    log_box = np.log(
        np.maximum(rectangle((low[0], low[1]), (high[0], high[1]), v12 / np.sqrt(v11 * v22)), SMALLEST)
    )
    log_integral = -3 * np.log(2 * np.pi) - np.log(4) - 1.5 * np.log(det) - 0.5 * trace + log_box
    return log_integral - 2 * np.log(2 * BOUND)


def _importance_sample(y: Array) -> ImportanceSample:
    """Sample the posterior of g for one data set (8,), with random numbers seeded by the data."""
    rng = np.random.default_rng(np.ascontiguousarray(y).view(np.uint32))
    prior = _ShapePrior()
    g = prior.sample(START_DRAWS, rng)
    return anneal(prior, lambda x: _log_marginal(x, y), (g, _log_marginal(g, y)), rng)


def _sample_mean(y: Array, shape: Array, rng: np.random.Generator) -> Array:
    r"""Draw :math:`m \sim N(\bar x, \Sigma/4)` restricted to the box, one for each row of ``shape``; (N, 2).

    :math:`m_1` is drawn from its normal cut to the box and accepted with the probability that :math:`m_2` falls in
    the box given :math:`m_1`; then :math:`m_2` is drawn from its conditional normal cut to the box.
    """
    v11, v12, v22 = _covariance(shape)
    x1, x2 = y.reshape(4, 2).mean(0)
    slope, sd2 = v12 / v11, np.sqrt(v22 - v12**2 / v11) / 2
    m = np.empty((len(shape), 2))
    remaining = np.arange(len(shape))
    while remaining.size:
        m1 = truncated_normal.sample(x1, np.sqrt(v11[remaining]) / 2, -BOUND, BOUND, rng)
        mean2 = x2 + slope[remaining] * (m1 - x1)
        low, high = (-BOUND - mean2) / sd2[remaining], (BOUND - mean2) / sd2[remaining]
        accepted = np.log(rng.random(remaining.size)) < truncated_normal.log_mass(low, high)
        rows = remaining[accepted]
        m[rows, 0] = m1[accepted]
        m[rows, 1] = truncated_normal.sample(mean2[accepted], sd2[rows], -BOUND, BOUND, rng)
        remaining = remaining[~accepted]
    return m
