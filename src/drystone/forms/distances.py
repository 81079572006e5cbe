r"""Distances between draws and truth, and between draws: the two halves of the energy score.

.. math::
    A_{kn} = E\|\tilde\theta_{kn} - \theta_n\|, \qquad
    B_{jkn} = E\|\tilde\theta_{jn} - \tilde\theta'_{kn}\|

B pairs every draw of j with the next draw of k, cyclically in mixing order: unbiased, linear in the number of
draws, and, since no draw ever meets itself, a member given twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from drystone._arrays import shareable
from drystone.forms.independent import mixing_order
from drystone.table import Table, blocks

__all__ = ["averages", "mixed_draws", "pairs", "spread", "to_truth"]

TOO_FEW = "distances between draws need at least 2 draws per simulation; got 1."
# Distances held at once (32 MB in float64).
BLOCK = 2**22


def averages(table: Table, most: int, scale: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    """Return A_k = Σ_n a_n A_kn, (K,), and B_jk = Σ_n a_n B_jkn, (K, K); computed once per table in memory."""
    return blocks.cached(table, _averages, most, scale)


def _averages(table: Table, most: int, scale: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    to_truth, between = blocks.total(table, _shares, most, scale)
    return to_truth, between


def _shares(block: Table, most: int, scale: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    """Return what a block of rows adds to both."""
    unit, a = torch.tensor(scale, dtype=torch.float64), torch.as_tensor(block.row_weights)
    between, done = torch.zeros(block.K, block.K, dtype=torch.float64), 0
    for rows in _blocks(mixed_draws(block, most) / unit):
        between += torch.tensordot(a[done : done + len(rows)], rows, 1)
        done += len(rows)
    return to_truth(block, scale) @ a, between


def to_truth(table: Table, scale: tuple[float, ...]) -> Tensor:
    """Return A_kn, (K, N), over all draws of the table; computed once per table in memory."""
    return blocks.cached(table, _to_truth, scale)


def _to_truth(table: Table, scale: tuple[float, ...]) -> Tensor:
    theta, unit = torch.as_tensor(table.theta)[:, None, :], torch.tensor(scale, dtype=torch.float64)
    return torch.stack([((_draws(table, k) - theta) / unit).norm(dim=-1).mean(-1) for k in range(table.K)])


def spread(table: Table, weights: Tensor, most: int, scale: Tensor) -> Tensor:
    """Return Σ_jk w_j w_k B_jkn for weights (K,) or, one set per row, (N, K): (N,)."""
    if weights.ndim == 2:  # many different weights will be asked for: hold B for every row
        between = blocks.cached(table, _all_pairs, most, tuple(scale.tolist()))
        return torch.einsum("njk,nj,nk->n", between, weights, weights)
    members = np.flatnonzero(weights.numpy())  # the others are not looked at
    w = weights[members]
    by_rows = _blocks(mixed_draws(table, most, members) / scale)
    return torch.cat([torch.einsum("njk,j,k->n", between, w, w) for between in by_rows])


def _all_pairs(table: Table, most: int, scale: tuple[float, ...]) -> Tensor:
    """Return B_jkn of all rows, (N, K, K)."""
    return torch.cat(list(_blocks(mixed_draws(table, most) / torch.tensor(scale, dtype=torch.float64))))


def _blocks(draws: Tensor) -> Iterator[Tensor]:
    """Return B of draws (K, N, M, d) in blocks of rows that fit in memory, (n, K, K) each."""
    K, N, M, _ = draws.shape
    if M < 2:
        raise ValueError(TOO_FEW)
    step = max(1, BLOCK // (M * K**2))
    return (pairs(draws[:, start : start + step]) for start in range(0, N, step))


def pairs(draws: Tensor) -> Tensor:
    """Return B_jkn from draws (K, n, M, d): (n, K, K)."""
    draws = draws.permute(1, 2, 0, 3)
    # The expansion |x|² − 2xy + |y|² would lose close pairs to rounding.
    distance = torch.cdist(draws, draws.roll(-1, 1), compute_mode="donot_use_mm_for_euclid_dist").mean(1)
    return (distance + distance.mT) / 2


def mixed_draws(table: Table, most: int, members: np.ndarray | None = None) -> Tensor:
    """Return draws of each member and row in mixing order, at most ``most``, (K, N, M, d), in float64."""
    chosen = range(table.K) if members is None else members
    order = torch.as_tensor(mixing_order(int(table.draws.shape[2]))[:most])
    return torch.stack([_draws(table, k)[:, order].double() for k in chosen])


def _draws(table: Table, k: int) -> Tensor:
    """Return draws of one member, (N, S, d)."""
    return torch.as_tensor(shareable(np.asarray(table.draws[int(k)])))
