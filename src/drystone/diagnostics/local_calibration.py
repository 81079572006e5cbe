r"""Posterior SBC: is a posterior calibrated for data like the observation's (arXiv 2502.03279)?

Simulations come from a proposal near the posterior at y_o, :math:`\theta_n \sim r(\theta)`,
:math:`y_n \sim p(y \mid \theta_n)`. Given y_n such a θ_n is a draw of

.. math::
    q_r(\theta \mid y_n) = \frac{q(\theta \mid y_n)\, r(\theta) / p(\theta)}{g(y_n)}, \qquad
    g(y) = E_{q(\theta \mid y)} \frac{r(\theta)}{p(\theta)}

if q is the posterior; with :math:`r = q(\theta \mid y_o)` it is the posterior given both y_o and y_n. S draws of
q(θ|y_n) and θ_n itself, each with weight r/p, make the rank

.. math:: u_n = \frac{\sum_s w_s 1(\theta_s < \theta_n) + U_n w_n}{\sum_s w_s + w_n}, \qquad U_n \sim U(0, 1)

which is uniform, for any S and r, if q is exact: given the S + 1 points, each is θ_n with a probability in
proportion to its weight. The log score of q_r, with θ_n among the points of g so that it errs low, is a proper
score near y_o.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import kstest

from drystone._arrays import seed_of
from drystone.diagnostics.null import DOUBT
from drystone.estimate import Estimate

if TYPE_CHECKING:
    from drystone.posterior import StackedPosterior

__all__ = ["Change", "LocalCalibration", "local_calibration"]

# Rows at a time, whose draws are held in memory.
ROWS = 100


@dataclass(frozen=True, eq=False)
class LocalCalibration:
    """Calibration and log score of a posterior for data like those of one observation.

    Attributes:
        ranks: u_n of each parameter, (n, d), uniform if the posterior is exact there.
        log_score: log q_r(θ_n | y_n), (n,).
        log_normalizer: log g(y_n), (n,).
        effective: effective number of the weighted draws behind each rank, (n,).
        parameters: the names of θ.

    Example:
        >>> ranks, ones = np.random.default_rng(1).uniform(size=(200, 1)), np.ones(200)
        >>> found = LocalCalibration(ranks, 0 * ones, 0 * ones, ones, ("theta",))
        >>> found.p_value > 0.05
        True
    """

    ranks: np.ndarray = field(repr=False)
    log_score: np.ndarray = field(repr=False)
    log_normalizer: np.ndarray = field(repr=False)
    effective: np.ndarray = field(repr=False)
    parameters: tuple[str, ...]

    @property
    def p_values(self) -> np.ndarray:
        """Of the test of Kolmogorov and Smirnov that the ranks are uniform, for each parameter, (d,)."""
        return np.array([float(kstest(u, "uniform").pvalue) for u in self.ranks.T])

    @property
    def p_value(self) -> float:
        """The least of them times d, at most 1 (Bonferroni)."""
        return float(min(1.0, len(self.parameters) * self.p_values.min()))

    def __str__(self) -> str:
        p, n = self.p_value, len(self.ranks)
        if p >= DOUBT:
            return f"calibrated near the observation as far as {n} simulations can tell (p = {p:.2g})"
        worst = self.parameters[int(self.p_values.argmin())]
        return f"not calibrated near the observation, above all in {worst} (p = {p:.2g}, {n} simulations)"

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class Change:
    """What a refinement at one observation changed.

    Attributes:
        draws: of the posterior at the observation before, (S, d).
        simulations: how many new ones there were.
        gain: log score near the observation, after less before, in nats, with standard error.
        before: posterior SBC before, on new simulations that no member was trained on.
        after: posterior SBC after, on the same.

    Example:
        >>> ranks, ones = np.random.default_rng(1).uniform(size=(2, 200, 1)), np.ones(200)
        >>> before, after = (LocalCalibration(u, 0 * ones, 0 * ones, ones, ("theta",)) for u in ranks)
        >>> change = Change(np.zeros((100, 1)), 1000, Estimate(0.2, 0.05), before, after)
        >>> str(change)[:91]
        '1,000 further simulations near the observation: log score there +0.200 ± 0.050 nats on 200 '
    """

    draws: np.ndarray = field(repr=False)
    simulations: int
    gain: Estimate
    before: LocalCalibration
    after: LocalCalibration

    def __str__(self) -> str:
        return (
            f"{self.simulations:,} further simulations near the observation: log score there "
            f"{self.gain.value:+.3f} ± {self.gain.se:.3f} nats on {len(self.after.ranks)} held out; "
            f"before {self.before}, after {self.after}."
        )

    __repr__ = __str__


def local_calibration(
    posterior: StackedPosterior,
    theta: np.ndarray,
    y: np.ndarray,
    log_ratio: Callable[[np.ndarray], np.ndarray],
    *,
    draws: int = 200,
    seed: int = 0,
) -> LocalCalibration:
    """Return posterior SBC of a stacked posterior, with its local log score.

    Args:
        posterior: with draws and a density.
        theta: parameters (n, d), drawn from the proposal.
        y: their data, (n, ...), which no member was trained on.
        log_ratio: points (m, d) to log r(θ)/p(θ), (m,).
        draws: S.
        seed: same seed, same result.

    Example:
        >>> import drystone as ds, scipy.stats
        >>> posterior = ds.Stacking.uniform(["exact"], parameters=["theta"]).posterior([ds.toy.Gaussian(0, 1)])
        >>> rng = np.random.default_rng(1)
        >>> theta = rng.normal(1.0, 0.5, (200, 1))  # the proposal; the prior is N(0, 10)
        >>> y = rng.normal(0.9 * theta, 0.9**0.5)
        >>> normal = scipy.stats.norm.logpdf
        >>> def log_ratio(theta): return (normal(theta, 1, 0.5) - normal(theta, 0, 10**0.5))[:, 0]
        >>> found = local_calibration(posterior, theta, y, log_ratio)
        >>> found.p_value > 0.05
        True
    """
    n, d = theta.shape
    children = np.random.SeedSequence(seed, spawn_key=(7,)).spawn(1 + -(-n // ROWS))
    uniform = np.random.default_rng(children[0]).random((n, d))
    log_w_own = log_ratio(theta)
    log_q = np.asarray(posterior.log_prob_batched(theta, y))[0]
    ranks, log_total, effective = np.empty((n, d)), np.empty(n), np.empty(n)
    for start, child in zip(range(0, n, ROWS), children[1:], strict=True):
        rows = slice(start, start + ROWS)
        points = np.asarray(posterior.sample_batched((draws,), y[rows], seed=seed_of(child)), float)
        log_w = log_ratio(points.reshape(-1, d)).reshape(points.shape[:2])
        all_log_w = np.concatenate([log_w, log_w_own[None, rows]])
        highest = all_log_w.max(0)
        w = np.exp(all_log_w - highest)
        below = np.einsum("sn,snd->nd", w[:-1], (points < theta[rows]).astype(float))
        ranks[rows] = (below + uniform[rows] * w[-1][:, None]) / w.sum(0)[:, None]
        log_total[rows] = np.log(w.sum(0)) + highest
        effective[rows] = w[:-1].sum(0) ** 2 / np.maximum((w[:-1] ** 2).sum(0), np.finfo(float).tiny)
    log_normalizer = log_total - np.log(draws + 1)
    return LocalCalibration(
        ranks, log_q + log_w_own - log_normalizer, log_normalizer, effective, posterior.fit.parameters
    )
