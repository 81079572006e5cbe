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

__all__ = ["ALARM", "DOUBT", "Check", "check", "combined_p_value"]

# Below this an observation is called unlike the simulations; below the other, doubtful.
ALARM, DOUBT = 0.01, 0.05


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


def check(name: str, statistic: float, null: np.ndarray, a: np.ndarray) -> Check:
    """Return the check of a statistic against its values at simulations (n,) of row weights a (n,)."""
    p = _upper_shares(np.append(null, statistic), _with_observation(a))[-1]
    return Check(name, float(statistic), np.asarray(null, float), float(p))


def combined_p_value(checks: Sequence[Check], a: np.ndarray) -> float:
    """Return the p-value of the most unusual of several checks at the same simulations, of row weights a (n,).

    The least p-value of each simulation is ranked among those of the others, as the observation's is: no
    correction for several checks is needed, whatever their dependence. Equal ones are told apart by their sum.
    """
    weights = _with_observation(a)
    p = np.stack([_upper_shares(np.append(each.null, each.statistic), weights) for each in checks])
    least, total = p.min(0), p.sum(0)
    as_unusual = (least < least[-1]) | ((least == least[-1]) & (total <= total[-1]))
    return float(weights[as_unusual].sum() / weights.sum())


def _with_observation(a: np.ndarray) -> np.ndarray:
    return np.append(a, a.max())


def _upper_shares(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return for each value the weight of those at least as large, as a share, (n,)."""
    order = np.argsort(values, kind="stable")
    from_above = np.append(np.cumsum(weights[order][::-1])[::-1], 0.0)
    first = np.searchsorted(values[order], values, side="left")
    return from_above[first] / weights.sum()
