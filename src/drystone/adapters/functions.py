"""Members from a user's own functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drystone.adapters.member import Member
from drystone.adapters.restrict import restrict

__all__ = ["FunctionLikelihood", "FunctionMember", "from_functions", "from_likelihood", "from_ratio"]


def from_functions(
    log_prob: Callable[..., Any] | None = None,
    sample: Callable[..., Any] | None = None,
    *,
    prior: object = None,
    error: float = 0.05,
) -> Member:
    """Return a member that consists of a density, a sampler, or both.

    Args:
        log_prob: Maps theta (N, d) and y (N, ...) to log densities of the paired rows, (N,).
        sample: Maps n and y (N, ...) to draws (n, N, d). If it has a parameter ``seed``, an integer is passed for
            it; otherwise torch's and NumPy's global generators are set for the call and restored.
        prior: Restrict the member to the support of this prior; see :func:`drystone.adapters.restrict`.
        error: See :func:`drystone.adapters.restrict`.

    Returns:
        A member, without the method whose function is None.

    Example:
        >>> member = from_functions(log_prob=lambda theta, y: -abs(theta - y).sum(1) - 0.6931471805599453)
        >>> hasattr(member, "log_prob"), hasattr(member, "sample")
        (True, False)
    """
    for name, function in (("log_prob", log_prob), ("sample", sample)):
        if function is not None and not callable(function):
            raise TypeError(f"`{name}` must be a function; got {type(function).__name__}.")
    if log_prob is None and sample is None:
        raise ValueError("a member needs `log_prob`, `sample` or both; got neither.")
    return restrict(FunctionMember(log_prob, sample), prior, error=error)


class FunctionMember:
    """A member whose methods are functions; a method whose function is None is missing."""

    log_prob: Callable[..., Any]
    sample: Callable[..., Any]

    def __init__(self, log_prob: Callable[..., Any] | None, sample: Callable[..., Any] | None) -> None:
        if log_prob is not None:
            self.log_prob = log_prob
        if sample is not None:
            self.sample = sample


def from_likelihood(
    log_likelihood: Callable[[np.ndarray, np.ndarray], ArrayLike],
    simulate: Callable[[np.ndarray, int], ArrayLike] | None = None,
    *,
    normalized_in_y: bool = False,
) -> FunctionLikelihood:
    """Return a likelihood member out of a function, for :func:`drystone.normalize`.

    Args:
        log_likelihood: theta (N, d) and y (N, ...) to log q(y_n | θ_n) of the paired rows, (N,), up to a term in
            y.
        simulate: theta (N, d) and a seed to data (N, ...), one row per row of theta.
        normalized_in_y: whether exp(log_likelihood) integrates to one over y: then the member knows the evidence,
            and may take part in a mixture of likelihoods.

    Example:
        >>> member = from_likelihood(lambda theta, y: -((y - theta) ** 2).sum(1) / 2)
        >>> member.log_likelihood(np.zeros((1, 1)), np.ones((1, 1)))
        array([-0.5])
    """
    if not callable(log_likelihood):
        raise TypeError(f"`log_likelihood` must be a function; got {type(log_likelihood).__name__}.")
    return FunctionLikelihood(log_likelihood, simulate, normalized_in_y)


def from_ratio(log_ratio: Callable[[np.ndarray, np.ndarray], ArrayLike]) -> FunctionLikelihood:
    """Return a likelihood member out of a log ratio log q(y|θ) − log q(y), for :func:`drystone.normalize`.

    Args:
        log_ratio: theta (N, d) and y (N, ...) to the log ratios of the paired rows, (N,), up to a term in y.

    Example:
        >>> import drystone as ds
        >>> theta, y = ds.toy.simulate(3, seed=1)
        >>> member = ds.adapters.from_ratio(lambda theta, y: -((y - theta) ** 2).sum(1) / 2)
        >>> posterior = ds.normalize({"ratio": member}, prior=([-10.0], [10.0]))["ratio"]
        >>> posterior.sample(10, y, seed=1).shape
        (10, 3, 1)
    """
    if not callable(log_ratio):
        raise TypeError(f"`log_ratio` must be a function; got {type(log_ratio).__name__}.")
    return FunctionLikelihood(log_ratio, None, False)


class FunctionLikelihood:
    """Functions as a likelihood member; ``simulate`` is there only if it was given."""

    def __init__(
        self,
        log_likelihood: Callable[[np.ndarray, np.ndarray], ArrayLike],
        simulate: Callable[[np.ndarray, int], ArrayLike] | None,
        normalized_in_y: bool,
    ) -> None:
        self.log_likelihood, self.normalized_in_y = log_likelihood, normalized_in_y
        if simulate is not None:
            self.simulate = simulate
