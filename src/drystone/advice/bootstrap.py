"""How steady the weights are: refitted to rows drawn again with replacement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drystone.advice.refit import Problem
from drystone.estimate import resampled
from drystone.stacking.result import frozen

__all__ = ["WeightBootstrap", "bootstrap"]


@dataclass(frozen=True, eq=False)
class WeightBootstrap:
    """Weights of a stacking, and of the same stacking on resampled rows.

    Attributes:
        weights: as fitted, (K,).
        resampled: refitted, (B, K).
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
        """Percentile interval of each weight, (K, 2)."""
        return np.quantile(self.resampled, [alpha / 2, 1 - alpha / 2], axis=0).T


def bootstrap(asked: Problem, weights: np.ndarray, *, times: int = 100, seed: int = 0) -> WeightBootstrap:
    """Refit to resampled rows.

    Args:
        asked: form, score and rows.
        weights: as fitted to them, (K,).
        times: how many refits.
        seed: of the resampling.
    """
    refits = [
        asked.on(asked.table.reweighted(a)).solve().weights
        for a in resampled(asked.table.row_weights, times, seed)
    ]
    return WeightBootstrap(frozen(weights), frozen(np.stack(refits)), asked.table.names)
