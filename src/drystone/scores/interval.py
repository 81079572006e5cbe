r"""Interval score (Sec. 2.4): are central intervals short, and do they cover?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softplus

from drystone.forms.view import View
from drystone.scores.score import RowScore, as_scale, unit
from drystone.table.inputs import Levels, as_levels, each_level

__all__ = ["IntervalScore"]


@dataclass(frozen=True, repr=False)
class IntervalScore(RowScore):
    r"""Interval score of central 1 − α intervals (Eq. 10; Gneiting & Raftery 2007).

    .. math::
        S = \sum_n a_n \left[ u_n - l_n
          + \tfrac2\alpha (l_n - \theta_n)_+ + \tfrac2\alpha (\theta_n - u_n)_+ \right]

    averaged over parameters (and levels, if several). Strictly proper for the two quantiles.

    Args:
        alpha: miscoverage; 0.1 for 90 % intervals.
        scale: divide each parameter by this first, (d,); the prior's standard deviations make parameters of
            different units comparable.

    Example:
        >>> import drystone as ds
        >>> table, score = ds.toy.table(200, seed=1), ds.IntervalScore(alpha=0.1)
        >>> fit = ds.stack(table, ds.IntervalAggregation(weights="convex"), score)
        >>> alone = [ds.Stacking.single(table.names, name).evaluate(table, score)["loss"] for name in table.names]
        >>> fit.loss < min(alone), fit.gap < 1e-6
        (True, True)
    """

    needs: ClassVar = frozenset({"interval"})
    has_units: ClassVar = True
    smooth: ClassVar = False
    alpha: Levels = 0.1
    scale: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", as_levels(self.alpha))
        object.__setattr__(self, "scale", as_scale(self.scale))

    def rows(self, q: View) -> Tensor:
        """Return the score of each row."""
        levels = each_level(self.alpha)
        return sum((self._level(q, alpha) for alpha in levels), torch.zeros(1)) / len(levels)

    def _level(self, q: View, alpha: float) -> Tensor:
        lower, upper = q.interval(alpha).unbind(-1)
        below, above = positive(lower - q.theta, q.softness), positive(q.theta - upper, q.softness)
        return (((upper - lower) + 2 / alpha * (below + above)) / unit(self.scale, q.d)).mean(-1)


def positive(x: Tensor, softness: Tensor) -> Tensor:
    """Return (x)₊; with a softness, the integral of the sigmoid of 2x/softness."""
    return softplus(2 * x / softness) * softness / 2 if softness.any() else x.clamp(min=0)
