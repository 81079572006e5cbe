"""How steady the weights are: refitted to rows drawn again with replacement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drystone.stack import stack
from drystone.stacking import Stacking, frozen
from drystone.table import Table
from drystone.weighted import resampled

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


def bootstrap(fit: Stacking, table: Table, *, times: int = 100, seed: int = 0) -> WeightBootstrap:
    """Refit to resampled rows.

    Args:
        fit: with one set of weights.
        table: the rows it was fitted to.
        times: how many refits.
        seed: of the resampling.

    Example:
        >>> import drystone as ds
        >>> table = ds.toy.table(500, seed=1)
        >>> bootstrap(ds.stack(table), table, times=20).se.round(2)
        array([0.04, 0.04, 0.05, 0.01])
    """
    refits = [
        stack(table.reweighted(a), fit.form, fit.score, seed=seed).weights
        for a in resampled(table.row_weights, times, seed)
    ]
    return WeightBootstrap(fit.weights, frozen(np.stack(refits)), fit.names)
