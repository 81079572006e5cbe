r"""Log-linear pool: the product of members, each to a power (Genest & Zidek 1986)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from drystone.adapters.points import Values
from drystone.errors import SamplingError
from drystone.forms.form import Arrays, MemberLike
from drystone.forms.mixture import draw_mixture
from drystone.forms.params import check_simplex
from drystone.forms.points import PointForm
from drystone.table import Table, blocks

__all__ = ["Product", "log_ratio"]

# Share of accepted draws below which rejection from the mixture gives up.
LEAST_ACCEPTED = 1e-3


@dataclass(frozen=True, repr=False)
class Product(PointForm):
    r"""q*(θ|y) ∝ p(θ)^{1 − Σw} Π_k q_k(θ|y)^{w_k}, w ≥ 0.

    Of likelihoods that is :math:`p(\theta) \prod_k q_k(y \mid \theta)^{w_k}`, and the two may be mixed. A product
    is sharper than its members where their errors are independent, which no mixture is; it needs the prior
    (``simplex=True`` does not).

    In a plain product every member has a veto: where one of them has next to no density, so has the product,
    whatever the others say. So each member is first mixed with the prior, :math:`(1 - \eta)\, q_k + \eta\, p`.
    Where it is lost it takes away at most :math:`w_k \log(1/\eta)` nats. Elsewhere little changes: where no member
    is ever lost, ``defensive=0`` may be better by a hundredth of a nat.

    The log score is concave in w, given the points at which the product is normalized
    (``ds.tabulate(..., points=1000, prior=...)``): the fit is the optimum there, with a certificate. Its notes
    state the Monte Carlo error of the points.

    Args:
        simplex: hold Σw = 1, so that the prior cancels. Draws are then exact, by rejection from the mixture with
            the same weights: :math:`\prod q_k^{w_k} \le \sum w_k q_k`, and no member is mixed with the prior.
        defensive: share η of the prior in every member; 0 for the plain product.
        prior: p(θ) at new data, as for :func:`drystone.normalize`; None for that of the members that are
            likelihoods. Uniform, normal and log-normal priors are stored with the fit, others are code.

    Example:
        >>> import drystone as ds
        >>> theta, y = ds.toy.simulate(50, seed=1)
        >>> prior = ds.tasks.Normal([0.0], [10**0.5])
        >>> table = ds.tabulate(ds.toy.MEMBERS, theta, y, draws=0, points=100, prior=prior)
        >>> fit = ds.stack(table, ds.Product(prior=prior))
        >>> fit.gap < 1e-6, fit.loss < ds.stack(table).loss
        (True, True)
    """

    simplex: bool = False
    defensive: float = 1e-4

    def __post_init__(self) -> None:
        if not 0 <= self.defensive < 1:
            raise ValueError(f"`defensive` must be in [0, 1); got {self.defensive}.")

    @property
    def prior_share(self) -> float:
        """The share η that is in use: 0 where the prior is not."""
        return 0.0 if self.simplex else self.defensive

    @property
    def positive(self) -> bool:
        """Whether each member has a share of the prior."""
        return self.prior_share > 0

    @property
    def needs_prior(self) -> bool:
        """Whether the prior must be known at new data: unless it cancels."""
        return not self.simplex

    def log_target(self, weights: np.ndarray, values: Values, likelihood: np.ndarray) -> np.ndarray:
        """Return log p + Σ_k w_k G_k with the log ratios G of members to the prior; the sum alone without one."""
        if self.prior_share:
            values = replace(values, log_z=values.log_evidence(likelihood))
        total = np.zeros(values.log_f.shape[1:]) if values.log_prior is None else values.log_prior.copy()
        for k in np.flatnonzero(weights).tolist():
            total += weights[k] * log_ratio(k, values, likelihood, self.prior_share)
        return total

    def check_params(self, params: Arrays, K: int, d: int) -> None:
        """Raise ``ValueError`` unless there are K weights ≥ 0 that, with ``simplex``, sum to one."""
        super().check_params(params, K, d)
        if self.simplex:
            check_simplex("weights", params["weights"])

    def check_table(self, table: Table) -> None:
        """Raise if the prior is not known at the shared points, and the product needs it."""
        if self.needs_prior and "log_prior" not in blocks.point_arrays(table):
            raise ValueError(
                "without the prior at the shared points only Product(simplex=True) can be fitted: the table has "
                "no `log_prior`. Tabulate with ds.tabulate(..., points=1000, prior=...)."
            )

    def draw(
        self,
        params: Arrays,
        members: Sequence[MemberLike],
        n: int,
        y: np.ndarray,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, None]:
        """Return n draws per row of y, (n, B, d): exact where the prior cancels, of resampled points otherwise."""
        weights, used, prior = self._in_use(params, members)
        if not self._without_prior(weights, used):
            return super().draw(params, members, n, y, rng)
        return _rejected(weights / weights.sum(), used, prior, n, y, rng), None

    def _check_prior(self, weights: np.ndarray, members: Sequence[Any], prior: Any) -> None:
        if not self._without_prior(weights, members):
            super()._check_prior(weights, members, prior)

    def _without_prior(self, weights: np.ndarray, members: Sequence[Any]) -> bool:
        """Return whether the product is Π q_k^{w_k} with Σw = 1, so that the prior cancels."""
        posteriors = not any(member.is_likelihood for member in members)
        return not self.prior_share and posteriors and abs(weights.sum() - 1) <= 1e-9


def log_ratio(k: int, values: Values, likelihood: np.ndarray, share: float) -> np.ndarray:
    r"""Return G_k = log q_k(θ|y) − log p(θ), up to a term in y, (...): log q_k(y|θ) of a likelihood.

    With a share η of the prior in the member it is :math:`\log((1 - \eta)\, q_k / p + \eta)`, and log η of a
    likelihood that no point explains. Where the prior is 0 it is 0, since there the product is 0 whatever a member
    that leaks says; without a prior it is log q_k.
    """
    log_f, log_prior = values.log_f[k], values.log_prior
    if log_prior is None:
        return log_f
    inside = np.isfinite(log_prior)
    ratio = log_f if likelihood[k] else log_f - np.where(inside, log_prior, 0.0)
    if share:
        log_z = values.log_evidence(likelihood)[k][..., None]
        explained = np.isfinite(log_z)
        ratio = np.where(explained, np.log1p(-share) + ratio - np.where(explained, log_z, 0.0), -np.inf)
        ratio = np.logaddexp(ratio, np.log(share))
    return np.where(inside, ratio, 0.0)


def _rejected(
    w: np.ndarray,
    members: Sequence[Any],
    prior: Any,
    n: int,
    y: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return n exact draws per row of y, (n, B, d): the mixture's, accepted with Π q_k^{w_k} / Σ w_k q_k.

    Of members that leak out of the prior none lies outside it, where the density is 0.
    """
    accepted: list[list[np.ndarray]] = [[] for _ in y]
    wanting, proposed, size = np.arange(len(y)), 0, n + n // 2 + 8
    while wanting.size:
        theta, _ = draw_mixture(w, members, size, y[wanting], rng)
        flat = theta.reshape(-1, theta.shape[2])
        paired = np.broadcast_to(y[wanting], (size, *y[wanting].shape)).reshape(len(flat), *y.shape[1:])
        log_q = np.stack([member.log_prob(flat, paired) for member in members])
        with np.errstate(invalid="ignore"):
            log_acceptance = w @ log_q - logsumexp(log_q, axis=0, b=w[:, None])
        if prior is not None:
            log_acceptance[prior.log_prob(flat) == -np.inf] = -np.inf
        keep = (np.log(rng.random(len(flat))) < log_acceptance).reshape(size, len(wanting))
        for column, b in enumerate(wanting):
            accepted[b].extend(theta[keep[:, column], column])
        proposed += size
        counts = np.array([len(of_row) for of_row in accepted])
        poor = counts[wanting] < LEAST_ACCEPTED * proposed
        if proposed > 10 / LEAST_ACCEPTED and poor.any():
            raise SamplingError(
                f"the product accepts fewer than {LEAST_ACCEPTED:.1%} of the draws of its mixture at "
                f"{poor.sum()} of {len(y)} rows of y: its members contradict each other there."
            )
        wanting = np.flatnonzero(counts < n)
    return np.stack([np.stack(of_row[:n]) for of_row in accepted], 1)
