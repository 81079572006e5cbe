"""What would simulated data look like? Data simulated from the stacked posterior, held against the observation.

The data were used for the posterior, so the p-values of this check are not uniform: they lie nearer to ½, and a
small one says all the more.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import as_numpy
from drystone.diagnostics.null import ALARM, DOUBT, Check, check, combined_p_value, most_unusual
from drystone.table.inputs import spread_or_one

__all__ = ["Predictive", "Summary", "predictive"]

# A function of data: (n, ...) gives (n,).
Summary = Callable[[np.ndarray], ArrayLike]

# So many entries of y are summaries themselves; more are summed up.
ENTRIES = 20
# Data sets that are simulated.
SIMULATIONS = 500


@dataclass(frozen=True, eq=False)
class Predictive:
    """Summaries of an observation and of data simulated from its posterior.

    Attributes:
        p_value: of all summaries together: small if any is unusual.
        checks: one per summary: how many standard deviations of the simulated ones it is from their mean.
        observed: summaries of the observation, (m,).
        simulated: those of the simulated data, (n, m).
        failed: simulations that raised nothing but have entries that are not finite; they are left out.

    Example:
        >>> draws = np.random.default_rng(0).normal(size=(1000, 1))
        >>> found = predictive(draws, [0.3], lambda theta, rng: rng.normal(theta))
        >>> found.alarm, found.simulated.shape
        (False, (500, 1))
    """

    p_value: float
    checks: tuple[Check, ...]
    observed: np.ndarray
    simulated: np.ndarray = field(repr=False)
    failed: int = 0

    @property
    def alarm(self) -> bool:
        """Whether the p-value is below 0.01."""
        return self.p_value < ALARM

    @property
    def interval(self) -> np.ndarray:
        """Central 90 % of the simulated summaries, (m, 2)."""
        return np.quantile(self.simulated, [0.05, 0.95], axis=0).T

    def __str__(self) -> str:
        most = most_unusual(self.checks)
        if self.p_value >= DOUBT:
            return f"Data simulated from the posterior look like the observation (p = {self.p_value:.2g})."
        strength = "do not look" if self.alarm else "hardly look"
        return (
            f"Data simulated from the posterior {strength} like the observation (p = {self.p_value:.2g}), above "
            f"all in {most.name}."
        )

    __repr__ = __str__


def predictive(
    draws: ArrayLike,
    y_o: ArrayLike,
    simulator: Any,
    *,
    summaries: Mapping[str, Summary] | None = None,
    n: int = SIMULATIONS,
    seed: int = 0,
) -> Predictive:
    """Return summaries of data simulated at draws of a posterior, against those of the observation.

    Args:
        draws: of the posterior at the observation, (S, d).
        y_o: the observation, of the shape of one simulation.
        simulator: a task, or a function ``(theta (N, d), rng) -> y (N, ...)``; without ``rng`` if it takes one
            argument.
        summaries: functions of data (N, ...), by name; None for the entries of y or, if these are many, their
            mean, standard deviation, minimum and maximum.
        n: data sets to simulate, at most as many as there are draws.
        seed: of the simulations.

    Example:
        >>> draws = np.random.default_rng(0).normal(size=(1000, 1))
        >>> print(predictive(draws, [9.0], lambda theta, rng: rng.normal(theta)))
        Data simulated from the posterior do not look like the observation (p = 0.002), above all in y[0].
    """
    rng = np.random.default_rng(seed)
    theta = np.asarray(as_numpy(draws), float)
    theta = theta[rng.permutation(len(theta))[:n]]
    y = np.asarray(as_numpy(_simulated(simulator, theta, rng)), float)
    observed = np.asarray(as_numpy(y_o), float)
    expected = (len(theta), *observed.shape)
    if y.shape != expected:
        raise ValueError(f"the simulator must return one data set per row of theta, {expected}; got {y.shape}.")
    finite = np.asarray(np.isfinite(y.reshape(len(y), -1)).all(1))
    if not finite.any():
        raise ValueError(
            "no simulation from the posterior has finite data; is the simulator defined at its draws?"
        )
    functions = _default_summaries(observed.shape) if summaries is None else summaries
    both = np.concatenate([y[finite], observed[None]])
    values = np.stack([np.asarray(as_numpy(function(both)), float) for function in functions.values()], -1)
    deviations = np.abs(values - values[:-1].mean(0)) / spread_or_one(values[:-1])
    equal = np.full(len(values) - 1, 1.0)
    checks = tuple(check(name, deviations[-1, j], deviations[:-1, j], equal) for j, name in enumerate(functions))
    return Predictive(
        combined_p_value(checks, equal), checks, values[-1], values[:-1], int(len(finite) - finite.sum())
    )


def _simulated(simulator: Any, theta: np.ndarray, rng: np.random.Generator) -> Any:
    """Return one data set per row of theta by a task or a function, with or without a generator."""
    function: Any = getattr(simulator, "simulate", simulator)
    if not callable(function):
        raise TypeError(
            f"`simulator` must be a task or a function (theta, rng) -> y; got {type(simulator).__name__}."
        )
    return function(theta, rng) if len(inspect.signature(function).parameters) > 1 else function(theta)


def _default_summaries(shape: tuple[int, ...]) -> dict[str, Summary]:
    """Return the entries of data of a shape as summaries; of many entries, four numbers."""
    if int(np.prod(shape)) <= ENTRIES:
        places = list(np.ndindex(*shape))
        return {f"y[{', '.join(map(str, i))}]": lambda y, i=i: y[(slice(None), *i)] for i in places}

    def of_entries(function: Callable[..., np.ndarray]) -> Summary:
        return lambda y: function(y.reshape(len(y), -1), axis=1)

    names = {"mean": np.mean, "standard deviation": np.std, "minimum": np.min, "maximum": np.max}
    return {f"{name} of y": of_entries(function) for name, function in names.items()}
