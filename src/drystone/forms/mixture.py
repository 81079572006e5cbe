r"""Mixture of densities with one set of weights (Sec. 2.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from drystone.forms import distances
from drystone.forms.form import Form, Params, View
from drystone.forms.quantiles import SOFT_POINTS, pool_points
from drystone.forms.stratified import allocate, pool
from drystone.table import Statistic, Table, blocks

__all__ = ["Mixture"]


@dataclass(frozen=True, repr=False)
class Mixture(Form):
    r"""q*(θ|y) = Σ_k w_k q_k(θ|y), w on the simplex.

    Density, distribution function (hence rank) and raw moments are linear in w: that is why exact solvers
    exist.

    Args:
        concentration: of a symmetric Dirichlet prior on w. Above 1 it regularises: each member gets
            ``concentration − 1`` rows that only it explains, and no weight is exactly 0.

    Example:
        >>> Mixture(concentration=1.5)
        Mixture(concentration=1.5)
    """

    gives: ClassVar = frozenset({"log_q", "rank", "mean", "moments", "interval", "draws"})
    concentration: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.concentration < np.inf:
            raise ValueError(
                f"`concentration` must be ≥ 1, or the Dirichlet density is unbounded; got {self.concentration}."
            )

    def combine(self, params: Params, table: Table, softness: Tensor | float = 0.0) -> MixtureView:
        """The mixture on the rows of ``table``."""
        return MixtureView(params["weights"], table, softness)

    def embed(self, params: dict[str, np.ndarray], kept: np.ndarray, K: int) -> dict[str, np.ndarray]:
        """Members that were left out get weight 0."""
        weights = np.zeros(K)
        weights[kept] = params["weights"]
        return {"weights": weights}

    def used(self, params: Mapping[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The members with weight."""
        members = np.flatnonzero(params["weights"])
        return members, {"weights": params["weights"][members]}

    def describe_params(self, params: Mapping[str, np.ndarray], names: tuple[str, ...]) -> list[str]:
        """The members with weight, heaviest first."""
        weights = params["weights"]
        heaviest = [int(k) for k in np.argsort(-weights, kind="stable") if weights[k] > 0]
        lines = [f"  {names[k]:<40} {weights[k]:8.4f}" for k in heaviest[:20]]
        rest = weights[heaviest[20:]]
        if len(rest):
            lines.append(f"  {f'… and {len(rest)} more':<40} {rest.sum():8.4f}")
        return lines

    def penalised(self, factor: float) -> Mixture:
        """With a prior worth ``factor`` times as many rows."""
        return replace(self, concentration=1 + factor * (self.concentration - 1))

    def pseudocount(self, table: Table) -> float:
        """c of the penalty −c Σ_k log w_k: ``concentration − 1`` rows, in units of the (effective) row."""
        return float(self.concentration - 1) / table.effective_rows


