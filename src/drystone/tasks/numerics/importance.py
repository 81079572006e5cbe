r"""Adaptive importance sampling with annealing: evidence and draws of a posterior from its formula alone.

The target is :math:`p(x)\,L(x)` with a normalized prior :math:`p` on :math:`\mathbb R^d`. The proposal

.. math::
    q(x) = (1 - \epsilon)\,t_\nu(x; m, C) + \epsilon\,p(x)

has tails heavier than the target's and never loses a region of the prior, so the weights
:math:`w = p\,L/q` are bounded by :math:`L/\epsilon`. Its :math:`m, C` are found by a ladder of flattened
targets :math:`p\,L^\beta`: each rung takes the largest power :math:`\beta` for which the draws at hand still
have a sufficient effective sample size, and fits the moments there. Where the ladder stalls, because a narrow
mode has next to no mass in a flattened target, a rung is fitted to the best draws instead, as in the cross-entropy
method.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from drystone.errors import ConvergenceWarning
from drystone.simulation.prior import Prior

__all__ = ["ImportanceSample", "Proposal", "anneal", "effective_size"]

Array = NDArray[np.float64]

DEGREES = 4.0  # ν: heavy tails, finite variance
DEFENSIVE = 0.1  # ε
INFLATION = 1.3  # of C, because a proposal too narrow costs more than one too wide
RUNG_DRAWS, MAX_RUNGS = 1000, 20
FINAL_DRAWS, MAX_DRAWS = 4000, 40_000  # of the last stage: as many as it takes for an effective size that is
ENOUGH = 1000  # enough for a log evidence to 0.03
RUNG_SIZE = 60  # effective draws that a rung must keep: enough for a covariance of up to five parameters
STALLED = 1.1  # a rung that raises the power by a smaller factor has not climbed
GOOD_SHARE = 0.25  # the ladder ends when the full target reaches this effective share,
FAIR_SHARE = 0.005  # or this one if it climbs no more: several modes, which no single hill fits better
FLOOR = -1e30  # stands for log 0, so that a power of it is still a number
POOR_SIZE = 100  # below this effective size of the last stage the log evidence errs by 0.1 or more: warn


@dataclass(frozen=True, eq=False)
class Proposal:
    r"""The mixture :math:`q = (1 - \epsilon)\,t_\nu(m, C) + \epsilon\,p`.

    Args:
        prior: The prior :math:`p`.
        mean: Location :math:`m`, shape (d,).
        cov: Scale matrix :math:`C`, shape (d, d).
    """

    prior: Prior
    mean: Array
    cov: Array

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw ``n`` points (n, d), a fixed share of them from the prior."""
        n_prior = round(DEFENSIVE * n)
        normal = rng.standard_normal((n - n_prior, self.mean.size)) @ np.linalg.cholesky(self.cov).T
        scale = np.sqrt(rng.chisquare(DEGREES, (n - n_prior, 1)) / DEGREES)
        return np.concatenate([self.mean + normal / scale, self.prior.sample(n_prior, rng)])

    def log_prob(self, x: Array) -> Array:
        """Evaluate the log density at each row of ``x`` (n, d); shape (n,)."""
        d, cholesky = self.mean.size, np.linalg.cholesky(self.cov)
        z = np.linalg.solve(cholesky, (x - self.mean).T)
        log_t = (
            gammaln((DEGREES + d) / 2)
            - gammaln(DEGREES / 2)
            - d / 2 * np.log(DEGREES * np.pi)
            - np.log(np.diag(cholesky)).sum()
            - (DEGREES + d) / 2 * np.log1p((z**2).sum(0) / DEGREES)
        )
        return np.logaddexp(np.log1p(-DEFENSIVE) + log_t, np.log(DEFENSIVE) + self.prior.log_prob(x))


@dataclass(frozen=True, eq=False)
class ImportanceSample:
    """A weighted sample of a posterior, with its proposal.

    Attributes:
        proposal: The proposal q.
        log_likelihood: The function log L, from (n, d) to (n,).
        x: Draws, shape (M, d).
        log_weights: Their unnormalized log weights, shape (M,).
    """

    proposal: Proposal
    log_likelihood: Callable[[Array], Array]
    x: Array
    log_weights: Array

    @property
    def log_evidence(self) -> float:
        r"""The estimate :math:`\log \frac1M\sum_m w_m` of the log evidence."""
        return float(np.logaddexp.reduce(self.log_weights) - np.log(len(self.x)))

    @property
    def moments(self) -> tuple[Array, Array]:
        """Posterior mean (d,) and covariance (d, d)."""
        return _moments(self.x, self.log_weights)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        r"""Draw ``n`` independent points (n, d) by rejection: accept with probability :math:`w/\max w`.

        The maximum is over the sample and all draws proposed so far; when a larger weight occurs, the earlier
        draws are accepted or rejected again with it. The points of the sample itself are the same in every call,
        so they are none of the draws.
        """
        largest = self.log_weights.max()
        # What the weights of the sample say of the acceptance rate.
        rate = float(np.exp(self.log_weights - largest).mean())
        x, log_w, log_u = np.empty((0, self.x.shape[1])), np.empty(0), np.empty(0)
        while (accepted := log_u < log_w - largest).sum() < n:
            # As many as are missing at this rate, and a tenth more.
            new = self.proposal.sample(int(1.1 * (n - accepted.sum()) / max(rate, 1e-3)) + 10, rng)
            x = np.concatenate([x, new])
            log_w = np.concatenate([log_w, _log_weights(self.proposal, new, self.log_likelihood(new))])
            log_u = np.concatenate([log_u, np.log(rng.random(len(new)))])
            largest = max(largest, log_w.max())
            rate = float((log_u < log_w - largest).mean())
        # Shuffled, because the proposal lists its t draws before its prior draws.
        return rng.permutation(x[accepted])[:n]


