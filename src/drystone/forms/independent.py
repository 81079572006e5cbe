r"""Independent draws of a mixture out of its members' draws, as many as each member has.

For each of S draws of a row a member is chosen with the probability of its weight, and gives its next draw.
Whatever the members are, these are S independent draws of the mixture: where it is exact the rank of the truth
among them is uniform on {0, 1, …, S}/S. Stratified draws (:mod:`drystone.forms.stratified`) are more even.

Where a table holds means and covariances, or quantiles, of S draws and not the draws themselves, stand-ins take
their place: S points per member and row that have exactly its mean and covariance, or its quantiles.

Random numbers are those of the row, so that a table read in blocks gives the same draws as one in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from drystone.table import Table

__all__ = [
    "MOST_STAND_INS",
    "MomentStandIns",
    "QuantileStandIns",
    "choose_members",
    "mixing_order",
    "next_draws",
    "row_keys",
    "row_uniforms",
    "thin_ranks",
]

# Stand-ins are made for at most so many draws: they cost as much as draws, and of more draws the noise is small.
MOST_STAND_INS = 256


def choose_members(weights: np.ndarray, keys: np.ndarray, S: int, seed: int) -> np.ndarray:
    """Return the member that gives each of S draws of each row, (N, S).

    Args:
        weights: on the simplex, (K,), or one set per row, (N, K).
        keys: by which rows are told apart, (N,).
        S: draws per row.
        seed: same seed, same members.
    """
    u, cumulated = row_uniforms(keys, S, seed), np.cumsum(weights, -1)
    u *= cumulated[..., -1:]  # one, but for rounding
    if weights.ndim == 1:
        return np.searchsorted(cumulated, u, side="right").clip(max=len(weights) - 1)
    each = [np.searchsorted(c, row, side="right") for c, row in zip(cumulated, u, strict=True)]
    return np.stack(each).clip(max=weights.shape[1] - 1)


def mixing_order(S: int) -> np.ndarray:
    """Return the order in which S draws of a row are used where not all are, or where they are paired, (S,).

    Draws of a Markov chain are like their neighbors, and the first ones are not like the others.
    """
    return np.random.default_rng(0).permutation(S)


def next_draws(chosen: np.ndarray, draws: Any) -> np.ndarray:
    """Return the draws of the chosen members, (N, S, d): of each member one after the other in mixing order.

    Args:
        chosen: a member for each draw, (N, S).
        draws: (K, N, S, d), anything that slices to NumPy along its first axis.
    """
    N, S = chosen.shape
    order, mixed = np.argsort(chosen, axis=None, kind="stable"), mixing_order(draws.shape[2])
    members, first = np.unique(chosen.ravel()[order], return_index=True)
    pooled = np.empty((N * S, draws.shape[-1]))
    for k, places in zip(members, np.split(order, first[1:]), strict=True):
        rows = places // S
        begins = np.flatnonzero(np.diff(rows, prepend=-1))
        used = np.arange(len(rows)) - np.repeat(begins, np.diff(begins, append=len(rows)))
        pooled[places] = np.asarray(draws[int(k)])[rows, mixed[used]]
    return pooled.reshape(N, S, -1)


@dataclass(frozen=True)
class MomentStandIns:
    r"""Gaussian points with the means and covariances of members' S draws: :math:`\mu_k + V_k^{1/2} z_s`.

    z has mean 0 and covariance 1 (with divisor S − 1) in every row: all S together have exactly the moments
    of the draws, and fewer of them the noise of so many Gaussian draws.

    Attributes:
        mean: (K, N, d).
        cov: (K, N, d, d).
        keys: by which rows are told apart, (N,).
        S: how many draws are behind the moments, more than d.
        seed: same seed, same points.
    """

    mean: np.ndarray
    cov: np.ndarray
    keys: np.ndarray
    S: int
    seed: int

    @property
    def shape(self) -> tuple[int, ...]:
        """(K, N, S, d)."""
        K, N, d = self.mean.shape
        return K, N, self.S, d

    def __getitem__(self, k: int) -> np.ndarray:
        """Return those of member k, (N, S, d)."""
        _, N, S, d = self.shape
        z = ndtri(row_uniforms(self.keys, S * d, self.seed + 1 + k).clip(1e-12)).reshape(N, S, d)
        z -= z.mean(1, keepdims=True)
        whitening = np.linalg.cholesky(np.linalg.inv(z.mT @ z / (S - 1)))
        size, axes = np.linalg.eigh(self.cov[k])
        root = axes * np.sqrt(size.clip(0))[:, None, :]
        return self.mean[k][:, None] + z @ whitening @ root.mT


@dataclass(frozen=True)
class QuantileStandIns:
    """Points with the quantiles of members' S draws: the i-th smallest at level i/(S + 1), in random order.

    Between and beyond the levels that are known, quantiles are linear in those of a Gaussian.

    Attributes:
        levels: ascending, (L,).
        quantiles: at these levels, (L, K, N, d).
        keys: by which rows are told apart, (N,).
        S: how many draws are behind the quantiles.
        seed: same seed, same order.
    """

    levels: np.ndarray
    quantiles: np.ndarray
    keys: np.ndarray
    S: int
    seed: int

    @property
    def shape(self) -> tuple[int, ...]:
        """(K, N, S, d)."""
        _, K, N, d = self.quantiles.shape
        return K, N, self.S, d

    def __getitem__(self, k: int) -> np.ndarray:
        """Return those of member k, (N, S, d)."""
        _, N, S, d = self.shape
        # Quantiles at levels further out than the outermost draws are these.
        levels, first = np.unique(self.levels.clip(1 / (S + 1), S / (S + 1)), return_index=True)
        known, quantiles, at = ndtri(levels), self.quantiles[first, k], ndtri(np.arange(1, S + 1) / (S + 1))
        below = np.clip(np.searchsorted(known, at) - 1, 0, len(known) - 2)
        way = ((at - known[below]) / (known[below + 1] - known[below]))[:, None, None]
        points = (1 - way) * quantiles[below] + way * quantiles[below + 1]  # (S, N, d)
        order = row_uniforms(self.keys, S * d, self.seed + 1 + k).reshape(N, S, d).argsort(1)
        return np.take_along_axis(np.moveaxis(points, 0, 1), order, 1)


def thin_ranks(rank: np.ndarray, S: int, chosen: np.ndarray, keys: np.ndarray, seed: int) -> np.ndarray:
    """Return the ranks among the chosen members' draws, (N, d), where only the members' own ranks are known.

    Of a member with b of t draws left at or below the truth, the next is so with probability b/t.

    Args:
        rank: the share of each member's S draws ≤ θ, (K, N, d); NaN stays NaN.
        S: draws per member and row.
        chosen: a member for each draw, (N, S).
        keys: by which rows are told apart, (N,).
        seed: same seed, same ranks.
    """
    below, left = np.round(rank * S), np.full(rank.shape[:2], S)
    rows, total = np.arange(len(keys)), np.zeros(rank.shape[1:])
    for s, k in enumerate(chosen.T):
        b, t = below[k, rows], left[k, rows, None]
        hit = np.where(np.isnan(b), np.nan, row_uniforms(keys, rank.shape[2], seed + 1 + s) * t < b)
        below[k, rows] -= hit
        left[k, rows] -= 1
        total += hit
    return total / S


def row_keys(table: Table) -> np.ndarray:
    """Return a number for each row that depends on its parameters and data, (N,) of uint64.

    Parameters alone would not do: several rows share them where they are discrete, or where several data were
    simulated from each. Rows that are alike in both are numbered.
    """
    arrays = [table.theta] if table.y is None else [table.theta, table.y]
    columns = np.concatenate([np.asarray(array, float).reshape(table.N, -1) for array in arrays], 1)
    bits = np.ascontiguousarray(columns).view(np.uint64)
    # Odd factors, another for each column, which lose no bit and keep columns apart.
    keys = (_mixed(bits) * (_mixed(np.arange(1, 1 + bits.shape[1], dtype=np.uint64)) | np.uint64(1))).sum(1)
    order = np.argsort(keys, kind="stable")
    begins = np.flatnonzero(np.diff(keys[order], prepend=~keys[order[:1]]))
    before = np.empty(table.N, np.uint64)
    before[order] = np.arange(table.N) - np.repeat(begins, np.diff(begins, append=table.N))
    return _mixed(keys + before)


def row_uniforms(keys: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Return n uniform numbers per row that depend on its key and the seed alone, (N, n).

    The generator is SplitMix64 (Steele, Lea & Flood 2014).
    """
    counter = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    started = _mixed(_mixed(np.uint64(seed) ^ keys))
    return (_mixed(started[:, None] + counter) >> np.uint64(11)) * 2.0**-53


def _mixed(z: np.ndarray) -> np.ndarray:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
