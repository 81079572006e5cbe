r"""Log score (Sec. 2.1): Kullback–Leibler divergence from the true posterior, up to a constant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from drystone.forms.view import View
from drystone.scores.score import RowScore

__all__ = ["LogScore"]


@dataclass(frozen=True, repr=False)
class LogScore(RowScore):
    r"""Negative mean log density of the true parameters.

    .. math::
        S = -\sum_n a_n \log q^*(\theta_n | y_n)

    Strictly proper. Its minimum over mixtures is the KL-closest one; −S is the mean log predictive density.

    Example:
        >>> import drystone as ds
        >>> table, fresh = ds.toy.table(200, seed=1), ds.toy.table(500, seed=2)
        >>> fit, alone = ds.stack(table, score=ds.LogScore()), ds.Stacking.single(table.names, "narrow")
        >>> round(fit.evaluate(fresh)["loss"], 2), round(alone.evaluate(fresh)["loss"], 2)
        (1.47, 1.97)
    """

    needs: ClassVar = frozenset({"log_q"})
    convex: ClassVar = True

    def rows(self, q: View) -> Tensor:
        """Return −log q*(θ_n | y_n)."""
        return -q.log_q()
