"""Where to simulate near one observation, and the importance weights of what was simulated there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import as_numpy
from drystone.posterior import StackedPosterior
from drystone.simulation.prior import Prior
from drystone.simulation.support import Support
from drystone.training.member import TrainedMember

__all__ = ["LocalProposal", "capped_weights", "training_weights"]

# The prior's share δ of the proposal.
DEFENSIVE = 0.1
# Draws behind the share of the posterior that lies outside the prior's support.
DRAWS_OF_LEAK = 4000
# Draws per row behind g(y).
DRAWS_OF_G = 16


@dataclass(frozen=True, eq=False)
class LocalProposal:
    """r(θ) = (1 − δ) q(θ|y_o) 1(p > 0) + (δ + (1 − δ) λ) p(θ), in the place of a prior.

    λ is the share of q outside the support of p, whose draws are made from p instead; most posteriors have none.

    Attributes:
        posterior: q.
        y_o: the observation, (1, ...).
        prior: p(θ).
    """

    posterior: StackedPosterior
    y_o: np.ndarray
    prior: Prior

    @property
    def support(self) -> Support:
        """That of the prior."""
        return self.prior.support

    @cached_property
    def leak(self) -> float:
        """λ, estimated from draws of its own."""
        draws = np.asarray(self.posterior.sample((DRAWS_OF_LEAK,), self.y_o, seed=0), float)
        return float((~np.isfinite(self.prior.log_prob(draws))).mean())

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n draws, (n, d); those that leave the prior's support are drawn from the prior."""
        of_prior = self.prior.sample(n, rng)
        of_posterior = np.asarray(self.posterior.sample((n,), self.y_o, seed=int(rng.integers(2**62))), float)
        defensive = (rng.random(n) < DEFENSIVE) | ~np.isfinite(self.prior.log_prob(of_posterior))
        return np.where(defensive[:, None], of_prior, of_posterior)

    def log_prob(self, theta: ArrayLike) -> np.ndarray:
        """Return log r(θ) at points (m, d), (m,)."""
        points = np.asarray(as_numpy(theta), float)
        log_p = self.prior.log_prob(points)
        return np.where(np.isfinite(log_p), log_p + self.log_ratio(points), -np.inf)

    def log_ratio(self, theta: np.ndarray) -> np.ndarray:
        """Return log r(θ)/p(θ) at points (m, d), (m,), at least log δ; where p is 0, that."""
        log_p = self.prior.log_prob(theta)
        inside = np.isfinite(log_p)
        difference = np.full(len(theta), -np.inf)
        if inside.any():
            difference[inside] = self.posterior.log_prob(theta[inside], self.y_o) - log_p[inside]
        of_prior = DEFENSIVE + (1 - DEFENSIVE) * self.leak
        return np.logaddexp(np.log1p(-DEFENSIVE) + difference, np.log(of_prior))


def training_weights(
    before: StackedPosterior,
    posteriors: Sequence[TrainedMember],
    theta: np.ndarray,
    y: np.ndarray,
    old: int,
    proposal: LocalProposal,
    seed: int,
) -> np.ndarray:
    """Return a(θ_n) g(y_n) for old and new rows, (N + n,), with g by the heaviest posterior."""
    heaviest = max(posteriors, key=lambda member: before.member_weights[member.name])
    share = (len(theta) - old) / len(theta)

    def log_ratio(points: np.ndarray) -> np.ndarray:
        """Return log r_N/p: the new rows' share of r, the rest of p."""
        return np.logaddexp(np.log(share) + proposal.log_ratio(points), np.log1p(-share))

    draws = heaviest.sample(DRAWS_OF_G, y, seed=seed)
    log_g = np.logaddexp.reduce(log_ratio(draws.reshape(-1, theta.shape[1])).reshape(DRAWS_OF_G, -1), 0)
    return capped_weights(log_g - np.log(DRAWS_OF_G) - log_ratio(theta))


def capped_weights(log_w: np.ndarray) -> np.ndarray:
    """Return weights of mean one before they are capped at √N (truncated importance sampling, Ionides 2008)."""
    w = np.exp(log_w - log_w.max())
    return np.minimum(w / w.mean(), np.sqrt(len(w)))
