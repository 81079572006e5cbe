r"""The gain from further members like these, extrapolated from random subsets of these.

What M further members would add to K is, one size down, what K members add to j of them that came up at random,
with K/j = (K + M)/K: the same multiple. So random subsets T of j members give a distribution of gains that already
has in it which members happened to come up,

.. math::
    g = \rho(c) \, (S_T - S_K), \qquad \rho(c) = \frac{K^{-c} - (K + M)^{-c}}{j^{-c} - K^{-c}},

with the held-out losses S of weights fitted to other rows, and their noise. The factor ρ is that of a mean loss
:math:`a + b m^{-c}` of m members. A few members say next to nothing about c: it is small where good members are
rare (most of the gain is to come across one) and near 1 where all are alike and only their noise is averaged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drystone._arrays import frozen
from drystone.estimate import mean_over_folds

__all__ = ["BATCH", "Further", "further_gain", "nested_sizes"]

# The least number of further members that is asked about: what one more training run gives by default.
BATCH = 16
# Mean and standard deviation of the exponent c, a normal variable: chosen on nine sweeps of 24 flows on four tasks
# so that ranges hold as many gains as they say (`benchmarks/advice.py --choosing`).
EXPONENT = (0.35, 0.35)
# Numbers that stand for the distribution of the gain.
DRAWS = 2000


@dataclass(frozen=True, eq=False)
class Further:
    """The gain that so many further members like these would bring, as a distribution.

    Attributes:
        members: number of further members, M.
        gains: equally probable values of the gain, ascending, (B,); +inf where a row may be unexplained as yet.
    """

    members: int
    gains: np.ndarray

    @property
    def median(self) -> float:
        """The gain that is as likely exceeded as not."""
        return self._quantile(0.5)

    def range(self, level: float = 0.8) -> tuple[float, float]:
        """Return the central range that holds the gain with this probability."""
        return self._quantile((1 - level) / 2), self._quantile((1 + level) / 2)

    def chance(self, least: float) -> float:
        """Return the probability of a gain above ``least``."""
        return float((self.gains > least).mean())

    def _quantile(self, level: float) -> float:
        return float(np.quantile(self.gains, level, method="inverted_cdf"))


def nested_sizes(K: int, M: int) -> tuple[float, list[int]]:
    """Return K²/(K + M), at least 1 and at most K − 1, and the whole numbers next to it.

    Example:
        >>> nested_sizes(8, 16), nested_sizes(3, 16)
        ((2.6666666666666665, [2, 3]), (1.0, [1]))
    """
    j = float(np.clip(K * K / (K + M), 1, K - 1))
    return j, sorted({int(np.floor(j)), int(np.ceil(j))})


def further_gain(K: int, M: int, gained: dict[int, np.ndarray], shares: np.ndarray, seed: int) -> Further:
    """Return the gain of M further members over K.

    Args:
        K: number of members.
        M: number of further ones.
        gained: for the sizes of :func:`nested_sizes`, the held-out gain of all K over random subsets of that size,
            (folds, subsets).
        shares: weights of the folds, which sum to one.
        seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    between, sizes = nested_sizes(K, M)
    upper = rng.random(DRAWS) < between - sizes[0]  # in proportion, where K²/(K + M) is between two sizes
    c = rng.normal(*EXPONENT, DRAWS)
    gains = np.empty(DRAWS)
    for j, drawn in zip(sizes, (~upper, upper), strict=False):
        of_subsets = [mean_over_folds(gain, shares) for gain in gained[j].T]
        chosen = rng.integers(len(of_subsets), size=int(drawn.sum()))
        means = np.array([gain.value for gain in of_subsets])[chosen]
        errors = np.nan_to_num([gain.se for gain in of_subsets])[chosen]  # none, of a gain that is infinite
        gains[drawn] = (means + errors * rng.normal(size=len(chosen))) * _ratio(c[drawn], j, K, M)
    return Further(M, frozen(np.sort(gains)))


def _ratio(c: np.ndarray, j: int, K: int, M: int) -> np.ndarray:
    """Return ρ(c): (K^−c − (K + M)^−c) / (j^−c − K^−c), log((K + M)/K) / log(K/j) for c = 0."""
    c = np.where(np.abs(c) < 1e-6, 1e-6, c)
    return (float(K) ** -c - float(K + M) ** -c) / (float(j) ** -c - float(K) ** -c)
