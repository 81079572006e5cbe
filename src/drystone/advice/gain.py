"""What is gained as members are added, on rows that the weights were not fitted to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drystone.stacking import Stacking
from drystone.table import Table

__all__ = ["GainCurve", "gain_curve"]


@dataclass(frozen=True, eq=False)
class GainCurve:
    """Held-out loss against the number of members; lower is better.

    Attributes:
        score: what the loss is, in words.
        greedy_sizes: 1, 2, …: members chosen one after the other, (M,).
        greedy: held-out loss of the best m, (M,).
        greedy_se: standard error over rows of its difference from all members' loss, (M,).
        random_sizes: sizes of random subsets, (R,).
        random: held-out loss of random subsets, (R,).
        random_se: standard error over subsets, (R,).
        uniform: held-out loss of uniform weights on all members.
        all: held-out loss of the stack of all members.
    """

    score: str
    greedy_sizes: np.ndarray
    greedy: np.ndarray
    greedy_se: np.ndarray
    random_sizes: np.ndarray
    random: np.ndarray
    random_se: np.ndarray
    uniform: float
    all: float


def gain_curve(fit: Stacking, table: Table) -> GainCurve:
    """Held-out loss against the number of members."""
    raise NotImplementedError
