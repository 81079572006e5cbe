r"""Where the points come from at which a posterior is normalized.

.. math::
    r(\theta \mid y) = \delta \, p(\theta)
    + (1 - \delta) \left[ \beta \, q(\theta \mid y) + (1 - \beta) \, t(\theta) \right]

q is the proposal that the user has (β = ½, or 0 without one), t a mixture of Student's t kernels fitted to
weighted pilot draws at this y, and the defensive share δ of the prior bounds every weight. Pilot draws are not
used again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from drystone._arrays import as_numpy
from drystone.likelihood.weights import effective_points, log_sum, normalized_weights, resampled
from drystone.simulation.prior import Prior

__all__ = ["DefensiveMixture", "Kernels", "Proposal", "adapted", "as_proposal", "weighted_mixture"]


@dataclass(frozen=True)
class Effort:
    """How hard the kernels are looked for.

    Attributes:
        pilot: draws per round.
        rounds: the most rounds.
        carrying: effective number of draws below which the weights are flattened (raised to a power below 1), so
            that a round goes only as far as its draws can tell.
        kernels: the most to begin with; those that few draws belong to are dropped.
        per_kernel: effective draws that each of them takes, in units of d: covariances out of fewer are noise.
        fitting: steps of expectation maximization in a round.
        share: effective number of draws, as a share of all, at which the kernels are good enough. While it is
            lower, the next round has twice as many draws, up to four times ``pilot``.
    """

    pilot: int
    rounds: int
    carrying: int
    kernels: int
    per_kernel: float
    fitting: int
    share: float


# A proposal is near the posterior already, and one small pilot mends it. From the prior it may be a long way, on
# which no mode should be lost.
FROM_PROPOSAL = Effort(pilot=500, rounds=3, carrying=50, kernels=12, per_kernel=0.1, fitting=5, share=0.0)
FROM_PRIOR = Effort(pilot=4000, rounds=24, carrying=400, kernels=24, per_kernel=5, fitting=8, share=0.1)
# The most draws that kernels are fitted to, and their degrees of freedom: tails heavier than a posterior's.
TELLING, FREEDOM = 4000, 5.0

Target = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Proposal:
    """A posterior to draw points from.

    Attributes:
        sample: number of draws, y (1, ...) and a seed to draws (n, d).
        log_prob: points (m, d) and y (1, ...) to log densities (m,).
    """

    sample: Callable[[int, np.ndarray, int], np.ndarray]
    log_prob: Callable[[np.ndarray, np.ndarray], np.ndarray]


def as_proposal(proposal: Any) -> Proposal | None:
    """Return what a user gives as a proposal: a stacked posterior, a member, several members, or None."""
    if proposal is None or isinstance(proposal, Proposal):
        return proposal
    if isinstance(proposal, Mapping):
        return weighted_mixture(list(proposal.values()))
    if isinstance(proposal, Sequence) or (hasattr(proposal, "names") and hasattr(proposal, "__getitem__")):
        return weighted_mixture(list(proposal))
    if hasattr(proposal, "sample_batched"):  # a stacked posterior, or one of sbi's kind
        return Proposal(
            lambda n, y, seed: as_numpy(proposal.sample((n,), x=y, seed=seed)),
            lambda theta, y: as_numpy(proposal.log_prob(theta, x=y)),
        )
    for name in ("sample", "log_prob"):
        if not hasattr(proposal, name):
            raise TypeError(
                "`proposal` must be a stacked posterior, a member with `sample` and `log_prob`, or several; got "
                f"{type(proposal).__name__} without `{name}`."
            )
    return weighted_mixture([proposal])


def weighted_mixture(members: Sequence[Any], weights: Sequence[float] | None = None) -> Proposal:
    """Return the mixture of members with these weights, which sum to one, or with equal ones."""
    w = np.full(len(members), 1 / len(members)) if weights is None else np.asarray(weights, float)

    def sample(n: int, y: np.ndarray, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(n, w)
        seeds = rng.integers(2**62, size=len(members))
        parts = [
            as_numpy(member.sample(int(count), y, seed=int(s)))[:, 0]
            for member, count, s in zip(members, counts, seeds, strict=True)
            if count
        ]
        return rng.permutation(np.concatenate(parts))

    def log_prob(theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        paired = np.repeat(y, len(theta), 0)
        log_q = np.stack([np.asarray(as_numpy(member.log_prob(theta, paired)), float) for member in members])
        return log_sum(log_q + np.log(w)[:, None])

    return Proposal(sample, log_prob)


@dataclass(frozen=True)
class Kernels:
    r"""A mixture of multivariate t distributions.

    .. math:: t(\theta) = \sum_j \alpha_j \, t_\nu(\theta; \mu_j, \Sigma_j)

    Attributes:
        shares: α, (J,), on the simplex.
        centers: μ, (J, d).
        roots: Cholesky factors of Σ, (J, d, d).
    """

    shares: np.ndarray
    centers: np.ndarray
    roots: np.ndarray

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n independent draws, (n, d)."""
        chosen = rng.choice(len(self.shares), size=n, p=self.shares)
        return self.centers[chosen] + self.steps(chosen, rng)

    def steps(self, chosen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return draws of the chosen components (n,) about their centers, (n, d)."""
        normal = rng.standard_normal((len(chosen), self.centers.shape[1]))
        stretch = np.sqrt(FREEDOM / rng.chisquare(FREEDOM, size=(len(chosen), 1)))
        return stretch * np.einsum("nij,nj->ni", self.roots[chosen], normal)

    def log_prob(self, theta: np.ndarray) -> np.ndarray:
        """Return the log density at points (m, d), (m,)."""
        whitened = np.linalg.inv(self.roots) @ (theta - self.centers[:, None]).swapaxes(1, 2)
        return log_sum(self._log_components((whitened**2).sum(1)))

    def fitted(self, theta: np.ndarray, w: np.ndarray, least: np.ndarray, steps: int) -> Kernels:
        """Return the kernels after steps of expectation maximization on points (m, d) with weights (m,).

        Distances and moments alike are linear in (1, θ, θθᵀ), and so are products of two matrices.

        Args:
            theta: the points.
            w: their weights, which sum to one.
            least: variances (d,) that keep a component from collapsing onto a few points.
            steps: how many.
        """
        d, origin = theta.shape[1], theta.mean(0)
        i, j = np.triu_indices(d)
        x = (theta - origin).T
        powers = np.concatenate([np.ones((1, len(theta))), x, x[i] * x[j]])
        kernels = replace(self, centers=self.centers - origin)
        for _ in range(steps):
            square = np.maximum(kernels._distances() @ powers, 0.0)
            log_density = kernels._log_components(square)
            share = w * np.exp(log_density - log_sum(log_density))
            total = share.sum(1)
            alive = total**2 / np.maximum((share**2).sum(1), np.finfo(float).tiny) > d + 1
            if not alive.any():
                break
            share, total, square = share[alive], total[alive], square[alive]
            near = share * (FREEDOM + d) / (FREEDOM + square)  # a t's points count by how near they are
            moments = near @ powers.T
            centers = moments[:, 1 : d + 1] / moments[:, :1]
            scatter = np.empty((len(total), d, d))
            scatter[:, i, j] = scatter[:, j, i] = moments[:, d + 1 :]
            scatter -= moments[:, :1, None] * centers[:, :, None] * centers[:, None]
            roots = np.linalg.cholesky(scatter / total[:, None, None] + np.diag(least))
            kernels = Kernels(total / total.sum(), centers, roots)
        return replace(kernels, centers=kernels.centers + origin)

    def _distances(self) -> np.ndarray:
        """Return squared distances from the centers as coefficients of (1, θ, θθᵀ), (J, 1 + d + d(d + 1)/2)."""
        inverse = np.linalg.inv(self.roots)
        precision = inverse.swapaxes(1, 2) @ inverse
        i, j = np.triu_indices(self.centers.shape[1])
        slope = -2 * np.einsum("jab,jb->ja", precision, self.centers)
        constant = -0.5 * np.einsum("ja,ja->j", slope, self.centers)
        return np.concatenate([constant[:, None], slope, precision[:, i, j] * np.where(i == j, 1, 2)], 1)

    def _log_components(self, square: np.ndarray) -> np.ndarray:
        """Return log α_j t_ν(θ; μ_j, Σ_j) at squared distances (J, m): (J, m)."""
        d = self.centers.shape[1]
        constant = gammaln((FREEDOM + d) / 2) - gammaln(FREEDOM / 2) - d / 2 * np.log(FREEDOM * np.pi)
        log_det = np.log(np.diagonal(self.roots, axis1=1, axis2=2)).sum(1)
        with np.errstate(divide="ignore"):
            height = np.log(self.shares) + constant - log_det
        return height[:, None] - (FREEDOM + d) / 2 * np.log1p(square / FREEDOM)


@dataclass(frozen=True)
class DefensiveMixture:
    """r(θ|y) at one y: the prior, the proposal and the kernels.

    Attributes:
        prior: p(θ).
        proposal: q(θ|y), or None.
        kernels: t(θ), or None before the first pilot.
        defensive: the prior's share δ.
        y: the row, (1, ...).
    """

    prior: Prior
    proposal: Proposal | None
    kernels: Kernels | None
    defensive: float
    y: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """Shares of the prior, the proposal and the kernels, (3,)."""
        others = np.array([0.0, self.proposal is not None, self.kernels is not None])
        if not others.any():
            return np.array([1.0, 0.0, 0.0])
        return np.array([self.defensive, 0.0, 0.0]) + (1 - self.defensive) * others / others.sum()

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n independent draws, (n, d), in random order."""
        counts = rng.multinomial(n, self.shares)
        parts = []
        if counts[0]:  # a prior of the user's need not know how to draw nothing
            parts.append(self.prior.sample(int(counts[0]), rng))
        if counts[1] and self.proposal is not None:
            parts.append(self.proposal.sample(int(counts[1]), self.y, int(rng.integers(2**62))))
        if counts[2] and self.kernels is not None:
            parts.append(self.kernels.sample(int(counts[2]), rng))
        return rng.permutation(np.concatenate(parts))

    def log_prob(self, theta: np.ndarray, log_prior: np.ndarray) -> np.ndarray:
        """Return log r at points (m, d) with the prior's log densities (m,) there, (m,)."""
        components = [log_prior]
        if self.proposal is not None:
            components.append(self.proposal.log_prob(theta, self.y))
        if self.kernels is not None:
            components.append(self.kernels.log_prob(theta))
        shares = self.shares[self.shares > 0]
        return log_sum(np.stack(components) + np.log(shares)[:, None])


def adapted(mixture: DefensiveMixture, target: Target, rng: np.random.Generator) -> DefensiveMixture:
    """Return the mixture with kernels fitted to weighted pilot draws (adaptive importance sampling).

    Each round draws from the mixture so far and refits the kernels by expectation maximization (Cappé et al.
    2008). Rounds end once the weights need no flattening.

    Args:
        mixture: to begin with.
        target: points (m, d) to log densities (m,), up to a constant.
        rng: of the pilot draws.
    """
    effort = FROM_PRIOR if mixture.proposal is None else FROM_PROPOSAL
    draws = effort.pilot
    for _ in range(effort.rounds):
        theta = mixture.sample(draws, rng)
        log_prior = mixture.prior.log_prob(theta)
        inside = np.isfinite(log_prior)
        if not inside.any():
            continue
        theta, log_prior = theta[inside], log_prior[inside]
        log_w = target(theta) - mixture.log_prob(theta, log_prior)
        if not np.isfinite(log_w).any():
            continue
        power = _flattening(log_w, effort.carrying)
        kernels = _kernels(theta, normalized_weights(power * log_w), effort, rng)
        adequate = effective_points(log_w) >= effort.share * len(log_w)
        begun = mixture.kernels is not None or mixture.proposal is not None
        mixture = replace(mixture, kernels=kernels)
        if power == 1.0 and begun:
            if adequate:
                break
            draws = min(2 * draws, 4 * effort.pilot)
    return mixture


def _flattening(log_w: np.ndarray, carrying: int) -> float:
    """Return the largest power ≤ 1 at which enough draws carry the weights (bisection)."""
    finite = log_w[np.isfinite(log_w)]
    enough = min(carrying, 0.5 * len(finite))
    if effective_points(finite) >= enough:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if effective_points(middle * finite) >= enough else (low, middle)
    return low


def _kernels(theta: np.ndarray, w: np.ndarray, effort: Effort, rng: np.random.Generator) -> Kernels:
    """Return kernels for weighted draws: begun at draws resampled by weight, then fitted."""
    d = theta.shape[1]
    n = int(np.clip(1 / (w**2).sum() / (effort.per_kernel * d), 1, effort.kernels))
    centered = theta - w @ theta
    # A direction in which the carrying draws do not vary keeps a trace of the pilot's own spread.
    floor = 1e-8 * np.maximum(theta.var(0), np.finfo(float).tiny)
    covariance = (w[:, None] * centered).T @ centered + np.diag(floor)
    bandwidth = min(1.0, (4 * (w**2).sum() / (d + 2)) ** (1 / (d + 4)))
    root = bandwidth * np.linalg.cholesky(covariance)
    kernels = Kernels(np.full(n, 1 / n), theta[resampled(w, n, rng)], np.repeat(root[None], n, 0))
    least = floor + 1e-4 * np.diag(covariance)
    # Draws that carry next to nothing would only cost time, and some thousands of the others are enough.
    telling = np.flatnonzero(w > 1e-3 * w.max())[:TELLING]
    return kernels.fitted(theta[telling], w[telling] / w[telling].sum(), least, effort.fitting)