class MixtureView(View):
    """Statistics of a mixture, linear in the weights (but for the covariance's −μμᵀ).

    Args:
        weights: one set for all rows, (K,), or one a row, (N, K).
        table: the members on the rows.
        softness: see :class:`View`.
    """

    def __init__(self, weights: Tensor, table: Table, softness: Tensor | float = 0.0) -> None:
        super().__init__(table, softness)
        self.weights = weights

    def draws_behind_rank(self) -> Tensor | None:
        """S / Σ_k w_k²: the draws of all members are behind a rank; (N,) if each row has weights of its own."""
        return None if self.S is None else self.S / (self.weights**2).sum(-1)

    def mix(self, statistic: Tensor) -> Tensor:
        """Σ_k w_k statistic_k: (K, N, ...) → (N, ...)."""
        if self.weights.ndim == 1:
            return torch.tensordot(self.weights, statistic, 1)
        return torch.einsum("nk,kn...->n...", self.weights, statistic)

    def log_q(self) -> Tensor:
        """log Σ_k w_k q_k = m + log Σ_k w_k exp(log q_k − m), m = max_k log q_k, finite where any q_k is."""
        highest, ratio = blocks.cached(self.table, _ratios)
        return highest + torch.log(self.mix(ratio))

    def rank(self, statistic: Statistic | None = None) -> Tensor:
        """r = Σ_k w_k r_k."""
        return self.mix(torch.as_tensor(self.table.rank if statistic is None else self.table.rank_of(statistic)))

    def mean(self) -> Tensor:
        """μ = Σ_k w_k μ_k = c + Σ_k w_k (μ_k − c): the weights' last bits do not matter where μ is large."""
        centre, offset = blocks.cached(self.table, _centred)
        return centre + self.mix(offset)

    def cov(self) -> Tensor:
        """V = Σ_k w_k (V_k + δ_k δ_kᵀ) − δδᵀ with δ_k = μ_k − c, δ = Σ_k w_k δ_k and any centre c."""
        offset, second = blocks.cached(self.table, _second_moments)
        delta = self.mix(offset)
        return self.mix(second) - delta[:, :, None] * delta[:, None, :]

    def interval(self, alpha: float) -> Tensor:
        """Weighted quantiles of the members' pooled points (draws, or tabulated quantiles)."""
        levels = (alpha / 2, 1 - alpha / 2)
        if self.softness.any():
            soft = blocks.cached(self.table, pool_points, SOFT_POINTS)
            return soft.soft_quantiles(self.weights, levels)
        pooled = blocks.cached(self.table, pool_points)
        return pooled.quantiles(self.weights, levels)

    def distances(self, most: int, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Σ_k w_k A_k and Σ_jk w_j w_k B_jk."""
        if self.weights.ndim == 2:
            to_truth, spread = self.distances_by_row(most, scale)
            return self.average(to_truth), self.average(spread)
        to_truth, between = distances.averages(self.table, most, tuple(scale.tolist()))
        return self.weights @ to_truth, self.weights @ between @ self.weights

    def distances_by_row(self, most: int, scale: Tensor) -> tuple[Tensor, Tensor]:
        """The same for each row."""
        to_truth = distances.to_truth(self.table, tuple(scale.tolist()))
        return self.mix(to_truth), distances.spread(self.table, self.weights, most, scale)

    def draws(self, n: int | None = None, seed: int = 0) -> Tensor:
        """Stratified draws of the mixture out of the members' draws, shuffled within each row."""
        rng = np.random.default_rng(seed)
        source, S = self.table.draws, int(self.table.draws.shape[2])
        n = S if n is None else n
        counts = allocate(self.weights.numpy(), n, self.table.N, rng)
        if counts.max() > S:
            raise ValueError(
                f"{n} draws of the mixture need {counts.max()} of one member; the table holds {S}. Ask for fewer."
            )
        pooled = pool(counts, lambda k, rows, m: np.moveaxis(np.asarray(source[k])[rows, :m], 1, 0), rng)
        return torch.as_tensor(pooled.swapaxes(0, 1))


def _ratios(table: Table) -> tuple[Tensor, Tensor]:
    """max_k log q_k, (N,), and q_k / max_k q_k, (K, N)."""
    log_q = torch.as_tensor(table.log_q)
    highest = log_q.max(0).values
    # A row where every density is 0 has log density −inf whatever the weights.
    reference = torch.where(torch.isfinite(highest), highest, 0.0)
    return highest, torch.exp(log_q - reference)


def _second_moments(table: Table) -> tuple[Tensor, Tensor]:
    """Offsets μ_k − c, (K, N, d), and V_k + (μ_k − c)(μ_k − c)ᵀ, (K, N, d, d), c the members' average mean.

    Centred, because raw second moments lose the covariance to rounding where |μ| is large against its spread.
    """
    _, offset = _centred(table)
    return offset, torch.as_tensor(table.cov) + offset[..., :, None] * offset[..., None, :]


def _centred(table: Table) -> tuple[Tensor, Tensor]:
    """Return the members' average mean c, (N, d), and μ_k − c, (K, N, d)."""
    mean = torch.as_tensor(table.mean)
    centre = mean.mean(0)
    return centre, mean - centre
