r"""Moments (Sec. 2.5): are the posterior mean and covariance right?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from drystone.forms.view import View
from drystone.scores.score import RowScore, as_scale, unit

__all__ = ["MeanScore", "MomentScore"]


@dataclass(frozen=True, repr=False)
class MomentScore(RowScore):
    r"""Dawid–Sebastiani score of the stacked mean and covariance (Eq. 13).

    .. math::
        S = \sum_n a_n \left[ \log\det V_n + (\theta_n - \mu_n)^\top V_n^{-1} (\theta_n - \mu_n) \right]

    Strictly proper for the first two moments.

    Args:
        diagonal: look at each parameter's variance alone and average over parameters, as the tables of the
            paper do: log V_jj + (θ_j − μ_j)²/V_jj.

    Example:
        >>> import drystone as ds
        >>> table = ds.toy.table(100, seed=1)
        >>> fit = ds.stack(table, score=ds.MomentScore())
        >>> fit.loss < ds.stack(table).evaluate(table, fit.score)["loss"]
        True
    """

    needs: ClassVar = frozenset({"moments"})
    infinite: ClassVar = (
        "the stacked covariance is not positive definite at some rows: it takes more draws per simulation than "
        "there are parameters, and members that vary; or use MomentScore(diagonal=True)"
    )
    diagonal: bool = False

    def rows(self, q: View) -> Tensor:
        """Return the score of each row, +∞ where the covariance is not positive definite, (N,)."""
        error, V = q.error(), q.cov()
        if self.diagonal:
            variance = torch.diagonal(V, dim1=-2, dim2=-1)
            score = torch.log(variance) + error**2 / variance
            return torch.where(variance <= 0, torch.inf, score).mean(-1)  # NaN stays NaN
        factor, failed = torch.linalg.cholesky_ex(V)
        if failed.any():  # of one member alone, perhaps: others may make a mixture regular
            factor = torch.where((failed > 0)[:, None, None], torch.eye(V.shape[-1], dtype=V.dtype), factor)
        whitened = torch.linalg.solve_triangular(factor, error[..., None], upper=False)[..., 0]
        log_det = 2 * torch.diagonal(factor, dim1=-2, dim2=-1).log().sum(-1)
        singular = torch.where(V.isnan().any(-1).any(-1), torch.nan, torch.inf)
        return torch.where(failed > 0, singular, log_det + (whitened**2).sum(-1))


@dataclass(frozen=True, repr=False)
class MeanScore(RowScore):
    r"""Squared error of the stacked mean.

    .. math::
        S = \sum_n a_n \|\theta_n - \mu_n\|^2

    Proper for the mean alone: it says nothing of the spread. Use it in a sum.

    Args:
        scale: divide each parameter by this first, (d,); the prior's standard deviations make parameters of
            different units comparable.

    Example:
        >>> import drystone as ds
        >>> fit = ds.stack(ds.toy.table(200, seed=1), score=ds.LogScore() + 0.5 * ds.MeanScore())
        >>> {name: round(value, 2) for name, value in fit.terms.items()}
        {'LogScore()': 1.34, 'MeanScore()': 0.8}
    """

    needs: ClassVar = frozenset({"mean"})
    has_units: ClassVar = True
    convex: ClassVar = True
    scale: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", as_scale(self.scale))

    def rows(self, q: View) -> Tensor:
        """Return ‖θ_n − μ_n‖²."""
        return ((q.error() / unit(self.scale, q.d)) ** 2).sum(-1)
