"""Where to start when there may be several minima: deterministic starts first, then random ones by seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from drystone.forms import Mixture
from drystone.scores import LogScore
from drystone.solvers.sqp import SQP
from drystone.table import Table

__all__ = ["simplex_starts"]


def simplex_starts(table: Table, value: Callable[[np.ndarray], float], n: int, seed: int) -> list[np.ndarray]:
    """``n`` weight vectors: uniform, the best single member, the log-score solution if any, random ones.

    All but the random ones lie where the result must not be worse; vertices are moved a little inside, since a
    member at exactly 0 has no first-order effect on some scores.
    """
    K = table.K
    uniform = np.full(K, 1 / K)
    vertices = np.eye(K)
    best = vertices[int(np.argmin([value(vertex) for vertex in vertices]))]
    starts = [uniform, 0.99 * best + 0.01 * uniform]
    if "log_q" in table.gives and np.isfinite(table.log_q).all():
        starts.append(SQP().solve(table, Mixture(), LogScore(), 1e-6, seed).params["weights"])
    rng = np.random.default_rng(seed)
    starts.extend(rng.dirichlet(np.ones(K)) for _ in range(n - len(starts)))
    return starts[: max(n, 1)]
