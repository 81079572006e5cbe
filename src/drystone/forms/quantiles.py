r"""Quantiles of a mixture from its members' points: draws, or quantiles tabulated at several levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from drystone.table import Table
from drystone.table.statistics import quantile_places

__all__ = ["POINTS", "SOFT_POINTS", "PooledLines", "PooledSteps", "pool_lines", "pool_steps"]

# Points a member is represented by, denser towards the tails: the outermost stand for a probability of 0.0004.
POINTS = 40
# While fitting, fewer: a softened quantile averages over a stretch of them, and each costs K N d numbers a step.
SOFT_POINTS = 12
# Points of a member nearer to each other than this, relative to the members' interquartile ranges and to the
# points themselves, are one: there its distribution function jumps. Steeper lines would drown others in rounding.
NEAR, ROUNDING = 1e-9, 1e-14
# A mixture whose distribution function rises by less than this between two places is flat there: how far up a
# level lies is rounding, and its slope in the weights would have no bound.
FLAT = 1e-12
# With fewer tabulated levels than this a mixture's quantile cannot be told.
FEWEST_LEVELS = 9


@dataclass(frozen=True)
class PooledLines:
    """All members' distribution functions, each linear between the member's points, P = K × M of them in all.

    Below its lowest point a member's is 0, above its highest 1; at points that are one it jumps.

    Attributes:
        places: the points of all members in ascending order, (N, d, P).
        gap: from a place to the next; 0 at the last, (N, d, P).
        member: whose point it is, (N, d, P).
        bend: by how much the slope of that member's distribution function changes there, (N, d, P).
        jump: by how much the function itself does, (N, d, P).
    """

    places: Tensor
    gap: Tensor
    member: Tensor
    bend: Tensor
    jump: Tensor

    def quantiles(self, weights: Tensor, levels: Sequence[float]) -> Tensor:
        """Return the mixture's quantiles at some levels, (N, d, levels), for weights (K,) or (N, K).

        F = Σ_k w_k F_k is linear between places, too, so its inverse is exact. A member without weight changes
        nothing, one with little weight little; of one member it is the member's own quantile.
        """
        N, d, _ = self.places.shape
        w = torch.gather(weights.expand(N, -1)[:, None, :].expand(N, d, -1), 2, self.member)
        rise = (w * self.bend).cumsum(-1) * self.gap
        F_at_next = torch.addcmul(rise, w, self.jump).cumsum(-1)  # just below the next place
        level = torch.tensor(levels, dtype=w.dtype)
        i = _first_at(F_at_next.detach(), level)
        x, gap = torch.gather(self.places, 2, i), torch.gather(self.gap, 2, i)
        rise, F_at_next = torch.gather(rise, 2, i), torch.gather(F_at_next, 2, i)
        # A level within a jump is that of the place itself: F is above it there.
        rises = rise > FLAT
        way = torch.where(rises, (level - F_at_next + rise) / torch.where(rises, rise, 1.0), 0.0)
        return x + way.clamp(0, 1) * gap


@dataclass(frozen=True)
class PooledSteps:
    """All members' points of each row and parameter, P = K × M of them.

    Each point stands for the levels nearer to it than to the member's next points.

    Attributes:
        points: each member's, (N, d, K, M).
        share: of its member's probability each of a member's points stands for, (M,).
        order: where the points are found in ascending order, (N, d, P).
    """

    points: Tensor
    share: Tensor
    order: Tensor

    def quantiles(self, weights: Tensor, levels: Sequence[float]) -> Tensor:
        r"""Return the average of the quantiles between half and one and a half times a tail's level.

        Its slope in the weights hardly jumps, which the quantile's own does at every point.

        .. math::
            \int_0^a Q(p) \, dp = \max_t \Big\{ a t - \sum_k w_k E_k (t - X)_+ \Big\}

        is reached at t = Q(a), so that t may be held fixed when differentiating in the weights.
        """
        end = self._ordered(weights.detach()).cumsum(-1)
        return torch.stack([self._average(weights, end, *_around(level)) for level in levels], -1)

    def _average(self, weights: Tensor, end: Tensor, a: float, b: float) -> Tensor:
        """Return the average of the quantiles between levels a and b, (N, d)."""
        t_a, t_b = self._values(_first_at(end, torch.tensor([a, b], dtype=end.dtype))).unbind(-1)
        # (t_b − x)₊ − (t_a − x)₊ of every point; its expectation as a matrix times a vector, which is fast.
        below = (t_b[..., None, None] - self.points).clamp_(min=0).minimum((t_b - t_a)[..., None, None])
        expected = (below.view(-1, len(self.share)) @ self.share).view(self.points.shape[:3])
        by_row = weights if weights.ndim == 1 else weights[:, None, :]
        return (b * t_b - a * t_a - (by_row * expected).sum(-1)) / (b - a)

    def _ordered(self, weights: Tensor) -> Tensor:
        """Return the probability that each point stands for, in ascending order of all points, (N, d, P)."""
        probability = (weights[..., None] * self.share).flatten(-2)
        N, d, P = self.order.shape
        return torch.gather(probability.expand(N, P)[:, None, :].expand(N, d, P), 2, self.order)

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


def pool_lines(table: Table, points: int = POINTS, levels: tuple[float, ...] = ()) -> PooledLines:
    """Return the members' distribution functions from their points (:func:`_members_points`)."""
    at, x = _members_points(table, points, levels)
    N, d, K, M = x.shape
    middle = (x[..., 3 * (M - 1) // 4] - x[..., (M - 1) // 4]).median(-1).values
    gaps = x.diff(dim=-1)
    one = gaps <= NEAR * middle[..., None, None] + ROUNDING * x[..., 1:].abs()
    slope = torch.where(one, 0.0, at.diff() / torch.where(one, 1.0, gaps))
    none = torch.zeros(N, d, K, 1, dtype=x.dtype)
    bend = torch.cat([slope, none], -1) - torch.cat([none, slope], -1)
    jump = torch.cat([none + at[0], torch.where(one, at.diff(), 0.0)], -1)
    jump[..., -1] += 1 - at[-1]
    places, order = x.flatten(2).sort(stable=True, dim=-1)
    gap = places.diff(dim=-1, append=places[..., -1:])
    bend, jump = (torch.gather(of_point.flatten(2), 2, order) for of_point in (bend, jump))
    return PooledLines(places, gap, order // M, bend, jump)


def pool_steps(table: Table, points: int = SOFT_POINTS) -> PooledSteps:
    """Return the members' points (:func:`_members_points`) and what each stands for."""
    at, x = _members_points(table, points, ())
    ends = torch.cat([(at[1:] + at[:-1]) / 2, torch.ones(1, dtype=at.dtype)])
    return PooledSteps(x, ends.diff(prepend=torch.zeros(1, dtype=at.dtype)), x.flatten(2).argsort(-1))


def _members_points(table: Table, points: int, levels: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    """Return levels (M,) and the members' quantiles there, (N, d, K, M), from draws or from tabulated quantiles.

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
    x = torch.as_tensor(values, dtype=torch.float64).permute(1, 3, 0, 2).contiguous()
    return torch.as_tensor(at), x


def _between(ordered: np.ndarray, below: np.ndarray, way: np.ndarray) -> np.ndarray:
    """Return ordered draws (N, S, d) interpolated between places (M,): (N, M, d)."""
    above = np.minimum(below + 1, ordered.shape[1] - 1)
    return ordered[:, below] * (1 - way[:, None]) + ordered[:, above] * way[:, None]
