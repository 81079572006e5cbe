r"""Independent draws of a mixture out of its members' draws, as many as each member has.

For each of S draws of a row a member is chosen with the probability of its weight, and gives its next draw.
Whatever the members are, these are S independent draws of the mixture: where it is exact the rank of the truth
among them is uniform on {0, 1, …, S}/S. Stratified draws (:mod:`drystone.forms.stratified`) are more even.

Random numbers are those of the row, so that a table read in blocks gives the same draws as one in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["choose_members", "next_draws", "row_uniforms", "thin_ranks"]


def choose_members(weights: np.ndarray, theta: np.ndarray, S: int, seed: int) -> np.ndarray:
    """Return the member that gives each of S draws of each row, (N, S).

    Args:
        weights: on the simplex, (K,), or one set per row, (N, K).
        theta: true parameters, (N, d): rows are told apart by them.
        S: draws per row.
        seed: same seed, same members.
    """
    u, cumulated = row_uniforms(theta, S, seed), np.cumsum(weights, -1)
    u *= cumulated[..., -1:]  # one, but for rounding
    if weights.ndim == 1:
        return np.searchsorted(cumulated, u, side="right").clip(max=len(weights) - 1)
    each = [np.searchsorted(c, row, side="right") for c, row in zip(cumulated, u, strict=True)]
    return np.stack(each).clip(max=weights.shape[1] - 1)


def next_draws(chosen: np.ndarray, draws: Any) -> np.ndarray:
    """Return the draws of the chosen members, (N, S, d): of each member its first, second, … in the row.

    Args:
        chosen: a member for each draw, (N, S).
        draws: (K, N, S, d), anything that slices to NumPy along its first axis.
    """
    N, S = chosen.shape
    order = np.argsort(chosen, axis=None, kind="stable")
    members, first = np.unique(chosen.ravel()[order], return_index=True)
    pooled = np.empty((N * S, draws.shape[-1]))
    for k, places in zip(members, np.split(order, first[1:]), strict=True):
        rows = places // S
        begins = np.flatnonzero(np.diff(rows, prepend=-1))
        used = np.arange(len(rows)) - np.repeat(begins, np.diff(begins, append=len(rows)))
        pooled[places] = np.asarray(draws[int(k)])[rows, used]
    return pooled.reshape(N, S, -1)


def thin_ranks(rank: np.ndarray, S: int, chosen: np.ndarray, theta: np.ndarray, seed: int) -> np.ndarray:
    """Return the ranks among the chosen members' draws, (N, d), where only the members' own ranks are known.

    Of a member with b of t draws left at or below the truth, the next is so with probability b/t.

    Args:
        rank: the share of each member's S draws ≤ θ, (K, N, d); NaN stays NaN.
        S: draws per member and row.
        chosen: a member for each draw, (N, S).
        theta: true parameters, (N, d).
        seed: same seed, same ranks.
    """
    below, left = np.round(rank * S), np.full(rank.shape[:2], S)
    rows, total = np.arange(len(theta)), np.zeros(theta.shape)
    for s, k in enumerate(chosen.T):
        b, t = below[k, rows], left[k, rows, None]
        hit = np.where(np.isnan(b), np.nan, row_uniforms(theta, rank.shape[2], seed + 1 + s) * t < b)
        below[k, rows] -= hit
        left[k, rows] -= 1
        total += hit
    return total / S


def row_uniforms(theta: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Return n uniform numbers per row that depend on its true parameters and the seed alone, (N, n).

    The generator is SplitMix64 (Steele, Lea & Flood 2014), started from the bits of the row.
    """
    key = np.full(len(theta), seed, np.uint64)
    for column in np.ascontiguousarray(theta.T, float).view(np.uint64):
        key = _mixed(_mixed(key) ^ column)
    counter = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (_mixed(_mixed(key)[:, None] + counter) >> np.uint64(11)) * 2.0**-53


def _mixed(z: np.ndarray) -> np.ndarray:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
