r"""The bijection from the prior's support to the reals, so that no density leaks out of the support."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Support"]

# Least distance of a parameter from a bound: float32 simulations do fall on the bounds, where the logarithm is
# infinite. MARGIN is in units of the interval; with one bound only there is no unit, and only a parameter exactly
# on the bound is moved.
MARGIN = 1e-7
LEAST = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Support:
    r"""A box, open where a bound is infinite, and its bijection to :math:`\mathbb R^d`, column by column.

    .. math::
        x = \begin{cases}
            \theta & \text{no bounds} \\
            \log(\theta - l) & \text{a lower bound} \\
            -\log(u - \theta) & \text{an upper bound} \\
            \log(\theta - l) - \log(u - \theta) & \text{both}
        \end{cases}

    Args:
        lower: Lower bounds l, (d,), −inf where there is none.
        upper: Upper bounds u, (d,), inf where there is none.

    Example:
        >>> support = Support(np.array([0.0, -np.inf]), np.array([2.0, np.inf]))
        >>> x, log_det = support.to_real(np.array([[1.0, 5.0]]))
        >>> x, support.to_theta(x)
        (array([[0., 5.]]), array([[1., 5.]]))
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        for name, bounds in (("lower", lower), ("upper", upper)):
            copy = np.array(bounds, np.float64, ndmin=1)  # the user's array may change
            copy.flags.writeable = False
            object.__setattr__(self, name, copy)
        if self.lower.shape != self.upper.shape or self.lower.ndim != 1:
            raise ValueError(f"bounds must both have shape (d,); got {self.lower.shape} and {self.upper.shape}.")
        if not (self.lower < self.upper).all():
            columns = np.flatnonzero(~(self.lower < self.upper)).tolist()
            raise ValueError(f"`lower` must be below `upper` in every coordinate; it is not in {columns}.")

    @classmethod
    def of(cls, prior: object, d: int) -> Support:
        """Return the support of a prior: ``None``, a (lower, upper) pair, or an object with bounds.

        The object, or its ``support``, has ``lower`` and ``upper``; a torch distribution's ``support`` (also
        that of sbi's ``BoxUniform``) has ``lower_bound`` and ``upper_bound``.
        """
        if prior is None:
            return cls(np.full(d, -np.inf), np.full(d, np.inf))
        if isinstance(prior, tuple | list):
            lower, upper = prior
        else:
            lower, upper = _bounds(prior)
        lower = np.broadcast_to(np.asarray(lower, np.float64), d)
        return cls(lower, np.broadcast_to(np.asarray(upper, np.float64), d))

    @property
    def bounded(self) -> bool:
        """Whether any parameter has a bound."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())

    def contains(self, theta: ArrayLike) -> NDArray[np.bool_]:
        """Return whether each row of theta (..., d) lies in the support, bounds included; (...,)."""
        theta = np.asarray(theta)
        return np.all((theta >= self.lower) & (theta <= self.upper), axis=-1)

    def to_real(self, theta: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Return x (N, d) and log Jacobian :math:`\sum_i \log |dx_i / d\theta_i|` (N,) of rows in the support."""
        below, above = np.isfinite(self.lower), np.isfinite(self.upper)
        x = np.asarray(theta, np.float64)
        if not self.bounded:
            return x, np.zeros(len(x))
        low, high = np.where(below, self.lower, 0.0), np.where(above, self.upper, 0.0)
        least = np.where(below & above, MARGIN * (high - low), LEAST)
        from_lower = np.log(np.maximum(theta - low, least), where=below, out=np.zeros_like(x))
        from_upper = np.log(np.maximum(high - theta, least), where=above, out=np.zeros_like(x))
        x = np.where(below | above, from_lower - from_upper, x)
        # d/dθ of the two logarithms: 1/(θ − l), 1/(u − θ), and together (u − l) / ((θ − l)(u − θ)).
        width = np.log(high - low, where=below & above, out=np.zeros_like(low))
        return x, (width - from_lower - from_upper).sum(axis=1)

    def to_theta(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return theta for rows x, always in the support."""
        theta = np.array(x, np.float64)
        if not self.bounded:
            return theta
        below, above = np.isfinite(self.lower), np.isfinite(self.upper)
        both = below & above
        share = 0.5 * (1.0 + np.tanh(0.5 * theta[..., both]))  # the logistic function, which cannot overflow
        theta[..., both] = self.lower[both] + (self.upper - self.lower)[both] * share
        only = below & ~above
        theta[..., only] = self.lower[only] + np.exp(theta[..., only])
        only = above & ~below
        theta[..., only] = self.upper[only] - np.exp(-theta[..., only])
        return np.clip(theta, self.lower, self.upper)


def _bounds(prior: object) -> tuple[ArrayLike, ArrayLike]:
    """Return the bounds of the prior, of its support, or of the constraint that torch wraps in another."""
    support = getattr(prior, "support", prior)
    support = getattr(support, "base_constraint", support)
    for owner, lower, upper in (
        (prior, "lower", "upper"),
        (support, "lower", "upper"),
        (support, "lower_bound", "upper_bound"),
    ):
        if hasattr(owner, lower) and hasattr(owner, upper):
            return np.asarray(getattr(owner, lower)), np.asarray(getattr(owner, upper))
    raise TypeError(
        f"`prior` must be a (lower, upper) pair or have `lower` and `upper` arrays, itself or its `support`; "
        f"got {type(prior).__name__}."
    )
