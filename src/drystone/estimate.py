"""Estimates with standard errors: means over rows and folds, resampled rows, and how they are printed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

__all__ = [
    "UNRELIABLE_PARETO",
    "Estimate",
    "bandwidth_for",
    "bootstrap_weights",
    "effective_number",
    "effective_rows",
    "half_sample_error",
    "half_samples",
    "kernel_weights",
    "mean_over_folds",
    "mean_over_rows",
    "split_folds",
    "standard_error",
]

# Standard errors below this are printed with an exponent.
SMALL = 1e-7
# Pareto shape of importance weights above which their mean is not to be relied on (Vehtari et al. 2024).
UNRELIABLE_PARETO = 0.7


@dataclass(frozen=True)
class Estimate:
    """A value with its standard error.

    Prints as ``value ± se`` with the digits that the standard error supports; ``f"{estimate:+}"`` prints the sign
    of positive values too. An undefined value (NaN) prints as nothing.

    Attributes:
        value: the estimate.
        se: its standard error; NaN if it is not known.

    Example:
        >>> print(Estimate(0.123456, 0.0123), f"{Estimate(3.2, 0.4):+}", sep=", ")
        0.123 ± 0.012, +3.20 ± 0.40
    """

    value: float
    se: float

    def __str__(self) -> str:
        return format(self)

    def __format__(self, sign: str) -> str:
        if sign not in ("", "+"):
            raise ValueError(f"an estimate is formatted with '' or '+'; got {sign!r}.")
        if np.isnan(self.value):
            return ""
        if 0 < self.se < SMALL and abs(self.value) < 1e3 * SMALL:
            exponent = int(np.floor(np.log10(max(abs(self.value), self.se))))
            mantissas = Estimate(self.value / 10.0**exponent, self.se / 10.0**exponent)
            return f"({mantissas:{sign}})e{exponent:+03d}"
        # Two digits of the standard error.
        digits = 4 if not 1e-12 < self.se < np.inf else int(np.clip(1 - np.floor(np.log10(self.se)), 0, 8))
        return f"{self.value:{sign}.{digits}f} ± {self.se:.{digits}f}"


def standard_error(rows: np.ndarray, a: np.ndarray) -> float:
    r"""Return the standard error of a weighted mean, :math:`\sqrt{\sum_n a_n^2 (x_n - \bar x)^2}`.

    Args:
        rows: x_n, (N,).
        a: row weights, (N,), which sum to one.

    Returns:
        NaN where one row carries all the weight, or a row is infinite (a density of 0).
    """
    if a.max() >= 1:
        return float("nan")
    with np.errstate(invalid="ignore"):
        return float(np.sqrt((a**2 * (rows - a @ rows) ** 2).sum()))


def mean_over_rows(rows: np.ndarray, a: np.ndarray) -> Estimate:
    """Return the mean of rows (N,) with weights a (N,), which sum to one."""
    return Estimate(float(a @ rows), standard_error(rows, a))


def mean_over_folds(values: np.ndarray, shares: np.ndarray | None = None) -> Estimate:
    r"""Return the mean of a few independent values, with the correction F/(F − 1) of the variance.

    Args:
        values: one per fold, (F,).
        shares: weights of the folds, (F,), which sum to one; None for equal ones.
    """
    folds = len(values)
    shares = np.full(folds, 1 / folds) if shares is None else shares
    mean = mean_over_rows(values, shares)
    return Estimate(mean.value, mean.se * float(np.sqrt(folds / (folds - 1))))


def bootstrap_weights(a: np.ndarray, times: int, seed: int) -> Iterator[np.ndarray]:
    """Yield row weights (N,) of bootstrap samples: rows drawn with replacement, each with its own weight."""
    rng, N = np.random.default_rng(seed), len(a)
    for _ in range(times):
        weights = rng.multinomial(N, np.full(N, 1 / N)) * a
        yield weights / weights.sum()


def half_samples(a: np.ndarray, times: int, seed: int) -> np.ndarray:
    """Return row weights of random halves of the rows, and below them those of the other halves, (2 times, N)."""
    rng, N = np.random.default_rng(seed), len(a)
    sign = rng.permuted(np.tile(np.where(np.arange(N) % 2, -1, 1), (times, 1)), axis=1)
    weights = (1 + np.concatenate([sign, -sign])) * a
    return weights / weights.sum(1, keepdims=True)


def half_sample_error(value: float, halves: np.ndarray) -> float:
    r"""Return the standard error of a statistic from its values on half-samples and on their complements.

    A statistic of N rows is T = τ + L + Q, with a part L that is linear and a part Q that is quadratic in the
    noise of the rows. A squared distance is all Q where the true distance is 0. Resampled rows have both about the
    value observed,

    .. math::
        L_b = \tfrac12 (T_b - T_b'), \qquad Q_b = \tfrac12 (T_b + T_b') - T,

    but their L also has the noise that the value observed has: E Var(L_b) = Var(L) + 2 Var(Q). So

    .. math::
        \mathrm{Var}(T) = \mathrm{Var}(L_b) - \mathrm{Var}(Q_b), \text{ but at least } \mathrm{Var}(Q_b).

    Args:
        value: T, on all rows.
        halves: T_b on some halves of the rows, then T_b' on the other halves, (2B,).
    """
    one, other = np.split(halves, 2)
    linear, quadratic = np.var((one - other) / 2, ddof=1), np.var((one + other) / 2 - value, ddof=1)
    return float(np.sqrt(max(linear - quadratic, quadratic)))


def effective_number(weights: np.ndarray) -> float:
    r"""Return :math:`\exp(-\sum_k w_k \log w_k)`: how many equal weights have the same entropy.

    Args:
        weights: (K,), ≥ 0, which sum to one.

    Example:
        >>> print(f"{effective_number(np.array([0.5, 0.5, 0.0])):.1f}")
        2.0
    """
    w = weights[weights > 0]
    return float(np.exp(-(w * np.log(w)).sum()))


def effective_rows(a: np.ndarray) -> float:
    """Return 1 / Σ a_n²: the number of equally weighted rows that carry as much as rows of weights a (N,)."""
    return float(1 / (a**2).sum())


def kernel_weights(a: np.ndarray, squared: np.ndarray, bandwidth: float) -> np.ndarray:
    r"""Return :math:`a_n \exp(-(s_n - \min s) / 2h^2)`, (N,): rows of weights a at squared distances s."""
    return a * np.exp(-(squared - squared.min()) / (2 * bandwidth**2))


def bandwidth_for(a: np.ndarray, squared: np.ndarray, effective: float) -> float:
    """Return the least bandwidth h for which :func:`kernel_weights` leave so many effective rows."""
    low, high = -20.0, 20.0  # of log h; effective rows grow with h
    for _ in range(60):
        middle = (low + high) / 2
        near = kernel_weights(a, squared, np.exp(middle))
        low, high = (low, middle) if effective_rows(near / near.sum()) >= effective else (middle, high)
    return float(np.exp(high))


def split_folds(N: int, folds: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield pairs of rows to fit to and rows to test on; every row is tested on once."""
    if not 2 <= folds <= N:
        raise ValueError(f"`folds` must be between 2 and the number of rows, {N}; got {folds}.")
    order = np.random.default_rng(seed).permutation(N)
    for test in np.array_split(order, folds):
        yield np.setdiff1d(order, test), np.sort(test)
