"""Where to start when there may be several minima: deterministic starts first, then random ones by seed."""

from __future__ import annotations

import numpy as np
import torch

from drystone.forms import Mixture
from drystone.scores import LogScore, Score
from drystone.solvers.sqp import SQP
from drystone.table import Table

__all__ = ["alone", "simplex_starts"]


def simplex_starts(table: Table, best: int, n: int, seed: int) -> list[np.ndarray]:
    """``n`` weight vectors: uniform, the ``best`` single member, the log-score solution if any, random ones.

    The best member is moved a little inside, since a member at exactly 0 has no first-order effect on some scores.
    """
    K = table.K
    uniform = np.full(K, 1 / K)
    starts = [uniform, 0.99 * np.eye(K)[best] + 0.01 * uniform]
    if "log_q" in table.gives and table.total(_not_finite) == (0,):
        starts.append(SQP().solve(table, Mixture(), LogScore(), 1e-6, seed).params["weights"])
    rng = np.random.default_rng(seed)
    starts.extend(rng.dirichlet(np.ones(K)) for _ in range(n - len(starts)))
    return starts[: max(n, 1)]


def alone(table: Table, score: Score) -> np.ndarray:
    """The score of each member alone, (K,)."""
    return table.total(_alone, score)[0]


def _alone(block: Table, score: Score) -> tuple[np.ndarray]:
    whole = torch.ones(1, dtype=torch.float64)
    with torch.no_grad():
        views = (Mixture().combine({"weights": whole}, block.select(members=[k])) for k in range(block.K))
        return (np.array([float(score(view)) for view in views]),)


def _not_finite(block: Table) -> tuple[int]:
    return (block.log_q.size - int(np.isfinite(block.log_q).sum()),)
