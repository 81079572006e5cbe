"""Stability of the weights: refits to bootstrap samples of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drystone._arrays import frozen
from drystone.advice.refit import Problem
from drystone.estimate import bootstrap_weights

__all__ = ["WeightBootstrap", "bootstrap"]


@dataclass(frozen=True, eq=False)
class WeightBootstrap:
    """Weights of a stacking, and of the same stacking on bootstrap samples of the rows.

    Attributes:
        weights: as fitted, (K,).
        resampled: weights of the refits, (B, K).
        names: of the members.
    """

    weights: np.ndarray
    resampled: np.ndarray
    names: tuple[str, ...]

    @property
    def se(self) -> np.ndarray:
        """Standard error of each weight, (K,)."""
        return self.resampled.std(0, ddof=1)

    def interval(self, alpha: float = 0.1) -> np.ndarray:
        """Return the percentile interval of each weight, (K, 2)."""
        return np.quantile(self.resampled, [alpha / 2, 1 - alpha / 2], axis=0).T


def bootstrap(problem: Problem, weights: np.ndarray, *, times: int = 100, seed: int = 0) -> WeightBootstrap:
    """Refit to bootstrap samples of the rows.

    Args:
        problem: form, score and rows.
        weights: as fitted to all rows, (K,).
        times: number of refits.
        seed: of the resampling.
    """
    refits = [
        problem.on(problem.table.reweighted(a)).solve().weights
        for a in bootstrap_weights(problem.table.row_weights, times, seed)
    ]
    return WeightBootstrap(frozen(weights), frozen(np.stack(refits)), problem.table.names)
