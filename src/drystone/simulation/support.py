r"""The bijection from the prior's support to the reals, so that no density leaks out of the support."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Support", "dimension", "is_product"]

# Least distance of a parameter from a bound: float32 simulations do fall on the bounds, where the logarithm is
# infinite. MARGIN is in units of the interval; with one bound only there is no unit, and only a parameter exactly
# on the bound is moved.
MARGIN = 1e-7
LEAST = float(np.finfo(np.float32).tiny)
# Of draws in float32, relative to a bound that was transformed.
ROUNDING = 1e-6
# The most steps of Newton's method; half as many are taken.
NEWTON = 20


@dataclass(frozen=True)
class Support:
    r"""A box, open where a bound is infinite, and its bijection to :math:`\mathbb R^d`, column by column.

    .. math::
        x = \begin{cases}
            \theta & \text{no bounds} \\
            \log(\theta - l) & \text{a lower bound} \\
            -\log(u - \theta) & \text{an upper bound} \\
            a\,\frac{\theta - l}{u - l} + \log(\theta - l) - \log(u - \theta) & \text{both} \\
            \theta & \text{both}, a = \infty
        \end{cases}

    With a = ∞ the image is the box itself, not the reals: what a density on the reals has outside must be cut off.

    Args:
        lower: Lower bounds l, (d,), −inf where there is none.
        upper: Upper bounds u, (d,), inf where there is none.
        linear: Weight a ≥ 0 of the linear term between two bounds. The logarithms alone stretch the ends of the
            box; the larger a, the nearer to the bounds before x bends away from θ. ∞ leaves θ as it is.

    Example:
        >>> support = Support(np.array([0.0, -np.inf]), np.array([2.0, np.inf]))
        >>> x, log_det = support.to_real(np.array([[1.0, 5.0]]))
        >>> x, support.to_theta(x)
        (array([[0., 5.]]), array([[1., 5.]]))
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    linear: float = 0.0

    def __init__(self, lower: ArrayLike, upper: ArrayLike, *, linear: float = 0.0) -> None:
        for name, bounds in (("lower", lower), ("upper", upper)):
            copy = np.array(bounds, np.float64, ndmin=1)  # the user's array may change
            copy.flags.writeable = False
            object.__setattr__(self, name, copy)
        if self.lower.shape != self.upper.shape or self.lower.ndim != 1:
            raise ValueError(f"bounds must both have shape (d,); got {self.lower.shape} and {self.upper.shape}.")
        if not (self.lower < self.upper).all():
            columns = np.flatnonzero(~(self.lower < self.upper)).tolist()
            raise ValueError(f"`lower` must be below `upper` in every coordinate; it is not in {columns}.")
        if not linear >= 0:
            raise ValueError(f"`linear` must not be negative; got {linear}.")
        object.__setattr__(self, "linear", float(linear) if self.boxed.any() else 0.0)

    @classmethod
    def of(cls, prior: object, d: int) -> Support:
        """Return the support of a prior of d parameters: a box, half-lines, or the whole space.

        Args:
            prior: ``None``, a (lower, upper) pair, an object with ``lower`` and ``upper``, itself or its
                ``support``; a distribution of torch's kind (also sbi's priors) or a frozen one of SciPy's; a
                sequence of such distributions, which are then independent; or any other prior with ``log_prob``
                and ``sample``, which is taken to be positive everywhere.
            d: Number of parameters.
        """
        if isinstance(prior, tuple | list) and len(prior) == 2 and not is_product(prior):
            lower, upper = prior
        else:
            lower, upper = _bounds(prior)
        lower, upper = (np.broadcast_to(np.asarray(bound, np.float64), d) for bound in (lower, upper))
        return cls(lower, upper)

    @property
    def bounded(self) -> bool:
        """Whether any parameter has a bound."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())

    @property
    def boxed(self) -> NDArray[np.bool_]:
        """Whether each parameter has two bounds, (d,)."""
        return np.isfinite(self.lower) & np.isfinite(self.upper)

    def contains(self, theta: ArrayLike) -> NDArray[np.bool_]:
        """Return whether each row of theta (..., d) lies in the support, bounds included; (...,)."""
        theta = np.asarray(theta)
        return np.all((theta >= self.lower) & (theta <= self.upper), axis=-1)

    def to_real(self, theta: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Return x (N, d) and log Jacobian :math:`\sum_i \log |dx_i / d\theta_i|` (N,) of rows in the support."""
        below, above = self._mapped()
        x = np.asarray(theta, np.float64)
        if not (below | above).any():
            return x, np.zeros(len(x))
        low, high = np.where(below, self.lower, 0.0), np.where(above, self.upper, 0.0)
        least = np.where(below & above, MARGIN * (high - low), LEAST)
        from_lower = np.log(np.maximum(theta - low, least), where=below, out=np.zeros_like(x))
        from_upper = np.log(np.maximum(high - theta, least), where=above, out=np.zeros_like(x))
        x = np.where(below | above, from_lower - from_upper, x)
        # d/dθ of the two logarithms: 1/(θ − l), 1/(u − θ), and together (u − l) / ((θ − l)(u − θ)).
        width = np.log(high - low, where=below & above, out=np.zeros_like(low))
        log_slope = width - from_lower - from_upper
        if self.linear:
            both = below & above
            share = (theta[:, both] - low[both]) / (high - low)[both]
            x[:, both] += self.linear * share
            log_slope[:, both] = np.logaddexp(log_slope[:, both], np.log(self.linear) - width[both])
        return x, log_slope.sum(axis=1)

    def to_theta(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return theta for rows x, always in the support unless a = ∞."""
        theta = np.array(x, np.float64)
        below, above = self._mapped()
        if not (below | above).any():
            return theta
        both = below & above
        share = logistic(self._logit(theta[..., both]))
        theta[..., both] = self.lower[both] + (self.upper - self.lower)[both] * share
        only = below & ~above
        theta[..., only] = self.lower[only] + np.exp(theta[..., only])
        only = above & ~below
        theta[..., only] = self.upper[only] - np.exp(-theta[..., only])
        return np.clip(theta, np.where(below, self.lower, -np.inf), np.where(above, self.upper, np.inf))

    def _mapped(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which lower and which upper bounds the map sends to infinity."""
        left_out = self.boxed & np.isinf(self.linear)
        return np.isfinite(self.lower) & ~left_out, np.isfinite(self.upper) & ~left_out

    def _logit(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        r"""Solve :math:`v + a\,\sigma(v) = x` for v by Newton's method.

        The left side is convex for v < 0 and concave for v > 0. From any point between 0 and the root the steps
        thus approach the root from one side; its tangent at 0 and its asymptote give two such points.
        """
        a = self.linear
        if a == 0.0:
            return x
        centered = x - a / 2
        tangent = np.abs(centered) / (1 + a / 4)
        v = np.copysign(np.maximum(tangent, np.abs(centered) - a / 2), centered)
        for _ in range(NEWTON):
            share = logistic(v)
            step = (x - v - a * share) / (1 + a * share * (1 - share))
            v += step
            if np.abs(step).max(initial=0.0) < 1e-12 * a:
                break
        return v


def logistic(v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logistic function, in a form that cannot overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * v))


Bounds = tuple[ArrayLike, ArrayLike]


def is_distribution(prior: object) -> bool:
    """Return whether an object is a distribution: of torch's kind or ours, or a frozen one of SciPy's."""
    return hasattr(prior, "log_prob") or hasattr(prior, "logpdf")


def is_product(prior: object) -> bool:
    """Return whether an object is a sequence of distributions, which are then independent."""
    return isinstance(prior, tuple | list) and len(prior) > 0 and all(map(is_distribution, prior))


def dimension(prior: Any) -> int:
    """Return the number of parameters of a distribution."""
    if hasattr(prior, "event_shape"):
        return max(1, math.prod((*prior.batch_shape, *prior.event_shape)))
    if callable(getattr(prior, "support", None)):
        return np.size(prior.support()[0])
    if hasattr(prior, "dim"):
        return prior.dim
    return np.size(_bounds(prior)[0])


def _bounds(prior: Any) -> Bounds:
    """Return the bounds of a prior, numbers or arrays (d,)."""
    if prior is None:
        return -np.inf, np.inf
    if is_product(prior):
        return _joined([(_bounds(part), dimension(part)) for part in prior])
    for owner in (prior, getattr(prior, "support", prior)):
        if hasattr(owner, "lower") and hasattr(owner, "upper"):
            return np.asarray(owner.lower), np.asarray(owner.upper)
    if callable(getattr(prior, "support", None)):  # SciPy's
        return prior.support()
    if hasattr(prior, "support"):
        return _bounds_of_torch(prior)
    if is_distribution(prior):
        return -np.inf, np.inf
    raise TypeError(
        "`prior` must be a (lower, upper) pair, have `lower` and `upper` arrays, itself or its `support`, or be "
        f"a distribution with `log_prob` and `sample`; got {type(prior).__name__}."
    )


def _bounds_of_torch(prior: Any) -> Bounds:
    """Return the bounds of one of torch's distributions, also where its ``support`` says less than is known."""
    import torch
    from torch import distributions

    base = prior
    while isinstance(base, distributions.Independent):
        base = base.base_dist
    if isinstance(base, distributions.VonMises):  # a period of a density that never ends
        pi = np.float64(np.float32(np.pi))  # draws are rounded
        return -pi, pi
    # Torch's own subclasses, such as its log-normal, have a support that says all.
    if type(base) is not distributions.TransformedDistribution or not all(map(_by_entry, base.transforms)):
        return _bounds_of_constraint(prior.support, prior)
    ends: list[Any] = [
        torch.tensor(np.asarray(end).tolist(), dtype=torch.float64) for end in _bounds(base.base_dist)
    ]
    for transform in base.transforms:
        ends = [transform(end) for end in ends]
    lower, upper = torch.minimum(*ends), torch.maximum(*ends)
    return (lower - ROUNDING * lower.abs()).numpy(), (upper + ROUNDING * upper.abs()).numpy()


def _by_entry(transform: Any) -> bool:
    """Return whether a transform maps every entry by itself, one to one: then ends are mapped to ends."""
    return transform.bijective and transform.domain.event_dim == transform.codomain.event_dim == 0


def _bounds_of_constraint(constraint: Any, prior: object) -> Bounds:
    """Return the bounds of one of torch's constraints."""
    from torch.distributions import constraints

    while hasattr(constraint, "base_constraint"):  # of a vector of parameters, or of a mixture
        constraint = constraint.base_constraint
    if hasattr(constraint, "cseq"):  # of a product: the constraints of its parts
        lengths = getattr(constraint, "lengths", [1] * len(constraint.cseq))
        parts = [_bounds_of_constraint(part, prior) for part in constraint.cseq]
        return _joined(list(zip(parts, lengths, strict=True)))
    bounded = hasattr(constraint, "lower_bound") or hasattr(constraint, "upper_bound")
    discrete = getattr(constraint, "is_discrete", False)
    if discrete or not (bounded or constraint in (constraints.real, constraints.real_vector)):
        raise TypeError(
            f"`prior` must have a support that is a box, half-lines or the whole space; that of "
            f"{type(prior).__name__} is {constraint}. Pass the (lower, upper) bounds of each parameter, or None."
        )
    lower, upper = getattr(constraint, "lower_bound", -np.inf), getattr(constraint, "upper_bound", np.inf)
    return np.asarray(lower), np.asarray(upper)


def _joined(parts: list[tuple[Bounds, int]]) -> Bounds:
    """Return the bounds of all parts, each with its number of parameters, one after another."""
    lower, upper = (
        np.concatenate([np.broadcast_to(np.asarray(bounds[side], float).ravel(), d) for bounds, d in parts])
        for side in (0, 1)
    )
    return lower, upper
