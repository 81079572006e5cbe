r"""Recalibration after the fact: a monotone map of each margin's rank.

If the truth's rank :math:`u = F_j(\theta_j | y)` in a posterior has distribution function G_j, not the uniform,

.. math::
    F_j^{\mathrm{new}}(\theta_j | y) = G_j(F_j(\theta_j | y))

is calibrated on average. G_j is estimated from the ranks on stacking rows: linear between knots that are denser
near 0 and 1, with the weight of a few rows on the uniform distribution. Its log density is the gain in log score
of the margin, in nats. Draws follow by their ranks, θ' = F⁻¹(G⁻¹(u)), which keeps their dependence; it mends an
average over y, not what is wrong at one y.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import as_numpy
from drystone.diagnostics.ranks import ranks
from drystone.errors import IntractableError
from drystone.estimate import Estimate, mean_over_rows, split_folds
from drystone.stacking.result import Stacking
from drystone.table import Table
from drystone.table.inputs import as_levels, each_level
from drystone.table.statistics import quantile

__all__ = ["Recalibration", "recalibration"]

# The widest part between knots; towards 0 and 1 parts are halved down to the resolution of the ranks.
WIDEST = 1 / 8
# The uniform distribution counts as so many rows.
PRIOR_ROWS = 20.0
# The finest resolution, if the table does not say how many draws are behind a rank.
FINEST = 1000
FOLDS = 5
# A gain counts if it exceeds two standard errors.
ERRORS = 2.0


@dataclass(frozen=True, eq=False)
class Recalibration:
    """A map of ranks for each parameter.

    Attributes:
        parameters: the names of θ.
        knots: levels u, (M + 1,), from 0 to 1.
        levels: G at the knots, (d, M + 1), from 0 to 1.
        gain: of the log score of each margin in nats, by cross-validation on the rows of the fit.

    Example:
        >>> import drystone as ds
        >>> table = ds.toy.table(1000, seed=1).select(members=["narrow"])
        >>> found = ds.diagnostics.recalibration(table, ds.stack(table))
        >>> draws = np.random.default_rng(0).normal(0.0, 0.56, size=(5000, 1))  # the exact posterior is N(0, 1)
        >>> found.helps, round(float(found.apply(draws).std()), 1)
        (array([ True]), 0.9)
    """

    parameters: tuple[str, ...]
    knots: np.ndarray
    levels: np.ndarray
    gain: tuple[Estimate, ...]

    @property
    def helps(self) -> np.ndarray:
        """Which parameters gain more than two standard errors, (d,) of bool; the others are left as they are."""
        return np.array([gain.value > ERRORS * gain.se for gain in self.gain])

    def gain_on(self, table: Table, fit: Stacking) -> tuple[Estimate, ...]:
        """Return the gain of each margin on other rows, which the map has not seen."""
        u = _ranks(table, fit)
        return tuple(
            mean_over_rows(_log_density(u[:, j], self.knots, self.levels[j]), table.row_weights)
            for j in range(len(self.parameters))
        )

    def apply(self, draws: ArrayLike) -> np.ndarray:
        """Return recalibrated draws (S, d) at one observation; parameters that do not gain are left alone."""
        sample = np.array(as_numpy(draws), float)
        self._check(sample)
        for j in np.flatnonzero(self.helps):
            order = np.argsort(np.argsort(sample[:, j]))
            sample[:, j] = self._quantiles(sample[:, j], (order + 0.5) / len(sample), int(j))
        return sample

    def interval(self, draws: ArrayLike, alpha: float = 0.1) -> np.ndarray:
        """Return recalibrated central 1 − alpha intervals from draws (S, d) at one observation: (d, 2)."""
        (alpha,) = each_level(as_levels(alpha))
        sample = np.asarray(as_numpy(draws), float)
        self._check(sample)
        ends = np.array([alpha / 2, 1 - alpha / 2])
        helps = self.helps
        return np.stack(
            [
                self._quantiles(column, ends, j) if helps[j] else quantile(column, ends, 0)
                for j, column in enumerate(sample.T)
            ]
        )

    def _quantiles(self, column: np.ndarray, level: np.ndarray, j: int) -> np.ndarray:
        """Return F⁻¹(G⁻¹(level)) of the draws of parameter j."""
        return np.quantile(column, np.interp(level, self.levels[j], self.knots))

    def _check(self, sample: np.ndarray) -> None:
        d = len(self.parameters)
        if sample.ndim != 2 or sample.shape[1] != d:
            raise ValueError(f"`draws` must have shape (S, d) with d = {d}; got {sample.shape}.")

    def __str__(self) -> str:
        gains = [
            f"{name} by {gain} nats"
            for name, gain, helps in zip(self.parameters, self.gain, self.helps, strict=True)
            if helps
        ]
        return f"Recalibration gains in {', '.join(gains)}." if gains else "Recalibration gains nothing."

    __repr__ = __str__


def recalibration(table: Table, fit: Stacking, *, seed: int = 0) -> Recalibration:
    """Return the map that makes the ranks of a stacked posterior uniform on the rows of a table.

    Args:
        table: stacking rows, with ranks or draws; not the test rows.
        fit: the stacking.
        seed: of the folds that the gain is measured by.

    Example:
        >>> import drystone as ds
        >>> table = ds.toy.table(2000, seed=1)
        >>> narrow = ds.Stacking.single(table.names, "narrow", parameters=table.parameters)
        >>> print(recalibration(table, narrow))
        Recalibration gains in theta by 0.361 ± 0.024 nats.
    """
    u, a = _ranks(table, fit), table.row_weights
    knots = _knots(FINEST if table.S is None else table.S)
    rows = table.effective_rows
    levels = np.stack([_levels(column, a, rows, knots) for column in u.T])
    log_g = np.empty(u.shape)
    for train, test in split_folds(table.N, min(FOLDS, table.N), seed):
        share = a[train] / a[train].sum()
        for j, column in enumerate(u.T):
            of_fold = _levels(column[train], share, rows * len(train) / table.N, knots)
            log_g[test, j] = _log_density(column[test], knots, of_fold)
    gain = tuple(mean_over_rows(column, a) for column in log_g.T)
    return Recalibration(table.parameters, knots, levels, gain)


def _ranks(table: Table, fit: Stacking) -> np.ndarray:
    """Return the ranks of a fit in (0, 1), (N, d)."""
    found = ranks(table, {"fit": fit}).methods
    if "fit" not in found:
        raise IntractableError(f"recalibration needs ranks, which {fit.form!r} of these members does not have.")
    return found["fit"]


def _knots(S: int) -> np.ndarray:
    """Return levels from 0 to 1: even parts in the middle, halved towards the ends down to 1/(S + 1)."""
    ends = []
    width = WIDEST / 2
    while width >= 1 / (S + 1):
        ends.append(width)
        width /= 2
    even = np.arange(1, round(1 / WIDEST)) * WIDEST
    return np.concatenate([[0.0], ends[::-1], even, 1 - np.array(ends), [1.0]])


def _levels(u: np.ndarray, a: np.ndarray, rows: float, knots: np.ndarray) -> np.ndarray:
    """Return G at the knots: the shares of the ranks between them, and of the uniform distribution's rows."""
    shares, _ = np.histogram(u, knots, weights=a)
    shares = (rows * shares + PRIOR_ROWS * np.diff(knots)) / (rows + PRIOR_ROWS)
    levels = np.concatenate([[0.0], np.cumsum(shares)])
    return levels / levels[-1]


def _log_density(u: np.ndarray, knots: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return log g(u), the slope of G."""
    slope = np.diff(levels) / np.diff(knots)
    return np.log(slope[np.clip(np.searchsorted(knots, u, side="right") - 1, 0, len(slope) - 1)])
