r"""Mixture of densities with one set of weights (Sec. 2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from scipy.special import logsumexp
from torch import Tensor

from drystone.forms import distances
from drystone.forms.form import Arrays, MemberLike
from drystone.forms.independent import (
    MOST_STAND_INS,
    MomentStandIns,
    QuantileStandIns,
    choose_members,
    mixing_order,
    next_draws,
    row_keys,
    thin_ranks,
)
from drystone.forms.quantiles import POINTS, SOFT_POINTS, pool_lines, pool_steps
from drystone.forms.screening import hopeless_members
from drystone.forms.simplex import SimplexForm
from drystone.forms.stratified import allocate, pool
from drystone.forms.view import Params, View
from drystone.table import Statistic, Table, blocks

__all__ = ["Mixture", "MixtureView", "draw_mixture", "mixture_log_prob"]


@dataclass(frozen=True, repr=False)
class Mixture(SimplexForm):
    r"""q*(θ|y) = Σ_k w_k q_k(θ|y), w on the simplex.

    Density, distribution function (hence rank) and raw moments are linear in w: that is why exact solvers
    exist.

    Args:
        concentration: of a symmetric Dirichlet prior on w. Above 1 it regularizes: each member gets
            ``concentration − 1`` rows that only it explains, and no weight is exactly 0.

    Example:
        >>> Mixture(concentration=1.5)
        Mixture(concentration=1.5)
    """

    gives: ClassVar = frozenset({"log_q", "rank", "mean", "moments", "interval", "draws"})
    is_mixture: ClassVar = True
    concentration: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.concentration < np.inf:
            raise ValueError(
                f"`concentration` must be ≥ 1, or the Dirichlet density is unbounded; got {self.concentration}."
            )

    def combine(self, params: Params, table: Table, softness: Tensor | float = 0.0) -> MixtureView:
        """Return the mixture on the rows of ``table``."""
        return MixtureView(params["weights"], table, softness)

    def penalised(self, factor: float) -> Mixture:
        """Return the form with a prior worth ``factor`` times as many rows."""
        return replace(self, concentration=1 + factor * (self.concentration - 1))

    def pseudocount(self, table: Table) -> float:
        """Return c of the penalty −c Σ_k log w_k: ``concentration − 1`` rows, in units of the (effective) row."""
        return float(self.concentration - 1) / table.effective_rows

    def hopeless_members(self, table: Table) -> np.ndarray:
        """Return the members far out of the parameters' range; none under a prior, which gives all some weight."""
        return hopeless_members(table) if self.concentration == 1 else super().hopeless_members(table)

    def fit_notes(self, table: Table) -> list[str]:
        """Return a warning of too few rows, if nothing steadies the weights."""
        if table.N >= table.K or self.concentration > 1:
            return []
        return [
            f"N = {table.N} rows for K = {table.K} members: the weights may overfit. More simulations, or "
            "Mixture(concentration=1.1), would steady them."
        ]

    def draw(
        self,
        params: Arrays,
        members: Sequence[MemberLike],
        n: int,
        y: np.ndarray,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return stratified draws, and the member each came from; members without weight are never asked."""
        return draw_mixture(params["weights"], members, n, y, rng)

    def log_prob(
        self, params: Arrays, members: Sequence[MemberLike], theta: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        """Return log Σ_k w_k q_k(θ_n | y_n), (N,)."""
        return mixture_log_prob(params["weights"], members, theta, y)


class MixtureView(View):
    """Statistics of a mixture, linear in the weights (but for the covariance's −μμᵀ).

    Args:
        weights: one set for all rows, (K,), or one per row, (N, K).
        table: the members on the rows.
        softness: see :class:`View`.
    """

    def __init__(self, weights: Tensor, table: Table, softness: Tensor | float = 0.0) -> None:
        super().__init__(table, softness)
        self.weights = weights

    def mix(self, statistic: Tensor) -> Tensor:
        """Return Σ_k w_k statistic_k: (K, N, ...) → (N, ...)."""
        if self.weights.ndim == 1:
            return torch.tensordot(self.weights, statistic, 1)
        return torch.einsum("nk,kn...->n...", self.weights, statistic)

    def log_q(self) -> Tensor:
        """Return log Σ_k w_k q_k = m + log Σ_k w_k exp(log q_k − m), m = max_k log q_k: finite if any q_k is."""
        highest, ratio = blocks.cached(self.table, _ratios)
        return highest + torch.log(self.mix(ratio))

    def rank(self, statistic: Statistic | None = None) -> Tensor:
        """Return r = Σ_k w_k r_k."""
        return self.mix(torch.as_tensor(self.table.rank if statistic is None else self.table.rank_of(statistic)))

    def mean(self) -> Tensor:
        """Return μ = Σ_k w_k μ_k, (N, d)."""
        return self.theta - self.error()

    def error(self) -> Tensor:
        """Return θ − μ = −Σ_k w_k δ_k with δ_k = μ_k − θ, (N, d)."""
        return -self.mix(blocks.cached(self.table, _offsets))

    def cov(self) -> Tensor:
        """Return V = Σ_k w_k (V_k + δ_k δ_kᵀ) − δδᵀ with δ = Σ_k w_k δ_k, (N, d, d)."""
        delta = self.mix(blocks.cached(self.table, _offsets))
        return self.mix(blocks.cached(self.table, _second_moments)) - delta[:, :, None] * delta[:, None, :]

    def interval(self, alpha: float) -> Tensor:
        """Return quantiles of the mixture, whose distribution function is that of the members' points, mixed."""
        levels = (alpha / 2, 1 - alpha / 2)
        if self.table.K == 1 and not self.softness.any():
            return torch.stack([torch.as_tensor(self.table.quantile(level)[0]) for level in levels], -1)
        if self.softness.any():
            return blocks.cached(self.table, pool_steps, SOFT_POINTS).quantiles(self.weights, levels)
        return blocks.cached(self.table, pool_lines, POINTS, levels).quantiles(self.weights, levels)

    def distances(self, most: int, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Return Σ_k w_k A_k and Σ_jk w_j w_k B_jk."""
        if self.weights.ndim == 2:
            to_truth, spread = self.distances_by_row(most, scale)
            return self.average(to_truth), self.average(spread)
        to_truth, between = distances.averages(self.table, most, tuple(scale.tolist()))
        return self.weights @ to_truth, self.weights @ between @ self.weights

    def distances_by_row(self, most: int, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Return the same for each row."""
        to_truth = distances.to_truth(self.table, tuple(scale.tolist()))
        return self.mix(to_truth), distances.spread(self.table, self.weights, most, scale)

    def draws(self, n: int | None = None, seed: int = 0) -> Tensor:
        """Return stratified draws of the mixture out of the members' draws, shuffled within each row."""
        rng = np.random.default_rng(seed)
        source, S = self.table.draws, int(self.table.draws.shape[2])
        n = S if n is None else n
        counts = allocate(self.weights.numpy(), n, self.table.N, rng)
        if counts.max() > S:
            raise ValueError(
                f"{n} draws of the mixture need {counts.max()} of one member; the table holds {S}. Ask for fewer."
            )
        order = mixing_order(S)
        pooled = pool(counts, lambda k, rows, m: np.moveaxis(np.asarray(source[k])[rows][:, order[:m]], 1, 0), rng)
        return torch.as_tensor(pooled.swapaxes(0, 1))

    def independent_draws(self, seed: int = 0) -> Tensor:
        """Return as many independent draws of the mixture as each member has, out of the members' draws."""
        draws = blocks.sliced_draws(self.table)
        return torch.as_tensor(next_draws(self._chosen(int(draws.shape[2]), seed), draws))

    def independent_rank(self, seed: int = 0) -> Tensor:
        """Return the ranks among such draws from the members' ranks; Σ_k w_k r_k if S is not known."""
        if self.S is None:
            return self.rank()
        chosen = self._chosen(self.S, seed)
        return torch.as_tensor(thin_ranks(self.table.rank, self.S, chosen, self._keys, seed))

    def independent_moments(self, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Return θ − μ and V of such draws from the members' moments; of all draws if S is not known, or large."""
        table, S = self.table, self.S
        if S is None or not self.d + 2 <= S <= MOST_STAND_INS or table.K == 1:
            return self.error(), self.cov()
        shown = self._shown(MomentStandIns(table.mean, table.cov, self._keys, S, seed), S, seed)
        return shown.error(), shown.cov()

    def independent_interval(self, alpha: float, seed: int = 0) -> Tensor:
        """Return intervals of such draws from the members' quantiles; of all draws if S is not known, or large."""
        table, S = self.table, self.S
        ends = self.interval(alpha)  # refuses too few levels
        if S is None or not 2 <= S <= MOST_STAND_INS or table.K == 1:
            return ends
        quantiles = np.stack([table.quantile(level) for level in table.levels])
        stand_ins = QuantileStandIns(np.array(table.levels), quantiles, self._keys, S, seed)
        return self._shown(stand_ins, S, seed).interval(alpha)

    def _shown(self, stand_ins: MomentStandIns | QuantileStandIns, S: int, seed: int) -> MixtureView:
        """Return S draws of the mixture out of its members' stand-ins, as the one member of a table."""
        draws = next_draws(self._chosen(S, seed), stand_ins)
        one = Table(self.table.theta, draws=draws[None], row_weights=self.table.row_weights)
        return MixtureView(torch.ones(1, dtype=torch.float64), one)

    def _chosen(self, S: int, seed: int) -> np.ndarray:
        return choose_members(self.weights.detach().numpy(), self._keys, S, seed)

    @property
    def _keys(self) -> np.ndarray:
        return blocks.cached(self.table, row_keys)


def _ratios(table: Table) -> tuple[Tensor, Tensor]:
    """Return max_k log q_k, (N,), and q_k / max_k q_k, (K, N)."""
    log_q = torch.as_tensor(table.log_q)
    highest = log_q.max(0).values
    # A row where every density is 0 has log density −inf whatever the weights.
    reference = torch.where(torch.isfinite(highest), highest, 0.0)
    return highest, torch.exp(log_q - reference)


def _offsets(table: Table) -> Tensor:
    """Return δ_k = μ_k − θ, (K, N, d): about the truth, whatever the parameters' origin and the other members."""
    return torch.as_tensor(table.mean - table.theta)


def _second_moments(table: Table) -> Tensor:
    """Return V_k + δ_k δ_kᵀ, (K, N, d, d)."""
    offset = blocks.cached(table, _offsets)
    return torch.as_tensor(table.cov) + offset[..., :, None] * offset[..., None, :]


def draw_mixture(
    weights: np.ndarray,
    members: Sequence[MemberLike],
    n: int,
    y: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return n draws of a mixture for each row of y, (n, B, d), and the member each came from, (n, B).

    Stratified over members, each row on its own, then shuffled: any prefix is a sample.

    Args:
        weights: (K,), or one set per row, (B, K).
        members: all K; those without weight are never asked.
        n: draws per row.
        y: data, (B, ...).
        rng: of the allocation, the members' seeds and the order.
    """
    counts = allocate(weights, n, len(y), rng)
    seeds = rng.integers(2**62, size=len(members))

    def labelled(k: int, rows: np.ndarray, m: int) -> np.ndarray:
        draws = members[k].sample(m, y[rows], int(seeds[k]))
        return np.concatenate([draws, np.full((m, len(rows), 1), k)], -1)

    pooled = pool(counts, labelled, rng)
    return pooled[..., :-1], pooled[..., -1].astype(int)


def mixture_log_prob(
    weights: np.ndarray, members: Sequence[MemberLike], theta: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Return log Σ_k w_k q_k of paired rows, (N,), in log space; weights (K,), or one set per row, (N, K)."""
    support = np.flatnonzero(weights.reshape(-1, len(members)).any(0))
    log_q = np.stack([members[int(k)].log_prob(theta, y) for k in support], -1)
    return np.asarray(logsumexp(log_q, axis=-1, b=weights[..., support]))
