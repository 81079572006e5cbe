r"""Jensen–Shannon divergence by a critic (Sec. 2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from drystone.estimate import Estimate, split_folds
from drystone.forms.view import View
from drystone.scores.critic import Features, held_out_divergence
from drystone.scores.score import Score
from drystone.table import blocks

__all__ = ["JensenShannon"]


@dataclass(frozen=True, repr=False)
class JensenShannon(Score):
    r"""How well a classifier can tell the truth from stacked draws.

    .. math::
        S = \log 2 + \max_D \left[ \tfrac12 E \log D(\theta_n, y_n) + \tfrac12 E \log(1 - D(\theta^*, y_n)) \right]

    the Jensen–Shannon divergence between p(θ, y) and q*(θ|y) p(y), estimated on rows the classifier has not seen
    (two folds, each judged by a classifier trained on the other); 0 if it cannot tell. Strictly proper.

    The value is an estimate with an error of its own (:meth:`estimate`), and slightly low: a better classifier
    might see more.

    Args:
        hidden: units of the classifier's layers.
        epochs: at most so many, stopped early.
        draws: draws a row it is shown.
        seed: of its initial weights and folds.
    """

    needs: ClassVar = frozenset({"draws"})
    adversarial: ClassVar = True
    hidden: tuple[int, ...] = (64, 64)
    epochs: int = 100
    draws: int = 16
    seed: int = 0

    def __call__(self, q: View) -> Tensor:
        """The estimate, as a number without a gradient."""
        return torch.tensor(self.estimate(q).value, dtype=torch.float64)

    def estimate(self, q: View) -> Estimate:
        """Return the divergence with its standard error, by two-fold cross-fitting."""
        N = len(q.theta)
        if N < 20:
            raise ValueError(f"JensenShannon trains a classifier on rows; it needs at least 20, got {N}.")
        features = blocks.cached(q.table, Features)
        with torch.no_grad():
            draws = q.draws(min(self.draws, q.table.draws.shape[2]), self.seed)
        share, value, error = [], [], []
        for fit_rows, test_rows in split_folds(N, 2, self.seed):
            estimate = self.between(features, q, draws, fit_rows, test_rows)
            share.append(float(q.row_weights[test_rows].sum()))
            value.append(estimate.value)
            error.append(estimate.se)
        return Estimate(float(np.dot(share, value)), float(np.linalg.norm(np.multiply(share, error))))

    def between(
        self, features: Features, q: View, draws: Tensor, fit_rows: np.ndarray, test_rows: np.ndarray
    ) -> Estimate:
        """Return the divergence on ``test_rows`` by a critic trained on ``fit_rows``."""
        return held_out_divergence(
            features, q.theta, draws, q.row_weights, fit_rows, test_rows, self.hidden, self.epochs, self.seed
        )
