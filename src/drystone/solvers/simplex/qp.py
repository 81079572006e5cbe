r"""Quadratic program on the simplex, by an active set: the inner problem of every exact mixture solver.

.. math::
    \min_x \tfrac12 x^\top Q x + b^\top x \quad \text{subject to} \quad x \ge 0, \; \mathbf 1^\top x = 1
"""

from __future__ import annotations

import numpy as np

__all__ = ["simplex_qp"]


def simplex_qp(Q: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray:
    r"""Solve the program exactly (to rounding), from a feasible start.

    On the free entries F the equality-constrained minimiser z solves the linear system of its optimality
    conditions; if z leaves the simplex, walk towards it until an entry hits 0 and fix that entry; if not, free
    the fixed entry whose multiplier (Qz + b)_i − ν is the most negative; stop when there is none. To begin with,
    all entries that z makes negative are fixed at once: that finds most of the zeros in a few systems.

    Args:
        Q: (K, K), symmetric, positive semi-definite on directions that sum to zero.
        b: (K,).
        start: on the simplex, (K,). Its zeros start fixed.

    Example:
        >>> simplex_qp(np.eye(2), np.array([0.0, 0.2]), np.array([0.5, 0.5]))
        array([0.6, 0.4])
    """
    K = len(b)
    x = start.copy()
    free = x > 0
    # A ridge far below each member's own scale: keeps the system regular when members are duplicates of each
    # other.
    size = np.maximum(np.abs(np.diag(Q)), np.finfo(float).tiny)
    Q = Q.copy()
    Q.flat[:: K + 1] += 1e-13 * size
    negligible = 1e-13 * np.maximum(np.abs(b), size)
    z, nu = _on_free(Q, b, free)
    while (z < 0).any():
        free &= z > 0
        z, nu = _on_free(Q, b, free)
    x = z
    stuck = np.zeros(K, bool)  # freed, and fixed again at once (rounding): not freed again from the same x
    for _ in range(10 * K + 10):
        free = x > 0
        multiplier = np.where(free | stuck, np.inf, Q @ x + b - nu)
        worst = int(np.argmin(multiplier + negligible))
        if multiplier[worst] >= -negligible[worst]:
            break
        before = free.copy()
        free[worst] = True
        z, nu = _on_free(Q, b, free)
        while (z < 0).any():  # walk towards z, and fix what reaches 0 on the way
            shrinking = z < 0
            step = (x[shrinking] / (x[shrinking] - z[shrinking])).min()
            x = x + step * (z - x)
            x[shrinking & (x <= 1e-15)] = 0.0
            free = x > 0
            z, nu = _on_free(Q, b, free)
        if np.array_equal(free, before):
            stuck[worst] = True
        else:
            x, stuck = z, np.zeros(K, bool)
    return x / x.sum()


def _on_free(Q: np.ndarray, b: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, float]:
    """Return minimiser with the other entries at 0 and the sum at 1, and the multiplier ν of the sum."""
    index = np.flatnonzero(free)
    m = len(index)
    system, right = np.ones((m + 1, m + 1)), np.ones(m + 1)
    system[:m, :m] = Q[index][:, index]
    system[m, m] = 0.0
    right[:m] = -b[index]
    try:
        solution = np.linalg.solve(system, right)
    except np.linalg.LinAlgError:  # exactly singular: any of its solutions is a minimiser
        solution = np.linalg.lstsq(system, right, rcond=None)[0]
    z = np.zeros(len(b))
    z[index] = solution[:m]
    return z, -float(solution[m])
