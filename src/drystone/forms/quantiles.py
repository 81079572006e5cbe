r"""Quantiles of a mixture from its members' points: draws, or quantiles tabulated at several levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from drystone.table import Table
from drystone.table.statistics import quantile_places

__all__ = ["POINTS", "SOFT_POINTS", "Pooled", "pool_points"]

# Points a member is represented by, denser towards the tails: the outermost stand for a probability of 0.0004.
POINTS = 40
# While fitting, fewer: a softened quantile averages over a stretch of them, and each costs K N d numbers a step.
SOFT_POINTS = 12
# With fewer tabulated levels than this a mixture's quantile cannot be told.
FEWEST_LEVELS = 9


@dataclass(frozen=True)
class Pooled:
    """All members' points of each row and parameter, P = K × M of them.

    Each point stands at a level of its member's distribution function, and for the levels nearer to it than to the
    member's next points.

    Attributes:
        points: each member's, (N, d, K, M).
        share: of its member's probability each of a member's points stands for, (M,).
        beyond: the part of that share that lies above the point's own level, (M,).
        order: where the points are found in ascending order, (N, d, P).
    """

    points: Tensor
    share: Tensor
    beyond: Tensor
    order: Tensor

    def quantiles(self, weights: Tensor, levels: Sequence[float]) -> Tensor:
        """Return the mixture's quantiles at some levels, (N, d, levels), for weights (K,) or (N, K).

        Σ_k w_k F_k at a point: its own member's F_k is the point's level, the others' are those of their nearest
        points; the quantile interpolates. Of one member it is the member's own quantile.
        """
        c = self._ordered(weights, self.share).cumsum(-1) - self._ordered(weights, self.beyond)
        level = torch.tensor(levels, dtype=c.dtype)
        after = _first_at(c.detach(), level).clamp(min=1)
        c0, c1 = (torch.gather(c, 2, i) for i in (after - 1, after))
        v0, v1 = (self._values(i) for i in (after - 1, after))
        width = c1 - c0
        # Beyond the outermost mid-points the outermost points themselves; and no division by an empty stretch.
        way = ((level - c0) / torch.where(width > 0, width, 1.0)).clamp(0, 1)
        return v0 + way * (v1 - v0)

    def soft_quantiles(self, weights: Tensor, levels: Sequence[float]) -> Tensor:
        r"""Return the average of the quantiles between half and one and a half times a tail's level.

        Its slope in the weights hardly jumps, which the quantile's own does at every point.

        .. math::
            \int_0^a Q(p) \, dp = \max_t \Big\{ a t - \sum_k w_k E_k (t - X)_+ \Big\}

        is reached at t = Q(a), so that t may be held fixed when differentiating in the weights.
        """
        end = self._ordered(weights.detach(), self.share).cumsum(-1)
        return torch.stack([self._average(weights, end, *_around(level)) for level in levels], -1)

    def _average(self, weights: Tensor, end: Tensor, a: float, b: float) -> Tensor:
        """Return the average of the quantiles between levels a and b, (N, d)."""
        t_a, t_b = self._values(_first_at(end, torch.tensor([a, b], dtype=end.dtype))).unbind(-1)
        # (t_b − x)₊ − (t_a − x)₊ of every point; its expectation as a matrix times a vector, which is fast.
        below = (t_b[..., None, None] - self.points).clamp_(min=0).minimum((t_b - t_a)[..., None, None])
        expected = (below.view(-1, len(self.share)) @ self.share).view(self.points.shape[:3])
        by_row = weights if weights.ndim == 1 else weights[:, None, :]
        return (b * t_b - a * t_a - (by_row * expected).sum(-1)) / (b - a)

    def _ordered(self, weights: Tensor, of_point: Tensor) -> Tensor:
        """Return w_k times a number (M,) per point of a member, in ascending order of all points, (N, d, P)."""
        product = (weights[..., None] * of_point).flatten(-2)
        N, d, P = self.order.shape
        return torch.gather(product.expand(N, P)[:, None, :].expand(N, d, P), 2, self.order)

    def _values(self, i: Tensor) -> Tensor:
        """Return the points at some places in ascending order, (N, d, ·)."""
        return torch.gather(self.points.flatten(2), 2, torch.gather(self.order, 2, i))


def _around(level: float) -> tuple[float, float]:
    """Return half and one and a half times the lower or upper tail's level."""
    half = min(level, 1 - level) / 2
    return level - half, level + half


def _first_at(cumulated: Tensor, levels: Tensor) -> Tensor:
    """Return the first of the (N, d, P) cumulated weights that reaches each level, or the last: (N, d, levels)."""
    N, d, P = cumulated.shape
    return torch.searchsorted(cumulated, levels.expand(N, d, -1).contiguous()).clamp(max=P - 1)


def pool_points(table: Table, points: int = POINTS, levels: tuple[float, ...] = ()) -> Pooled:
    """Return points of all members of a table: from draws if it has them, else from its tabulated quantiles.

    Args:
        table: the members.
        points: how many per member, if it has more draws than that.
        levels: at which each member has a point in any case: there its own quantile is exact.
    """
    if table.has("draws").all():
        S = int(table.draws.shape[2])
        if points >= S:
            at = np.arange(1, S + 1) / (S + 1)
        else:
            edges = (1 - np.cos(np.pi * np.arange(points + 1) / points)) / 2
            at = (edges[1:] + edges[:-1]) / 2
        at = np.union1d(at, levels)
        below, way = quantile_places(at, S)
        members = (np.sort(np.asarray(table.draws[k]), 1) for k in range(table.K))
        values = np.stack([_between(ordered, below, way) for ordered in members])  # (K, N, M, d)
    else:
        at = np.array(table.levels)
        if len(at) < FEWEST_LEVELS:
            raise ValueError(
                f"quantiles of a mixture need draws, or quantiles at {FEWEST_LEVELS} levels or more; "
                f"the table has levels {table.levels}."
            )
        if beyond := [level for level in levels if not at[0] - 1e-9 <= level <= at[-1] + 1e-9]:
            raise ValueError(
                f"a mixture's quantile at level {beyond[0]:.6g} needs draws, or quantiles at levels as far out; "
                f"the table has them from {at[0]:g} to {at[-1]:g}."
            )
        values = np.stack([table.quantile(level) for level in at], 2)
    ends = np.r_[(at[1:] + at[:-1]) / 2, 1.0]
    pooled = torch.as_tensor(values, dtype=torch.float64).permute(1, 3, 0, 2).contiguous()
    share, beyond = torch.as_tensor(np.diff(ends, prepend=0.0)), torch.as_tensor(ends - at)
    return Pooled(pooled, share, beyond, pooled.flatten(2).argsort(-1))


def _between(ordered: np.ndarray, below: np.ndarray, way: np.ndarray) -> np.ndarray:
    """Return ordered draws (N, S, d) interpolated between places (M,): (N, M, d)."""
    above = np.minimum(below + 1, ordered.shape[1] - 1)
    return ordered[:, below] * (1 - way[:, None]) + ordered[:, above] * way[:, None]
