"""Members out of functions you have written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drystone.adapters.restrict import restrict

__all__ = ["FunctionMember", "from_functions"]


def from_functions(
    log_prob: Callable[..., Any] | None = None,
    sample: Callable[..., Any] | None = None,
    *,
    prior: Any = None,
    error: float = 0.05,
) -> Any:
    """A member out of a density, a sampler, or both.

    Args:
        log_prob: theta (N, d) and y (N, ...) to log densities of the paired rows, (N,).
        sample: n and y (N, ...) to draws (n, N, d). If it has a parameter ``seed`` it is given one; else torch's
            and NumPy's global generators are set for it and put back.
        prior: hold the member to the support of this prior; see :func:`drystone.adapters.restrict`.
        error: see there.

    Returns:
        a member, without the method that was not given.

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
    """Functions as methods; one that was not given is not there."""

    def __init__(self, log_prob: Callable[..., Any] | None, sample: Callable[..., Any] | None) -> None:
        if log_prob is not None:
            self.log_prob = log_prob
        if sample is not None:
            self.sample = sample