def anneal(
    prior: Prior,
    log_likelihood: Callable[[Array], Array],
    start: tuple[Array, Array],
    rng: np.random.Generator,
) -> ImportanceSample:
    r"""Return a weighted sample of the posterior, reached from the prior by annealing.

    Args:
        prior: The normalized prior :math:`p` of x.
        log_likelihood: The function :math:`\log L`, from (n, d) to (n,).
        start: Draws of the prior (M, d) and :math:`\log L` there (M,); the more, the shorter the ladder.
        rng: Random numbers.

    Returns:
        The sample. A small effective size is a :class:`~drystone.ConvergenceWarning`.
    """

    def floored(x: Array) -> Array:
        # A proposal far outside the prior may overflow the model; its weight is 0 in any case.
        with np.errstate(all="ignore"):
            return np.nan_to_num(log_likelihood(x), nan=FLOOR, posinf=FLOOR, neginf=FLOOR)

    def fitted(x: Array, log_weights: Array) -> Proposal:
        mean, cov = _moments(x, log_weights)
        # The small multiple of the unit matrix keeps a covariance of few effective draws invertible.
        return Proposal(prior, mean, INFLATION * cov + 1e-12 * np.eye(mean.size))

    x, log_l = start
    power = _next_power(np.zeros(len(x)), log_l, 0.0)
    proposal = best = fitted(x, power * log_l)
    best_share = 0.0
    for _ in range(MAX_RUNGS):
        x = proposal.sample(RUNG_DRAWS, rng)
        log_l, log_base = floored(x), _log_weights(proposal, x, 0.0)
        share = effective_size(log_base + log_l) / RUNG_DRAWS
        if share > best_share:
            best, best_share = proposal, share
        power, last = _next_power(log_base, log_l, power), power
        climbs = power > STALLED * last or last < power == 1.0
        if share > GOOD_SHARE or (share > FAIR_SHARE and not climbs):
            break
        if climbs:
            proposal = fitted(x, log_base + power * log_l)
        else:
            top = np.argsort(prior.log_prob(x) + log_l)[-RUNG_SIZE:]
            proposal = fitted(x[top], np.zeros(RUNG_SIZE))

    x, log_w = np.empty((0, x.shape[1])), np.empty(0)
    while len(x) < MAX_DRAWS and effective_size(log_w) < ENOUGH:
        new = best.sample(FINAL_DRAWS, rng)
        x, log_w = np.concatenate([x, new]), np.concatenate([log_w, _log_weights(best, new, floored(new))])
    if (size := effective_size(log_w)) < POOR_SIZE:
        warnings.warn(
            f"importance sampling of a posterior stopped with effective size {size:.0f} of {len(x)} draws; "
            f"its log evidence may err by {1 / np.sqrt(size):.1f} nats. Leave the data set out.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return ImportanceSample(best, floored, x, log_w)


def effective_size(log_weights: Array) -> float:
    r"""Count the draws that weights are worth, :math:`(\sum w)^2 / \sum w^2`.

    Example:
        >>> import numpy as np
        >>> effective_size(np.log([0.5, 0.5, 1e-9]))
        2.0000...
    """
    if not log_weights.size:
        return 0.0
    return float(np.exp(2 * np.logaddexp.reduce(log_weights) - np.logaddexp.reduce(2 * log_weights)))


def _log_weights(proposal: Proposal, x: Array, log_likelihood: Array | float) -> Array:
    """Evaluate log (p L / q)."""
    return proposal.prior.log_prob(x) + log_likelihood - proposal.log_prob(x)


def _next_power(log_base: Array, log_l: Array, power: float) -> float:
    """Find the largest power in [power, 1] that keeps the effective size, by bisection."""

    def large_enough(beta: float) -> bool:
        return effective_size(log_base + beta * log_l) >= RUNG_SIZE

    if large_enough(1.0):
        return 1.0
    low, high = power, 1.0
    # Powers span many decades (log L reaches -1e6), so the first halvings go by ratio, down to 2^-40.
    for _ in range(40):
        middle = high / 2 if low == 0.0 else (low + high) / 2
        low, high = (middle, high) if large_enough(middle) else (low, middle)
        if high - low < 0.05 * high:
            break
    return low


def _moments(x: Array, log_weights: Array) -> tuple[Array, Array]:
    """Return the weighted mean (d,) and covariance (d, d)."""
    w = np.exp(log_weights - np.logaddexp.reduce(log_weights))
    mean = w @ x
    return mean, ((x - mean) * w[:, None]).T @ (x - mean)
