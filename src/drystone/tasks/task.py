r"""Benchmark tasks: a prior, a simulator and, where one exists, the exact posterior."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drystone._messages import counted
from drystone.errors import IntractableError
from drystone.simulation.prior import Prior

__all__ = ["Ceiling", "Task"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Ceiling:
    r"""The score of the exact posterior, which no estimator beats in expectation.

    Attributes:
        mean: Mean of :math:`\log p(\theta_n \mid y_n)` over fresh simulations, in nats.
        standard_error: Its standard error.
        n: Number of simulations.

    Example:
        >>> import drystone as ds, numpy as np
        >>> ceiling = ds.tasks.get("gaussian").ceiling(10_000, np.random.default_rng(1))
        >>> print(f"{ceiling.mean:.2f} ± {ceiling.standard_error:.2f}")  # −½ log(2πe) = −1.419
        -1.41 ± 0.01
    """

    mean: float
    standard_error: float
    n: int


class Task(ABC):
    r"""A prior :math:`p(\theta)` and a simulator :math:`y \sim p(y \mid \theta)`, written by subclassing.

    A subclass sets the four attributes and defines :meth:`simulate`; that is a complete task. If its
    likelihood is known it also defines :meth:`log_likelihood`, and :meth:`log_evidence` gives it the
    exact normalized posterior and the :meth:`ceiling`.

    The arguments of these methods are checked before each call (shapes, NaN, support), so that they contain
    mathematics only: ``theta`` arrives as float64 (N, d) inside the support, ``y`` as float64 (N, m).

    Attributes:
        name: Short name, as in ``ds.tasks.get(name)``.
        parameters: Names of the d parameters.
        y_dim: Number m of data values of one simulation.
        prior: Has ``sample(n, rng)``, ``log_prob(theta)`` and ``support``; see :mod:`drystone.simulation.prior`.
        rows_per_block: Number of rows per call in ``ds.simulate``; small if one simulation is slow.

    Example:
        >>> import numpy as np, drystone as ds
        >>> class Slope(ds.tasks.Task):
        ...     name, parameters, y_dim = "slope", ("slope",), 3
        ...     prior = ds.tasks.Uniform([-1], [1])
        ...     def simulate(self, theta, rng):
        ...         return theta * [1, 2, 3] + rng.normal(size=(len(theta), 3))
        >>> Slope().simulate([[0.5], [0.7]], np.random.default_rng(0)).shape
        (2, 3)
    """

    name: str
    parameters: tuple[str, ...]
    y_dim: int
    prior: Prior
    rows_per_block: int = 100

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, checked in _CHECKED.items():
            if name in vars(cls):
                setattr(cls, name, checked(vars(cls)[name]))

    @property
    def theta_dim(self) -> int:
        """Number d of parameters."""
        return len(self.parameters)

    @abstractmethod
    def simulate(self, theta: Array, rng: np.random.Generator) -> NDArray[np.floating]:
        """Draw one data set for each row of ``theta`` (N, d), which must lie in the support; shape (N, m)."""

    def log_likelihood(self, theta: Array, y: Array) -> Array:
        r"""Evaluate :math:`\log p(y_n \mid \theta_n)` for paired rows (N, d) and (N, m); shape (N,).

        Outside the prior's support it is :math:`-\infty`.
        """
        raise IntractableError(f"task '{self.name}' has no tractable likelihood; only its simulator is known.")

    def log_evidence(self, y: Array) -> Array:
        r"""Evaluate :math:`\log p(y_n) = \log\int p(y_n \mid \theta)\,p(\theta)\,d\theta`; (N, m) to (N,)."""
        raise IntractableError(f"the evidence p(y) of task '{self.name}' is not known.")

    def log_posterior(self, theta: Array, y: Array) -> Array:
        r"""Evaluate the exact normalized posterior density for paired rows (N, d) and (N, m); shape (N,).

        .. math::
            \log p(\theta_n \mid y_n) = \log p(y_n \mid \theta_n) + \log p(\theta_n) - \log p(y_n)
        """
        theta, y = _rows("theta", theta, self.theta_dim), _rows("y", y, self.y_dim)
        log_joint = self.log_likelihood(theta, y) + self.prior.log_prob(theta)
        # The evidence is expensive: it is computed once per distinct data set, so that many θ for one y are cheap.
        if (y == y[:1]).all():
            return log_joint - self.log_evidence(y[:1])
        distinct, row = np.unique(y, axis=0, return_inverse=True)
        return log_joint - self.log_evidence(distinct)[row]

    def sample_posterior(self, y: Array, n: int, rng: np.random.Generator) -> Array:
        """Draw ``n`` independent parameters from the exact posterior of one data set (m,); shape (n, d)."""
        raise IntractableError(f"the exact posterior of task '{self.name}' cannot be sampled.")

    def ceiling(self, n: int, rng: np.random.Generator) -> Ceiling:
        r"""Score the exact posterior on ``n`` fresh simulations, by its mean log density at the truth.

        A method with a mean log density above this by more than a few standard errors has a fault: test data
        leaked into training, or a Jacobian is missing.
        """
        if n < 2:
            raise ValueError(f"`n` must be at least 2 for a standard error; got {n}.")
        theta = self.prior.sample(n, rng)
        y = np.asarray(self.simulate(theta, rng), dtype=float)
        log_p = self.log_posterior(theta, y)
        return Ceiling(float(log_p.mean()), float(log_p.std(ddof=1) / np.sqrt(n)), n)

    def __repr__(self) -> str:
        return f"<Task {self.name}: {counted(self.theta_dim, 'parameter')}, {counted(self.y_dim, 'data value')}>"


def _rows(name: str, value: ArrayLike, width: int) -> Array:
    """Return ``value`` as a float64 matrix (N, width); raise if its shape is another or it has NaN."""
    rows = np.asarray(value, dtype=float)
    if rows.ndim != 2 or rows.shape[1] != width:
        hint = " Is it transposed?" if rows.ndim == 2 and rows.shape[0] == width else ""
        hint = hint or (" One row is written [[...]]." if rows.shape == (width,) else "")
        raise ValueError(f"`{name}` must have shape (N, {width}); got {rows.shape}.{hint}")
    if np.isnan(rows).any():
        bad = np.flatnonzero(np.isnan(rows).any(1))
        raise ValueError(f"`{name}` has NaN in {bad.size} of {len(rows)} rows, first in row {bad[0]}; drop them.")
    return rows


def _checked_simulate(simulate: Callable[..., ArrayLike]) -> Callable[..., Array]:
    @functools.wraps(simulate)
    def wrapper(self: Task, theta: ArrayLike, rng: np.random.Generator) -> Array:
        theta = _rows("theta", theta, self.theta_dim)
        outside = np.flatnonzero(~self.prior.support.contains(theta))
        if outside.size:
            raise ValueError(
                f"`theta` lies outside the prior's support in {outside.size} of {len(theta)} rows, first in "
                f"row {outside[0]}: {theta[outside[0]]}; select with `task.prior.support.contains(theta)`."
            )
        y = np.asarray(simulate(self, theta, rng))
        if y.shape != (len(theta), self.y_dim):
            raise ValueError(
                f"the simulator of task '{self.name}' must return shape (N, y_dim) = "
                f"({len(theta)}, {self.y_dim}); it returned {y.shape}."
            )
        return y

    return wrapper


def _checked_log_likelihood(log_likelihood: Callable[..., Array]) -> Callable[..., Array]:
    @functools.wraps(log_likelihood)
    def wrapper(self: Task, theta: ArrayLike, y: ArrayLike) -> Array:
        theta, y = _rows("theta", theta, self.theta_dim), _rows("y", y, self.y_dim)
        if len(theta) != len(y):
            raise ValueError(f"`theta` and `y` must be paired rows; got {len(theta)} and {len(y)} rows.")
        inside = self.prior.support.contains(theta)
        log_p = np.full(len(theta), -np.inf)
        log_p[inside] = log_likelihood(self, theta[inside], y[inside])
        return log_p

    return wrapper


def _checked_log_evidence(log_evidence: Callable[..., Array]) -> Callable[..., Array]:
    @functools.wraps(log_evidence)
    def wrapper(self: Task, y: ArrayLike) -> Array:
        y = _rows("y", y, self.y_dim)
        log_p = log_evidence(self, y)
        impossible = np.flatnonzero(np.isneginf(log_p))
        if impossible.size:
            raise ValueError(
                f"`y` cannot come from task '{self.name}' in {impossible.size} of {len(y)} rows, first "
                f"{y[impossible[0]]}: no parameter of the prior explains it, so it has no posterior."
            )
        return log_p

    return wrapper


def _checked_sample_posterior(sample_posterior: Callable[..., Array]) -> Callable[..., Array]:
    @functools.wraps(sample_posterior)
    def wrapper(self: Task, y: ArrayLike, n: int, rng: np.random.Generator) -> Array:
        y = np.asarray(y, dtype=float)
        if y.shape not in {(self.y_dim,), (1, self.y_dim)}:
            raise ValueError(f"`y` must be one data set of shape ({self.y_dim},); got {y.shape}.")
        y = _rows("y", y.reshape(1, -1), self.y_dim)
        return sample_posterior(self, y[0], n, rng)

    return wrapper


_CHECKED = {
    "simulate": _checked_simulate,
    "log_likelihood": _checked_log_likelihood,
    "log_evidence": _checked_log_evidence,
    "sample_posterior": _checked_sample_posterior,
}
