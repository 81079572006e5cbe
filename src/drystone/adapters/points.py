r"""Points at one y, and what each member says of them: where products of members are normalized.

.. math::
    r(\theta \mid y) = \delta \, p(\theta) + (1 - \delta) \sum_k s_k \, r_k(\theta \mid y)

r_k is a posterior member itself or, of a likelihood, the proposal that it is normalized with. Without a prior δ
is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logsumexp

from drystone._parallel import evaluating
from drystone.adapters.member import CheckedMember

__all__ = ["DEFENSIVE", "PointSource", "Values", "prior_of"]

# The prior's share δ of the points, which bounds every weight.
DEFENSIVE = 0.1


@dataclass(frozen=True, eq=False)
class Values:
    """What is known at points θ_m.

    Attributes:
        log_f: log q_k(θ_m | y), or log q_k(y | θ_m) of a likelihood, (K, m).
        log_prior: log p(θ_m), (m,), or None.
        log_r: log r(θ_m | y), (m,).
        log_z: log Z_k(y) of each member, (K,), if these are not all points of the row; None to estimate it here.
    """

    log_f: np.ndarray
    log_prior: np.ndarray | None
    log_r: np.ndarray
    log_z: np.ndarray | None = None

    def log_evidence(self, likelihood: np.ndarray) -> np.ndarray:
        """Return log Z_k = log (1/m) Σ_m p(θ_m) q_k(y|θ_m) / r(θ_m|y) of likelihoods, 0 of posteriors, (K, ...).

        Args:
            likelihood: which members are likelihoods, (K,) of bool.
        """
        if self.log_z is not None:
            return self.log_z
        log_z = np.zeros(self.log_f.shape[:-1])
        if self.log_prior is not None:
            with np.errstate(invalid="ignore"):  # the prior and r may both be 0
                base = np.where(self.log_prior == -np.inf, -np.inf, self.log_prior - self.log_r)
            for k in np.flatnonzero(likelihood):
                log_z[k] = logsumexp(base + self.log_f[k], axis=-1) - np.log(base.shape[-1])
        return log_z


@dataclass(frozen=True, eq=False)
class PointSource:
    """r(θ|y) at one y.

    Attributes:
        members: those whose values are asked for.
        shares: s, (K,), on the simplex, or all 0; members with share 0 propose no points.
        prior: p(θ), with ``log_prob(theta)`` and ``sample(n, rng)``, or None.
        y: the row, (1, ...).
    """

    members: Sequence[CheckedMember]
    shares: np.ndarray
    prior: Any
    y: np.ndarray

    @cached_property
    def _proposals(self) -> list[tuple[float, Any, list[int]]]:
        """Shares, proposals (None for a posterior, which is its own) and the members that they are of."""
        found: dict[int, tuple[float, Any, list[int]]] = {}
        for k in np.flatnonzero(self.shares).tolist():
            posterior: Any = self.members[k].posterior
            proposal = posterior.proposal(self.y) if self.members[k].is_likelihood else None
            # Likelihoods that were normalized together have one proposal, to be evaluated once.
            key = -k - 1 if proposal is None else id(proposal)
            share, _, members = found.get(key, (0.0, None, []))
            found[key] = share + float(self.shares[k]), proposal, [*members, k]
        return list(found.values())

    @property
    def are_likelihoods(self) -> np.ndarray:
        """Which members are likelihoods, (K,) of bool."""
        return np.array([member.is_likelihood for member in self.members])

    @property
    def defensive(self) -> float:
        """The prior's share δ: all points, if no member proposes any."""
        if self.prior is None:
            return 0.0
        return DEFENSIVE if self.shares.any() else 1.0

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n independent points, (n, d), in random order."""
        shares = np.array([self.defensive, *((1 - self.defensive) * share for share, _, _ in self._proposals)])
        counts = rng.multinomial(n, shares / shares.sum())
        parts = [self.prior.sample(int(counts[0]), rng)] if counts[0] else []
        for count, (_, proposal, members) in zip(counts[1:], self._proposals, strict=True):
            if count and proposal is not None:
                parts.append(proposal.sample(int(count), rng))
            elif count:
                parts.append(self.members[members[0]].sample(int(count), self.y, int(rng.integers(2**62)))[:, 0])
        return rng.permutation(np.concatenate(parts))

    def log_f(self, theta: np.ndarray) -> np.ndarray:
        """Return the log densities of the members at points (m, d): (K, m)."""
        y, values = np.repeat(self.y, len(theta), 0), np.empty((len(self.members), len(theta)))
        for k, member in enumerate(self.members):
            try:
                with evaluating(member.name):
                    values[k] = _values(member, theta, y)
            except Exception as error:
                raise RuntimeError(f"member {member.name!r}: {error}") from error
        return values

    def at(self, theta: np.ndarray) -> Values:
        """Return what is known at points (m, d)."""
        log_prior = None if self.prior is None else np.asarray(self.prior.log_prob(theta), float)
        log_f = self.log_f(theta)
        components, shares = [], []
        if log_prior is not None:
            components.append(log_prior)
            shares.append(self.defensive)
        for share, proposal, members in self._proposals:
            log_r = log_f[members[0]] if proposal is None else proposal.log_prob(theta, log_prior)
            components.append(log_r)
            shares.append((1 - self.defensive) * share)
        log_r = np.asarray(logsumexp(np.stack(components), axis=0, b=np.array(shares)[:, None]))
        return Values(log_f, log_prior, log_r)


def prior_of(prior: Any, members: Sequence[CheckedMember]) -> Any:
    """Return a prior in our conventions: the one given, else that of the first likelihood, else None."""
    if prior is not None:
        from drystone.simulation.prior import as_prior

        return as_prior(prior)
    likelihoods = [member.posterior for member in members if member.is_likelihood]
    return getattr(likelihoods[0], "prior", None) if likelihoods else None


def _values(member: CheckedMember, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
    values = member.log_likelihood(theta, y) if member.is_likelihood else member.log_prob(theta, y)
    if np.isnan(values).any() or (values == np.inf).any():
        raise ValueError(f"NaN or +inf at {int((~(values < np.inf)).sum())} of {len(values)} points.")
    return values
