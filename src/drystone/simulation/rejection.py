"""Rejection sampling at many rows at once: propose, keep what is accepted, and go on where draws are missing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["AT_ONCE", "GIVE_UP", "draw_accepted"]

# Most draws of one proposal, over all rows: some tens of MB.
AT_ONCE = 2**20
# Most draws of one proposal at a row whose rate of acceptance is low, unless more are asked for.
GIVE_UP = 10_000

Rows = NDArray[np.intp]


def draw_accepted(
    n: int,
    N: int,
    propose: Callable[[int, Rows], NDArray],
    accept: Callable[[NDArray], NDArray[np.bool_]],
    check: Callable[[NDArray[np.int_], NDArray[np.int_]], None] | None = None,
) -> NDArray:
    """Return the first n accepted draws at each of N rows, (n, N, d).

    Args:
        n: Draws per row.
        N: Number of rows.
        propose: Returns m draws at each of the rows with these indices, (m, R, d).
        accept: Returns which of draws (m, R, d) are accepted, (m, R).
        check: Called with the numbers of accepted and proposed draws at each row, (N,), after each round; it may
            raise if too few are accepted.

    Example:
        >>> normal = np.random.default_rng(0).normal
        >>> draws = draw_accepted(3, 2, lambda m, rows: normal(size=(m, len(rows), 1)), lambda x: x[..., 0] > 0)
        >>> draws.shape, bool((draws > 0).all())
        ((3, 2, 1), True)
    """
    draws: NDArray | None = None
    accepted, proposed = np.zeros(N, int), np.zeros(N, int)
    while (unfinished := np.flatnonzero(accepted < n)).size:
        m = _next_draws(n - accepted[unfinished], accepted[unfinished], proposed[unfinished])
        for rows in np.array_split(unfinished, -(-unfinished.size * m // AT_ONCE)):
            candidates = propose(m, rows)
            inside = accept(candidates)
            if draws is None:
                if rows.size == N and inside.all():
                    return candidates
                draws = np.empty((n, N, candidates.shape[-1]), candidates.dtype)
            for j, row in enumerate(rows):
                new = candidates[inside[:, j], j][: n - accepted[row]]
                draws[accepted[row] : accepted[row] + len(new), row] = new
                accepted[row] += len(new)
            proposed[rows] += m
        if check is not None:
            check(accepted, proposed)
    if draws is None:
        raise ValueError(f"a sample needs at least one draw and one row; got n = {n} and {N} rows.")
    return draws


def _next_draws(missing: NDArray[np.int_], accepted: NDArray[np.int_], proposed: NDArray[np.int_]) -> int:
    """Return the draws per row to propose next: enough for every row at its rate so far, up to a limit."""
    rate = np.where(proposed > 0, (accepted + 1) / (proposed + 1), 1.0)  # never 0
    return int(min(np.ceil((missing / rate).max()), max(GIVE_UP, missing.max())))
