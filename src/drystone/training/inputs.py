"""The simulations that members are trained on: checked, and split into rows of training and of validation."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drystone._arrays import as_numpy, not_finite, rows_not_in_range, rows_of_data
from drystone.simulation.support import Support
from drystone.training.preprocessing import Scaling

__all__ = [
    "Split",
    "check_independent",
    "check_inside",
    "further_simulations",
    "simulations",
    "warn_of_repeated_values",
]

# Variance of a combination of standardized parameters below which it is rounding, also in single precision.
DEPENDENT = 1e-12
# Share and number of the rows with one value of a parameter from which a network may learn the value itself.
REPEATED, FEWEST_REPEATED = 0.01, 10


@dataclass(frozen=True)
class Split:
    """Simulations, of which some rows are trained on and the others stop the training.

    Args:
        theta: Parameters of all rows, (N, d).
        y: Their data, (N, …).
        training: The rows that are trained on.
        validation: The rows that stop the training.
        settings: The share of the rows, or the (theta, y) that were given for validation.
    """

    theta: NDArray
    y: NDArray
    training: NDArray[np.int64]
    validation: NDArray[np.int64]
    settings: float | tuple[NDArray, NDArray]

    @classmethod
    def of(
        cls,
        theta: NDArray,
        y: NDArray,
        validation: float | tuple[ArrayLike, ArrayLike],
        seed: int,
    ) -> Split:
        """Hold out a share of the rows, or append rows for validation."""
        if not isinstance(validation, tuple | list):
            return cls(theta, y, *_shuffled(len(theta), validation, seed), validation)
        if len(validation) != 2:
            raise ValueError(
                f"`validation` must be a share of the rows or (theta, y); got {len(validation)} arrays."
            )
        theta_v, y_v = further_simulations("validation", *validation, theta, y)
        n = len(theta)
        return cls(
            np.concatenate([theta, theta_v]),
            np.concatenate([y, y_v]),
            np.arange(n),
            np.arange(n, n + len(theta_v)),
            (theta_v, y_v),
        )


def further_simulations(
    argument: str, further_theta: ArrayLike, further_y: ArrayLike, theta: NDArray, y: NDArray
) -> tuple[NDArray, NDArray]:
    """Return the simulations of an argument as arrays; raise if they are not like theta (N, d) and y (N, ...)."""
    try:
        further = simulations(further_theta, rows_of_data("y", further_y), structured=y.ndim > 2)
    except (TypeError, ValueError) as error:
        raise type(error)(f"`{argument}`: {error}") from None
    for name, given, first in zip(("theta", "y"), further, (theta, y), strict=True):
        if given.shape[1:] != first.shape[1:]:
            shape = f"(N, {', '.join(map(str, first.shape[1:]))})"
            raise ValueError(f"`{name}` of `{argument}` must have shape {shape}; got {given.shape}.")
    return further


def simulations(theta: ArrayLike, y: ArrayLike, structured: bool) -> tuple[NDArray, NDArray]:
    """Return theta and y as arrays; raise if shapes differ or numbers are not finite."""
    theta, y = as_numpy(theta), as_numpy(y)
    if theta.ndim != 2:
        raise ValueError(f"`theta` must have shape (N, d); got {theta.shape}.")
    if y.ndim != 2 and not (structured and y.ndim > 2):
        raise ValueError(f"`y` must have shape (N, c); got {y.shape}. Structured data need an `embedding`.")
    if len(theta) != len(y):
        raise ValueError(f"`theta` and `y` must have the same number of rows; got {len(theta)} and {len(y)}.")
    if not len(theta):
        raise ValueError("`theta` and `y` must have at least one row; they have none.")
    for name, values in (("theta", theta), ("y", y)):
        if values.dtype.kind not in "fiub":  # an imaginary part would be dropped, NaN among objects not be seen
            raise TypeError(f"`{name}` must be real numbers; got dtype {values.dtype}.")
        bad = rows_not_in_range(values)
        if bad.size:
            raise ValueError(not_finite(name, bad, values))
    return theta, y


def _shuffled(n: int, validation: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the training rows and the held-out rows."""
    held_out = round(validation * n)
    if not 0 < held_out < n:
        raise ValueError(f"`validation` must leave rows on both sides; got {validation} of {n} rows.")
    rows = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,))).permutation(n)
    return rows[held_out:], rows[:held_out]


def check_inside(theta: NDArray, support: Support) -> None:
    """Raise if rows of theta (N, d) lie outside the support of the prior."""
    outside = int((~support.contains(theta)).sum())
    if outside:
        raise ValueError(
            f"`theta` must lie in the support of `prior`; {outside} of {len(theta)} rows do not "
            f"(lower {support.lower.tolist()}, upper {support.upper.tolist()})."
        )


def check_independent(theta: NDArray) -> None:
    """Raise if columns of theta (N, d) are constant or linearly dependent: such parameters have no density."""
    n, d = theta.shape
    if n <= d:  # so few rows always are
        return
    z = Scaling.fit(theta).apply(theta)
    variances, directions = np.linalg.eigh(z.T @ z / n)
    if variances[0] < DEPENDENT:
        columns = np.flatnonzero(np.abs(directions[:, 0]) > 1e-3).tolist()
        fault = f"columns {columns} of `theta` are linearly dependent"
        if len(columns) == 1:
            fault = f"column {columns[0]} of `theta` is constant"
        raise ValueError(
            f"{fault}, so that the posterior has no density: networks would make it as high as they can. Leave "
            "out a column that follows from the others."
        )


def warn_of_repeated_values(theta: NDArray) -> None:
    """Warn of columns of theta (N, d) in which one value is frequent: no density describes it."""
    for j, column in enumerate(theta.T):
        values, rows = np.unique(column, return_counts=True)
        value, share = values[rows.argmax()], rows.max() / len(column)
        if rows.max() >= FEWEST_REPEATED and share >= REPEATED:
            warnings.warn(
                f"column {j} of `theta` is {value:g} in {share:.1%} of the training rows: posteriors may learn a "
                "spike there, and log densities then say little. Spread a discrete parameter over cells (theta + "
                "step * u with u uniform on (0, 1), and a prior of that range), leave out rows that were moved to "
                "a bound, or train likelihoods alone (target='likelihood').",
                stacklevel=4,
            )
