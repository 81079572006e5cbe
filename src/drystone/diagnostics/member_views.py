r"""What the members with weight say of rows of data: their means and spreads, and how far they are apart.

.. math::
    \mathrm{JS}(y) = \sum_k w_k \, E_{q_k} \log \frac{q_k(\theta|y)}{\sum_j w_j q_j(\theta|y)}

from S draws of each member, the same number at every row, so that rows can be held against each other. Means and
spreads are cheaper than densities, and come from more draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from drystone.errors import IntractableError
from drystone.estimate import Estimate

if TYPE_CHECKING:
    from drystone.adapters.member import CheckedMember
    from drystone.posterior import StackedPosterior

__all__ = ["MemberViews", "heaviest_members", "likelihoods_by_weight", "member_views"]

# The heaviest members are asked, so many of them; they carry most of the weight.
MEMBERS = 8
# Draws per member and row: for means and spreads, and those of them at which densities are compared.
DRAWS, COMPARED = 500, 100
# Values of y that are handed to a member at once.
VALUES = 4_000_000
# Added to a standard deviation of 0 before its logarithm.
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class MemberViews:
    """What members say of n rows.

    Attributes:
        names: of the members with draws and densities.
        summaries: mean and log standard deviation of every parameter by each member with draws, (n, features).
        means: mean of every parameter, averaged over these members, (n, d).
        differences: of each of these members but the last from their average, in the means, in units of the
            average spread, and in the log standard deviations, (n, features).
        divergence: Jensen–Shannon divergence in nats among members with draws and densities, (n,); None if there
            are fewer than two.
        error: its standard error, (n,), or None.
        between_kinds: the same between posteriors and likelihoods, (n,); None unless both have weight.
    """

    names: tuple[str, ...]
    summaries: np.ndarray
    means: np.ndarray
    differences: np.ndarray
    divergence: np.ndarray | None
    error: np.ndarray | None
    between_kinds: np.ndarray | None

    def estimate(self, row: int = 0) -> Estimate:
        """Return the divergence at a row with its standard error."""
        if self.divergence is None or self.error is None:
            return Estimate(np.nan, np.nan)
        return Estimate(float(self.divergence[row]), float(self.error[row]))


def heaviest_members(posterior: StackedPosterior, y: np.ndarray) -> list[int]:
    """Return the positions of the members with most weight at the rows of y, of those that can be drawn from."""
    average = _weights_at(posterior, y).mean(0)
    order = [int(k) for k in np.argsort(-average, kind="stable") if average[k] > 0]
    return [k for k in order if posterior.members[k].has("sample")][:MEMBERS]


def likelihoods_by_weight(posterior: StackedPosterior, y: np.ndarray) -> list[int]:
    """Return the positions of members that are normalized likelihoods, with weight or not, the heaviest first."""
    order = (int(k) for k in np.argsort(-_weights_at(posterior, y).mean(0), kind="stable"))
    members = posterior.members
    return [k for k in order if members[k].normalized_in_y and members[k].has("log_evidence")][:MEMBERS]


def member_views(posterior: StackedPosterior, chosen: Sequence[int], y: np.ndarray, seed: int) -> MemberViews:
    """Return what some members say of the rows of y.

    Args:
        posterior: whose members they are.
        chosen: their positions, the same for all rows that are held against each other.
        y: data, (n, ...).
        seed: of the draws.
    """
    members = [posterior.members[k] for k in chosen]
    weights = _weights_at(posterior, y)[:, list(chosen)].T
    size = max(1, VALUES // (COMPARED * max(len(members), 1) * max(int(np.prod(y.shape[1:])), 1)))
    starts = range(0, len(y), size)
    seeds = np.random.default_rng([seed, len(y)]).integers(2**62, size=(len(starts), len(members)))
    blocks = [
        _block(members, weights[:, start : start + size], y[start : start + size], of_block)
        for start, of_block in zip(starts, seeds, strict=True)
    ]

    def joined(i: int) -> np.ndarray | None:
        parts = [part for block in blocks if (part := block[i]) is not None]
        return np.concatenate(parts) if parts else None

    summaries = joined(0)
    return MemberViews(
        tuple(member.name for member in members if member.has("log_prob")),
        np.zeros((len(y), 0)) if summaries is None else summaries,
        *((np.zeros((len(y), 0)),) * 2 if summaries is None else _means_and_differences(summaries, len(members))),
        *(joined(i) for i in (1, 2, 3)),
    )


def _means_and_differences(summaries: np.ndarray, K: int) -> tuple[np.ndarray, np.ndarray]:
    """Return averages over K members, (n, d), and differences from them, (n, features), of their summaries."""
    n = len(summaries)
    means, log_spreads = np.moveaxis(summaries.reshape(n, K, 2, -1), 2, 0)  # (n, K, d) each
    average, log_spread = means.mean(1), log_spreads.mean(1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shifts = (means - average[:, None]) / np.exp(log_spread)
    # The last differences are those of all others together, with the sign reversed: they would say nothing new.
    return average, np.concatenate([shifts, log_spreads - log_spread], -1)[:, :-1].reshape(n, -1)


def _weights_at(posterior: StackedPosterior, y: np.ndarray) -> np.ndarray:
    """Return the weights of all members at the rows of y, (n, K); equal ones of forms without a set of weights."""
    fit = posterior.fit
    try:
        weights = fit.form.weights_at(fit.params, y)
    except IntractableError:
        weights = np.zeros(len(fit.names))
        weights[fit.form.active_members(fit.params)[0]] = 1.0
    return np.abs(np.broadcast_to(weights, (len(y), len(fit.names))))


_Block = tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None, np.ndarray | None]


def _block(members: Sequence[CheckedMember], weights: np.ndarray, y: np.ndarray, seeds: np.ndarray) -> _Block:
    """Return summaries, divergence, its standard error and the divergence between kinds at a block of rows."""
    if not members:
        return None, None, None, None
    draws, parts = [], []
    for member, seed in zip(members, seeds, strict=True):
        # A likelihood has weighted points, whose moments are more precise than those of draws out of them.
        weighted = getattr(member.posterior, "weighted_points", None)
        sample = np.asarray(member.sample(DRAWS if weighted is None else COMPARED, y, int(seed)), float)
        mean, spread = (sample.mean(0), sample.std(0)) if weighted is None else _moments(weighted(y))
        draws.append(sample[:COMPARED])
        parts += [mean, np.log(spread + TINY)]
    summaries = np.concatenate(parts, -1)
    able = [k for k, member in enumerate(members) if member.has("log_prob")]
    if len(able) < 2:
        return summaries, None, None, None
    points = np.stack([draws[k] for k in able])  # (K, S, n, d)
    shape = points.shape[:-1]
    paired = np.broadcast_to(y, (*shape[:2], *y.shape)).reshape(-1, *y.shape[1:])
    flat = points.reshape(-1, points.shape[-1])
    # log q_j at the draws of k: (K, K, S, n).
    log_q = np.stack([members[k].log_prob(flat, paired).reshape(shape) for k in able])
    divergence, error = _jensen_shannon(log_q, weights[able])
    likelihood = np.array([members[k].is_likelihood for k in able])
    both = likelihood.any() and not likelihood.all()
    return summaries, divergence, error, _between(log_q, weights[able], likelihood) if both else None


def _moments(rows: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations, (n, d) each, of points (m, d) with weights (m,) at n rows."""
    means, spreads = [], []
    for points, w in rows:
        means.append(w @ points)
        spreads.append(np.sqrt(w @ (points - means[-1]) ** 2))
    return np.stack(means), np.stack(spreads)


