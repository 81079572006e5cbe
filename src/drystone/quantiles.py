r"""Quantiles of a mixture from its members' points: draws, or quantiles tabulated at several levels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from drystone.table import Table

__all__ = ["SOFT_POINTS", "Pooled", "pool_points"]

# Points a member is represented by, denser towards the tails: the outermost stand for a probability of 0.0004.
POINTS = 40
# While fitting, fewer: a softened quantile averages over a stretch of them, and each costs K N d numbers a step.
SOFT_POINTS = 12
# With fewer tabulated levels than this a mixture's quantile cannot be told.
FEWEST_LEVELS = 9


@dataclass(frozen=True)
class Pooled:
    """All members' points of each row and parameter, sorted.

    Attributes:
        values: sorted points, (N, d, P), P = K × points.
        member: whose point each is, (N, d, P).
        mass: the share of its member's probability each stands for, (N, d, P).
    """

    values: Tensor
    member: Tensor
    mass: Tensor

    def quantile(self, weights: Tensor, level: float) -> Tensor:
        """The mixture's quantile at ``level``, (N, d), for weights (K,) or (N, K).

        Point i stands at the mid-point of its stretch of the cumulated weights; the quantile interpolates.
        """
        end, mass = self._stretches(weights)
        c = end - mass / 2
        after = torch.searchsorted(c.detach(), torch.full((*c.shape[:2], 1), level, dtype=c.dtype))
        after = after.clamp(1, c.shape[2] - 1)
        c0, c1 = (torch.gather(c, 2, i)[..., 0] for i in (after - 1, after))
        v0, v1 = (torch.gather(self.values, 2, i)[..., 0] for i in (after - 1, after))
        width = c1 - c0
        # Beyond the outermost mid-points the outermost points themselves; and no division by an empty stretch.
        share = ((level - c0) / torch.where(width > 0, width, 1.0)).clamp(0, 1)
        return v0 + share * (v1 - v0)

    def soft_quantile(self, weights: Tensor, level: float) -> Tensor:
        """The average of the quantiles between half and one and a half times the (lower or upper tail's) level.

        Its slope in the weights hardly jumps, which the quantile's own does at every point.
        """
        half = min(level, 1 - level) / 2
        end, mass = self._stretches(weights)
        overlap = (end.clamp(max=level + half) - (end - mass).clamp(min=level - half)).clamp(min=0)
        return (overlap * self.values).sum(-1) / overlap.sum(-1)

    def _stretches(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Where each point's stretch of the cumulated weights ends, and its length, (N, d, P)."""
        N, d, _ = self.values.shape
        by_row = weights.expand(N, weights.shape[-1])[:, None, :].expand(N, d, -1)
        mass = self.mass * torch.gather(by_row, 2, self.member)
        return mass.cumsum(-1), mass


def pool_points(table: Table, points: int = POINTS) -> Pooled:
    """Points of all members of a table: from draws if it has them, else from its tabulated quantiles."""
    if "draws" in table.gives:
        S = int(table.draws.shape[2])
        edges = (1 - np.cos(np.pi * np.arange(points + 1) / points)) / 2
        levels, mass = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
        if points >= S:
            mass = np.full(S, 1 / S)
        members = (np.sort(np.asarray(table.draws[k]), 1) for k in range(table.K))
        values = np.stack([m if points >= S else _at_levels(m, levels) for m in members])  # (K, N, M, d)
    else:
        levels = np.array(table.levels)
        if len(levels) < FEWEST_LEVELS:
            raise ValueError(
                f"quantiles of a mixture need draws, or quantiles at {FEWEST_LEVELS} levels or more; "
                f"the table has levels {table.levels}."
            )
        # Each level stands for what is nearer to it than to its neighbours.
        mass = np.diff(np.r_[0, (levels[1:] + levels[:-1]) / 2, 1])
        values = np.stack([table.quantile(level) for level in levels], 2)
    K, N, M, d = values.shape
    flat = torch.as_tensor(values, dtype=torch.float64).permute(1, 3, 0, 2).reshape(N, d, K * M)
    ordered, order = flat.sort(-1)
    return Pooled(ordered, order // M, torch.as_tensor(mass)[order % M])


def _at_levels(ordered: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Quantiles of ordered draws (N, S, d), draw i standing at (i + ½)/S: (N, levels, d)."""
    S = ordered.shape[1]
    position = np.clip(levels * S - 0.5, 0, S - 1)
    below = np.minimum(position.astype(int), S - 2)
    share = (position - below)[:, None]
    return ordered[:, below] * (1 - share) + ordered[:, below + 1] * share
