r"""Distances between draws and truth, and between draws: the two halves of the energy score.

.. math::
    A_{kn} = E\|\tilde\theta_{kn} - \theta_n\|, \qquad
    B_{jkn} = E\|\tilde\theta_{jn} - \tilde\theta'_{kn}\|

B pairs every draw of j with the next draw of k, cyclically: unbiased, linear in the number of draws, and, since
no draw ever meets itself, a member given twice changes nothing.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from drystone.table import Table

__all__ = ["averages", "pairs", "spread", "to_truth"]

# Distances held at once (32 MB in float64).
BLOCK = 2**22


def averages(table: Table, most: int, scale: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    """A_k = Σ_n a_n A_kn, (K,), and B_jk = Σ_n a_n B_jkn, (K, K); computed once for a table."""

    def compute() -> tuple[Tensor, Tensor]:
        unit, a = torch.tensor(scale), torch.as_tensor(table.row_weights)
        used = _subset(table, np.arange(table.K), most)
        K, N, M, _ = used.shape
        between = torch.zeros(K, K, dtype=torch.float64)
        step = max(1, BLOCK // (M * K**2))
        for start in range(0, N, step):
            rows = slice(start, start + step)
            between += torch.tensordot(a[rows], pairs(used[:, rows] / unit), 1)
        return to_truth(table, unit) @ a, between

    return table.remember(("distances", most, scale), compute)


def to_truth(table: Table, scale: Tensor) -> Tensor:
    """A_kn, (K, N), over all draws of the table."""
    theta = torch.as_tensor(table.theta)[:, None, :]
    of_member = [
        ((torch.as_tensor(np.asarray(table.draws[k])) - theta) / scale).norm(dim=-1).mean(-1)
        for k in range(table.K)
    ]
    return torch.stack(of_member)


def spread(table: Table, weights: Tensor, most: int, scale: Tensor) -> Tensor:
    """Σ_jk w_j w_k B_jkn for given weights, (N,); only members with weight are looked at."""
    members = np.flatnonzero(weights.numpy())
    w = weights[members]
    used = _subset(table, members, most) / scale
    K, N, M, _ = used.shape
    step = max(1, BLOCK // (M * K**2))
    return torch.cat([torch.einsum("njk,j,k->n", pairs(used[:, n : n + step]), w, w) for n in range(0, N, step)])


def pairs(draws: Tensor) -> Tensor:
    """B_jkn from draws (K, n, M, d): (n, K, K)."""
    draws = draws.permute(1, 2, 0, 3)
    # The expansion |x|² − 2xy + |y|² would lose close pairs to rounding.
    distance = torch.cdist(draws, draws.roll(-1, 1), compute_mode="donot_use_mm_for_euclid_dist").mean(1)
    return (distance + distance.mT) / 2


def _subset(table: Table, members: np.ndarray, most: int) -> Tensor:
    """The first draws of each member and row, at most ``most``, (K, N, M, d), in float64."""
    if table.draws.shape[2] < 2:
        raise ValueError("the energy score needs at least 2 draws a simulation; got 1.")
    return torch.stack([_draws(table, k)[:, :most].double() for k in members])


def _draws(table: Table, k: int) -> Tensor:
    """Draws of one member, (N, S, d); writeable (copied if not), which torch asks of arrays it shares."""
    return torch.as_tensor(np.require(table.draws[int(k)], requirements="W"))
