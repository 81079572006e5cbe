r"""Sampling a mixture (App. B.2): how many draws each member gives, and putting them together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["allocate", "pool"]


def allocate(weights: np.ndarray, n: int, rows: int, rng: np.random.Generator) -> np.ndarray:
    r"""Return counts n_k of a stratified sample of size n: E[n_k] = n w_k, and |n_k − n w_k| < 1.

    Member k gives ⌊n w_k⌋ draws; the R = n − Σ⌊n w_k⌋ left over go to R different members, member k with
    probability its remainder n w_k − ⌊n w_k⌋ (systematic sampling: one uniform number u, and the members in
    whose stretch of the cumulated remainders the points u, u+1, … fall; in random order, so that no two members
    are tied). A member of weight 0 is never drawn.

    Args:
        weights: on the simplex, (K,), or one set per row, (rows, K).
        n: draws per row.
        rows: how many independent allocations.
        rng: where the randomness comes from.

    Returns:
        counts, (rows, K), each row summing to n.

    Example:
        >>> allocate(np.array([0.5, 0.0, 0.5]), 4, 2, np.random.default_rng(0))
        array([[2, 0, 2],
               [2, 0, 2]])
    """
    weights = np.broadcast_to(weights, (rows, np.shape(weights)[-1]))
    # Rounding first, so that 0.3 · 10 = 3.0000000000000004 leaves no remainder.
    share = np.round(weights * n, 9)
    counts = np.floor(share).astype(int)
    remainder = share - counts
    left = n - counts.sum(1)
    order = rng.permuted(np.tile(np.arange(weights.shape[1]), (rows, 1)), axis=1)
    cumulated = np.cumsum(np.take_along_axis(remainder, order, 1), 1)
    u = 1 - rng.random((rows, 1))  # in (0, 1], so that a stretch of length 0 at the start holds no point
    passed = np.floor(cumulated - u).astype(int)  # the last of the points u, u+1, … not beyond each stretch
    passed = np.where(
        cumulated > left[:, None] - 1e-6, left[:, None] - 1, passed
    )  # Σ remainders = R, but for rounding
    extra = np.diff(passed, axis=1, prepend=-1)
    np.put_along_axis(counts, order, np.take_along_axis(counts, order, 1) + extra, 1)
    return counts


def pool(
    counts: np.ndarray, draw: Callable[[int, np.ndarray, int], np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """Return draws of a mixture out of its members' draws, shuffled, so that any prefix of them is a sample too.

    Args:
        counts: how many each member gives to each row, (rows, K), as :func:`allocate` makes them.
        draw: member k, the rows that want any, and the most that one of them wants, m, to draws (m, rows, d).
            Members that give nothing are never asked.
        rng: shuffles each row on its own.

    Returns:
        draws, (n, rows, d).
    """
    n = int(counts[0].sum())
    place = rng.permuted(np.tile(np.arange(n), (len(counts), 1)), axis=1)
    filled = np.zeros(len(counts), int)
    pooled = None
    for k in np.flatnonzero(counts.any(0)):
        rows = np.flatnonzero(counts[:, k])
        drawn = draw(int(k), rows, int(counts[:, k].max()))
        if pooled is None:
            pooled = np.empty((n, len(counts), drawn.shape[-1]))
        for s, values in enumerate(drawn):
            wanting = counts[rows, k] > s
            row = rows[wanting]
            pooled[place[row, filled[row] + s], row] = values[wanting]
        filled += counts[:, k]
    if pooled is None:
        raise ValueError("a sample needs at least one draw; got none.")
    return pooled
