r"""Jensen–Shannon divergence by a critic (Sec. 2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from drystone.estimate import Estimate, mean_over_rows, split_folds
from drystone.forms.view import View
from drystone.scores.critic import held_out_bounds, pairs_of
from drystone.scores.score import RowScore

__all__ = ["JensenShannon"]

# Every row is held out once.
FOLDS = 5


@dataclass(frozen=True, repr=False)
class JensenShannon(RowScore):
    r"""How well a classifier can tell the truth from stacked draws.

    .. math::
        S = \log 2 + \max_D \left[ \tfrac12 E \log D(\theta_n, y_n) + \tfrac12 E \log(1 - D(\theta^*, y_n)) \right]

    the Jensen–Shannon divergence between p(θ, y) and q*(θ|y) p(y), estimated on rows the classifier has not seen
    (five folds, each judged by a classifier trained on the others); 0 if it cannot tell. Strictly proper.

    The value is an estimate with an error of its own (:meth:`estimate`), and in expectation a lower bound: a
    better classifier, or more rows to train it on, might see more. It can be below 0 by noise.

    The classifier sees θ, y, the place of θ among other stacked draws at the same y (by mean and standard
    deviation and by rank), and its rank within each member of the table (where that makes at most 64), also within
    those that carry no weight: estimates of several posteriors can be compared. It does not see the members' log
    densities: a table has them at the truth alone, and they would have to be known at the draws as well. The fewer
    draws per member, the less it can see.

    Args:
        hidden: units of the classifier's layers.
        epochs: at most so many, stopped early.
        draws: draws per row that it is shown.
        seed: of its initial weights and folds.

    Example:
        >>> import drystone as ds
        >>> table, score = ds.toy.table(100, seed=1), ds.JensenShannon(hidden=(8,), epochs=10, draws=2)
        >>> narrow, right = (ds.Stacking.single(table.names, name).view(table) for name in ("narrow", "right"))
        >>> score.estimate(narrow).value < score.estimate(right).value
        True
    """

    needs: ClassVar = frozenset({"draws"})
    adversarial: ClassVar = True
    lower_bound: ClassVar = True
    hidden: tuple[int, ...] = (64, 64)
    epochs: int = 100
    draws: int = 16
    seed: int = 0

    def __call__(self, q: View) -> Tensor:
        """The estimate, as a number without a gradient."""
        return torch.tensor(self.estimate(q).value, dtype=torch.float64)

    def estimate(self, q: View) -> Estimate:
        """Return a lower bound of the divergence with its standard error, by five-fold cross-fitting.

        It is a lower bound in expectation, whatever the classifier; the standard error is that of the mean over
        rows, and does not speak of what the classifier misses.
        """
        return mean_over_rows(self.rows(q).numpy(), q.row_weights.numpy())

    def rows(self, q: View) -> Tensor:
        """Return the bound of each row by a classifier that was trained on others, (N,)."""
        N = len(q.theta)
        if N < 20:
            raise ValueError(f"JensenShannon trains a classifier on rows; it needs at least 20, got {N}.")
        truth, draws = pairs_of(q, self.draws, self.seed)
        bounds = np.empty(N)
        for fit_rows, test_rows in split_folds(N, FOLDS, self.seed):
            bounds[test_rows] = self._bounds(truth, draws, q, fit_rows, test_rows)
        return torch.as_tensor(bounds)

    def between(self, q: View, fit_rows: np.ndarray, test_rows: np.ndarray) -> np.ndarray:
        """Return the bound of each of ``test_rows`` by a critic trained on ``fit_rows``."""
        truth, draws = pairs_of(q, self.draws, self.seed)
        return self._bounds(truth, draws, q, fit_rows, test_rows)

    def _bounds(
        self, truth: Tensor, draws: Tensor, q: View, fit_rows: np.ndarray, test_rows: np.ndarray
    ) -> np.ndarray:
        """Return the bound of each row of ``test_rows``."""
        return held_out_bounds(
            truth, draws, q.row_weights, q.d, fit_rows, test_rows, self.hidden, self.epochs, self.seed
        )