def _jensen_shannon(log_q: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Σ_k w_k E_k [log q_k − log Σ_j w_j q_j] and its standard error, (n,), (n,).

    Args:
        log_q: log q_j at the draws of k, (K, K, S, n): j leads.
        weights: (K, n), ≥ 0.
    """
    w = _shares(weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        mixture = logsumexp(log_q, axis=0, b=w[:, None, None])
        own = np.moveaxis(np.diagonal(log_q, axis1=0, axis2=1), -1, 0)
        ratio = own - mixture
    # Draws on the edge of a support, where a density is 0 by rounding, say nothing.
    ratio = np.where(np.isfinite(ratio), ratio, 0.0)
    S = ratio.shape[1]
    value = (w * ratio.mean(1)).sum(0)
    return value, np.sqrt((w**2 * ratio.var(1, ddof=1) / S).sum(0))


def _between(log_q: np.ndarray, weights: np.ndarray, likelihood: np.ndarray) -> np.ndarray:
    """Return the Jensen–Shannon divergence between the mixtures of the two kinds of members, (n,)."""
    groups = [np.flatnonzero(likelihood == kind) for kind in (False, True)]
    shares = [_shares(weights[group]) for group in groups]
    with np.errstate(divide="ignore", invalid="ignore"):
        pairs = zip(groups, shares, strict=True)
        log_g = np.stack([np.asarray(logsumexp(log_q[g], axis=0, b=w[:, None, None])) for g, w in pairs])
        ratio = log_g - logsumexp(log_g, axis=0, b=0.5)  # (2, K, S, n)
    ratio = np.where(np.isfinite(ratio), ratio, 0.0).mean(2)
    halves = [(w * ratio[i, group]).sum(0) for i, (group, w) in enumerate(zip(groups, shares, strict=True))]
    return 0.5 * (halves[0] + halves[1])


def _shares(weights: np.ndarray) -> np.ndarray:
    """Return weights (K, n) that sum to one over members; equal ones where none of them has any."""
    total = weights.sum(0)
    return np.where(total > 0, weights / np.where(total > 0, total, 1.0), 1 / len(weights))
