r"""A form whose weights are of several fits, so that every row is judged by a fit to other rows.

.. math:: q^*(\theta_n \mid y_n) = \Phi(q_1, \dots, q_K; w^{(f(n))})(\theta_n \mid y_n)

:math:`w^{(f)}` is fitted to all rows but those of fold f, and f(n) is the fold of row n. On the rows of the folds
this is an honest substitute for a test set; at new data it is the form itself, with the weights of all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from drystone.forms.form import Arrays, Form, MemberLike, Shares
from drystone.forms.params import check_array
from drystone.forms.view import JoinedView, Params, View
from drystone.table import Table

__all__ = ["CrossFitted"]


@dataclass(frozen=True, repr=False)
class CrossFitted(Form):
    """A form with parameters ``weights`` (K,), ``fold_weights`` (F, K) and ``fold`` (N,).

    Args:
        form: a form whose only parameters are weights, such as a mixture or a product.
    """

    form: Form
    gives: ClassVar = frozenset({"log_q", "rank", "mean", "moments", "interval", "draws"})

    def combine(self, params: Params, table: Table, softness: Tensor | float = 0.0) -> View:
        """Return the form on each fold, with the weights of the fit to the others."""
        fold = params["fold"].detach().numpy()
        if len(fold) != table.N:
            raise ValueError(f"cross-fitted weights are of {len(fold)} rows; the table has {table.N}.")
        weights = params["fold_weights"]
        rows = [np.flatnonzero(fold == f) for f in range(len(weights))]
        parts = [
            self.form.combine({"weights": w}, table.select(rows=of_fold), softness)
            for w, of_fold in zip(weights, rows, strict=True)
        ]
        return JoinedView(table, parts, rows)

    def requires(self, statistic: str) -> str:
        """Return the statistic that the form itself requires."""
        return self.form.requires(statistic)

    def expand_params(self, params: dict[str, np.ndarray], members: np.ndarray, K: int) -> dict[str, np.ndarray]:
        """Return the parameters of K members from those of some."""
        weights, by_fold = np.zeros(K), np.zeros((len(params["fold_weights"]), K))
        weights[members], by_fold[:, members] = params["weights"], params["fold_weights"]
        return {"weights": weights, "fold_weights": by_fold, "fold": params["fold"]}

    def active_members(self, params: Arrays) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the members that any fit uses, and their parameters."""
        active = np.flatnonzero((params["weights"] > 0) | (params["fold_weights"] > 0).any(0))
        return active, {
            "weights": params["weights"][active],
            "fold_weights": params["fold_weights"][:, active],
            "fold": params["fold"],
        }

    def check_params(self, params: Arrays, K: int, d: int) -> None:
        """Raise ``ValueError`` unless there are K weights of each fit."""
        self.form.check_params({"weights": params["weights"]}, K, d)
        check_array("fold_weights", params["fold_weights"], (len(params["fold_weights"]), K))

    def describe_params(self, params: Arrays, names: tuple[str, ...]) -> list[str]:
        """Return the description of the weights of all rows."""
        return self.form.describe_params({"weights": params["weights"]}, names)

    def shares(self, params: Arrays, table: Table) -> Shares:
        """Return the weights of all rows."""
        return self.form.shares({"weights": params["weights"]}, table)

    def draw(
        self, params: Arrays, members: Sequence[MemberLike], n: int, y: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return draws at new data with the weights of all rows."""
        return self.form.draw({"weights": params["weights"]}, members, n, y, rng)

    def log_prob(
        self, params: Arrays, members: Sequence[MemberLike], theta: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        """Return the log density at new data with the weights of all rows."""
        return self.form.log_prob({"weights": params["weights"]}, members, theta, y)
