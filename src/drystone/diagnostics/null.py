r"""Checks of one observation: a statistic at y_o, held against the same statistic at simulations.

If y_o is a simulation as the others are, its place among them is uniform, and so is the p-value

.. math::
    p = \frac{a_o + \sum_n a_n 1(T_n \ge T_o)}{a_o + \sum_n a_n}

with row weights a_n, all equal unless the simulations came from a proposal; the weight a_o of the observation,
which is not known then, is taken as the largest of them. No p-value is below 1/(n + 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

__all__ = ["ALARM", "DOUBT", "Check", "Verdict", "check", "combined_p_value", "least_p_value", "most_unusual"]

# Below this an observation is called unlike the simulations; below the other, doubtful.
ALARM, DOUBT = 0.01, 0.05
# Upper share of the simulations to which the tail of a statistic is fitted.
TAIL = 0.1


@dataclass(frozen=True, eq=False)
class Check:
    """A statistic at an observation and at simulations; large values are unusual.

    Attributes:
        name: of the statistic.
        statistic: at the observation.
        null: at the simulations, (n,).
        p_value: share of the simulations with a statistic at least as large, counting the observation itself.

    Example:
        >>> print(check("distance", 3.5, np.array([1.0, 2.0, 3.0, 4.0]), np.ones(4)))
        distance: 3.5, at simulations 2.5 (1.15 to 3.85 in 90 % of them); p = 0.4
    """

    name: str
    statistic: float
    null: np.ndarray = field(repr=False)
    p_value: float

    def __str__(self) -> str:
        low, middle, high = np.quantile(self.null, [0.05, 0.5, 0.95])
        return (
            f"{self.name}: {self.statistic:.3g}, at simulations {middle:.3g} ({low:.3g} to {high:.3g} in 90 % of "
            f"them); p = {self.p_value:.2g}"
        )


class Verdict:
    """What follows from a p-value, and from the least that so many simulations can give."""

    p_value: float
    least: float

    @property
    def alarm(self) -> bool:
        """Whether the p-value is below 0.01."""
        return self.p_value < ALARM

    @property
    def too_few(self) -> bool:
        """Whether the observation is beyond all simulations, and these are too few for an alarm."""
        return self.p_value <= self.least and not self.alarm


def check(name: str, statistic: float, null: np.ndarray, a: np.ndarray) -> Check:
    """Return the check of a statistic against its values at simulations (n,) of row weights a (n,).

    Values are rounded to float32: those of equal data are ties, also if one was computed in a batch and one alone.
    """
    with np.errstate(over="ignore"):
        rounded = np.append(null, statistic).astype(np.float32).astype(float)
    p = _upper_shares(rounded, _with_observation(a))[-1]
    return Check(name, float(rounded[-1]), rounded[:-1], float(p))


def least_p_value(a: np.ndarray) -> float:
    """Return the p-value of an observation beyond all simulations, of row weights a (n,)."""
    weights = _with_observation(a)
    return float(weights[-1] / weights.sum())


def most_unusual(checks: Sequence[Check]) -> Check:
    """Return the check with the least p-value; of several, that whose statistic is farthest beyond simulations."""

    def rank(each: Check) -> tuple[float, float]:
        middle, high = np.quantile(each.null, [0.5, 1 - TAIL])
        width = float(high - middle)
        return each.p_value, -(each.statistic - float(middle)) / width if width > 0 else 0.0

    return min(checks, key=rank)


def combined_p_value(checks: Sequence[Check], a: np.ndarray) -> float:
    r"""Return the p-value of the most unusual of several checks at the same simulations, of row weights a (n,).

    Each statistic is turned into a surprise, and the largest of each simulation is ranked among those of the
    others, as the observation's is: no correction for several checks is needed, whatever their dependence. The
    surprise is −log of the share of larger ones; in the upper tenth, where there are few, that of an exponential
    tail fitted to :math:`\operatorname{asinh}` of the standardized statistic. So it matters how far beyond the
    simulations an observation is: ranks alone would let one check hide what another sees.
    """
    weights = _with_observation(a)
    surprise = np.max([_surprise(np.append(each.null, each.statistic), weights) for each in checks], axis=0)
    return float(weights[surprise >= surprise[-1]].sum() / weights.sum())


def _surprise(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return −log P(T ≥ T_n) of statistics (n,), with an exponential tail beyond the upper tenth, (n,)."""
    share = _upper_shares(values, weights)
    below, tail = share > TAIL, share <= TAIL
    if not below.any() or not tail.any():
        return -np.log(share)
    edge = values[below].max()
    middle = np.median(values)
    x = np.arcsinh((values - middle) / (edge - middle)) if middle < edge < np.inf else values
    excess = x - x[below].max()
    mean_excess = float(np.average(excess[tail], weights=weights[tail]))
    if not 0 < mean_excess < np.inf:
        return -np.log(share)
    # Of many ties below and one value above, the fitted tail would say next to nothing: the share says more.
    fitted = -np.log(share[below].min()) + excess / mean_excess
    return np.where(tail, np.maximum(fitted, -np.log(share)), -np.log(share))


def _with_observation(a: np.ndarray) -> np.ndarray:
    return np.append(a, a.max())


def _upper_shares(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return for each value the weight of those at least as large, as a share, (n,)."""
    order = np.argsort(values, kind="stable")
    from_above = np.append(np.cumsum(weights[order][::-1])[::-1], 0.0)
    first = np.searchsorted(values[order], values, side="left")
    return from_above[first] / weights.sum()
