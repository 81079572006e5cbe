"""Metrics: scores to compare by, each with the direction in which it is printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor

from drystone.errors import IntractableError
from drystone.estimate import effective_rows
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
    "coverage_error_floor",
    "rank_distance_floor",
]


@dataclass(frozen=True, repr=False)
class CoverageError(Score):
    r"""How far the coverage of central 1 − α intervals is from 1 − α, averaged over parameters.

    .. math::
        S = \frac1d \sum_j \left| \sum_n a_n 1\{l_{nj} \le \theta_{nj} \le u_{nj}\} - (1 - \alpha) \right|

    with the ends l, u of the intervals. A mixture of members of which the table holds ranks and the quantiles at a
    few levels has no ends; the ranks tell whether the truth lies between them. A score to compare by, not to stack
    for: it has no gradient, and the prior itself has the right coverage.

    Args:
        alpha: miscoverage; 0.1 for 90 % intervals.
    """

    needs: ClassVar = frozenset({"interval"})
    smooth: ClassVar = False
    calibration_only: ClassVar = True
    alpha: float = 0.1

    def __call__(self, q: View) -> Tensor:
        """Return the error, a scalar."""
        coverage = torch.as_tensor(q.row_weights.numpy() @ self.inside(q).numpy())
        return (coverage - (1 - self.alpha)).abs().mean()

    def inside(self, q: View) -> Tensor:
        """Return whether each true parameter is inside its interval, (N, d)."""
        try:
            lower, upper = q.interval(self.alpha).unbind(-1)
            return (lower <= q.theta) & (q.theta <= upper)
        except ValueError as no_ends:  # too few levels for quantiles of a mixture
            try:
                r = q.rank()
            except (IntractableError, ValueError):
                raise no_ends from None
        u = r if q.S is None else (q.S * r + 0.5) / (q.S + 1)
        return (self.alpha / 2 <= u) & (u <= 1 - self.alpha / 2)

    def on_samples(self, q: View, weightings: np.ndarray) -> np.ndarray:
        """Return the error on halves of the rows, with two more rows inside and two outside.

        Where all intervals held the truth, the rows alone would say that all always will (Agresti & Coull 1998).
        """
        rng, rows = np.random.default_rng(0), effective_rows(q.row_weights.numpy())
        sign = rng.choice([-1, 1], (4, len(weightings) // 2, 1))
        more = 1 + np.concatenate([sign, -sign], 1)  # a row is in one half, twice, or in the other
        more_inside, more_outside = more[:2].sum(0), more[2:].sum(0)
        held = rows * (weightings @ self.inside(q).double().numpy())
        coverage = (held + more_inside) / (rows + more_inside + more_outside)
        return np.abs(coverage - (1 - self.alpha)).mean(1)


@dataclass(frozen=True)
class Metric:
    """A score to compare methods by, with the direction in which it is printed.

    A score that is a mean over rows (:class:`~drystone.RowScore`, or a sum of such) has the standard error of a
    mean. Any other is evaluated on 100 random halves of the test rows and on the other halves for each method:
    mind a score that is slow.

    Attributes:
        score: one of Drystone's or of your own; lower is better, as always.
        name: as printed; the score's own ``repr`` if it is empty. "(lower bound)" is added where the score is one.
        higher_is_better: whether the negative score is printed, as the log density is.
        floor: the value that an exactly calibrated posterior has on average, if that is not the optimum: a
            function of the (effective) number of rows and of S, the draws per row, which may be None.

    Example:
        >>> import drystone as ds
        >>> metric = ds.Metric(ds.MeanScore(), "squared error of the mean")
        >>> comparison = ds.compare(ds.toy.table(200, seed=1), ds.toy.table(200, seed=2), metrics=[metric])
        >>> print(comparison.of(metric).best, comparison.of(metric).methods["stacked"].value)
        narrow 1.101 ± 0.098
    """

    score: Score
    name: str = ""
    higher_is_better: bool = False
    floor: Callable[[float, int | None], float] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.score, Score):
            raise TypeError(f"`score` must be a Score; got {type(self.score).__name__}.")
        name = self.name or repr(self.score)
        if self.score.lower_bound and "lower bound" not in name:
            name += " (lower bound)"
        object.__setattr__(self, "name", name)

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


def rank_distance_floor(rows: float, S: int | None) -> float:
    r"""Return E[D] of the rank distance if ranks are uniform on {0, 1, …, S}/S.

    .. math::
        E[D] = \frac{1}{6N} \frac{S + 2}{S + 1} + \frac{1}{6 S (S + 1)}

    The first part is the noise of N rows, the second the steps of S draws; 1/(6N) for S → ∞.

    Example:
        >>> print(f"{rank_distance_floor(500, None):.1e} {rank_distance_floor(500, 20):.1e}")
        3.3e-04 7.5e-04
    """
    if S is None:
        return 1 / (6 * rows)
    return (S + 2) / (S + 1) / (6 * rows) + 1 / (6 * S * (S + 1))


def coverage_error_floor(rows: float, S: int | None, alpha: float = 0.1) -> float:
    r"""Return E|ĉ − (1 − α)| of intervals that hold the truth with the probability c that S draws allow.

    ĉ is normal with mean c and standard deviation σ = √(c(1 − c)/N). Intervals end at the outermost of S draws if
    these are too few for the level, so c ≤ (S − 1)/(S + 1).

    Example:
        >>> print(f"{coverage_error_floor(500, None):.3f} {coverage_error_floor(500, 10):.3f}")
        0.011 0.082
    """
    c = 1 - alpha if S is None else min(1 - alpha, (S - 1) / (S + 1))
    bias, sigma = c - (1 - alpha), np.sqrt(c * (1 - c) / rows)
    if sigma == 0:
        return abs(bias)
    folded = sigma * np.sqrt(2 / np.pi) * np.exp(-((bias / sigma) ** 2) / 2)
    return float(folded + bias * (1 - 2 * ndtr(-bias / sigma)))


LOG_DENSITY = Metric(LogScore(), "log density", higher_is_better=True)
RANK_DISTANCE = Metric(RankCvM(), "rank distance D", floor=rank_distance_floor)
COVERAGE_ERROR = Metric(CoverageError(0.1), "90% coverage error", floor=coverage_error_floor)
MOMENT_ERROR = Metric(MomentScore(diagonal=True), "moment error")
ENERGY_SCORE = Metric(EnergyScore(), "energy score")
INTERVAL_SCORE = Metric(IntervalScore(0.1), "90% interval score")
METRICS = (LOG_DENSITY, RANK_DISTANCE, COVERAGE_ERROR, MOMENT_ERROR, ENERGY_SCORE, INTERVAL_SCORE)
