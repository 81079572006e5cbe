"""Metrics: scores to compare by, each with the direction in which it is printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from drystone.forms import View
from drystone.scores import EnergyScore, IntervalScore, LogScore, MomentScore, RankCvM, Score

__all__ = [
    "COVERAGE_ERROR",
    "ENERGY_SCORE",
    "INTERVAL_SCORE",
    "LOG_DENSITY",
    "METRICS",
    "MOMENT_ERROR",
    "RANK_DISTANCE",
    "CoverageError",
    "Metric",
]


@dataclass(frozen=True, repr=False)
class CoverageError(Score):
    r"""How far the coverage of central 1 − α intervals is from 1 − α, averaged over parameters.

    .. math::
        S = \frac1d \sum_j \left| \sum_n a_n 1\{\alpha/2 \le r_{nj} \le 1 - \alpha/2\} - (1 - \alpha) \right|

    Read off the ranks. A score to compare by, not to stack for: it has no gradient, and the prior itself has the
    right coverage.

    Args:
        alpha: miscoverage; 0.1 for 90 % intervals.
    """

    needs: ClassVar = frozenset({"rank"})
    smooth: ClassVar = False
    alpha: float = 0.1

    def __call__(self, q: View) -> Tensor:
        """Return the error, a scalar."""
        coverage = torch.as_tensor(q.row_weights.numpy() @ self.inside(q).numpy())
        return (coverage - (1 - self.alpha)).abs().mean()

    def inside(self, q: View) -> Tensor:
        """Return whether each true parameter is inside its interval, (N, d)."""
        r = q.rank()
        return (self.alpha / 2 <= r) & (r <= 1 - self.alpha / 2)


@dataclass(frozen=True)
class Metric:
    """A score to compare methods by, with the direction in which it is printed.

    A score that is a mean over rows (:class:`~drystone.RowScore`, or a sum of such) has the standard error of a
    mean. Any other is evaluated on 200 bootstrap samples of the test rows for each method: mind a score that is
    slow.

    Attributes:
        score: one of Drystone's or of your own; lower is better, as always.
        name: as printed; the score's own ``repr`` if it is empty.
        higher_is_better: whether the negative score is printed, as the log density is.
        floor: effective number of rows to the value that an exactly calibrated posterior has on average, if that
            is not the optimum.
    """

    score: Score
    name: str = ""
    higher_is_better: bool = False
    floor: Callable[[float], float] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.score, Score):
            raise TypeError(f"`score` must be a Score; got {type(self.score).__name__}.")
        object.__setattr__(self, "name", self.name or repr(self.score))

    @property
    def needs(self) -> frozenset[str]:
        """The statistics of a posterior that the score looks at."""
        return self.score.needs

    @property
    def sign(self) -> int:
        """+1 if lower values are better, −1 if higher ones are."""
        return -1 if self.higher_is_better else 1

    @property
    def better(self) -> str:
        """The better direction in words: "higher" or "lower"."""
        return "higher" if self.higher_is_better else "lower"


LOG_DENSITY = Metric(LogScore(), "log density", higher_is_better=True)
RANK_DISTANCE = Metric(RankCvM(), "rank distance D", floor=lambda rows: 1 / (6 * rows))
COVERAGE_ERROR = Metric(CoverageError(0.1), "90% coverage error")
MOMENT_ERROR = Metric(MomentScore(diagonal=True), "moment error")
ENERGY_SCORE = Metric(EnergyScore(), "energy score")
INTERVAL_SCORE = Metric(IntervalScore(0.1), "90% interval score")
METRICS = (LOG_DENSITY, RANK_DISTANCE, COVERAGE_ERROR, MOMENT_ERROR, ENERGY_SCORE, INTERVAL_SCORE)
