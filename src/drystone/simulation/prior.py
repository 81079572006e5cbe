r"""Priors :math:`p(\theta)` that carry their support as data, from which training builds a bijection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drystone._arrays import as_numpy
from drystone._parallel import seeded
from drystone.simulation.support import ROUNDING, Support, dimension, is_product

__all__ = ["LogNormal", "Normal", "Prior", "Uniform", "as_prior", "describe_prior", "described_prior"]

Array = NDArray[np.float64]
Description = dict[str, Any]


class Prior(Protocol):
    """The interface of a prior; any object with these three attributes works.

    Example:
        >>> import drystone as ds, numpy as np
        >>> class Exponential:
        ...     support = ds.tasks.Support([0.0], [np.inf])
        ...     def sample(self, n, rng): return rng.exponential(size=(n, 1))
        ...     def log_prob(self, theta): return np.where(theta[:, 0] >= 0, -theta[:, 0], -np.inf)
        >>> ds.simulate(lambda theta, rng: rng.poisson(theta), Exponential(), n=100, seed=1).y.shape
        (100, 1)
    """

    @property
    def support(self) -> Support:
        """The box in which the density may be positive."""
        ...

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw ``n`` independent parameters, shape (n, d)."""
        ...

    def log_prob(self, theta: ArrayLike) -> Array:
        """Evaluate the normalized log density at each row of ``theta`` (n, d); shape (n,)."""
        ...


@dataclass(frozen=True, eq=False)
class Uniform:
    r"""Independent uniform parameters, :math:`\theta_j \sim U(a_j, b_j)`.

    Args:
        lower: The bounds :math:`a`, shape (d,), finite.
        upper: The bounds :math:`b`, shape (d,), finite.

    Example:
        >>> Uniform([-1, 0], [1, 2]).log_prob([[0.5, 1.5], [0.5, 2.5]])
        array([-1.38629436,        -inf])
    """

    support: Support

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        support = Support(lower, upper)
        if not np.isfinite([support.lower, support.upper]).all():
            raise ValueError(f"`lower` and `upper` of a uniform prior must be finite; got {lower} and {upper}.")
        object.__setattr__(self, "support", support)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw ``n`` independent parameters, shape (n, d)."""
        lower, upper = self.support.lower, self.support.upper
        return lower + (upper - lower) * rng.random((n, lower.size))

    def log_prob(self, theta: ArrayLike) -> Array:
        """Evaluate the log density at each row of ``theta`` (n, d); shape (n,)."""
        log_volume = np.log(self.support.upper - self.support.lower).sum()
        return np.where(self.support.contains(theta), -log_volume, -np.inf)

    def describe(self) -> Description:
        """Return the prior as JSON."""
        return _description("Uniform", lower=self.support.lower, upper=self.support.upper)


@dataclass(frozen=True, eq=False)
class Normal:
    r"""Independent normal parameters, :math:`\theta_j \sim N(\mu_j, \sigma_j^2)`.

    Args:
        mean: The means :math:`\mu`, shape (d,).
        sd: The standard deviations :math:`\sigma`, shape (d,).

    Example:
        >>> import drystone as ds, numpy as np
        >>> prior = ds.tasks.Normal([0.0, 5.0], [1.0, 2.0])
        >>> prior.log_prob([[0.0, 5.0]]).round(3)  # −log(2π · 1 · 2)
        array([-2.531])
        >>> prior.sample(10_000, np.random.default_rng(1)).std(0).round(1)
        array([1., 2.])
    """

    mean: Array
    sd: Array

    def __init__(self, mean: ArrayLike, sd: ArrayLike) -> None:
        mean, sd = _vectors("mean", mean, "sd", sd)
        if not (sd > 0).all():
            raise ValueError(f"`sd` must be positive in every coordinate; got {sd}.")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "sd", sd)

    @property
    def support(self) -> Support:
        """The whole space."""
        return Support(np.full(self.mean.size, -np.inf), np.full(self.mean.size, np.inf))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw ``n`` independent parameters, shape (n, d)."""
        return self.mean + self.sd * rng.standard_normal((n, self.mean.size))

    def log_prob(self, theta: ArrayLike) -> Array:
        """Evaluate the log density at each row of ``theta`` (n, d); shape (n,)."""
        z = (np.asarray(theta) - self.mean) / self.sd
        return (-0.5 * z**2 - np.log(self.sd) - 0.5 * np.log(2 * np.pi)).sum(-1)

    def describe(self) -> Description:
        """Return the prior as JSON."""
        return _description("Normal", mean=self.mean, sd=self.sd)


@dataclass(frozen=True, eq=False)
class LogNormal:
    r"""Independent log-normal parameters, :math:`\log\theta_j \sim N(\mu_j, \sigma_j^2)`.

    .. math::
        \log p(\theta) = \sum_j \log N(\log\theta_j; \mu_j, \sigma_j^2) - \log\theta_j

    Args:
        mean: The means :math:`\mu` of the logarithms, shape (d,).
        sd: The standard deviations :math:`\sigma` of the logarithms, shape (d,).

    Example:
        >>> LogNormal([0.0], [1.0]).log_prob([[1.0], [-2.0]])
        array([-0.91893853,        -inf])
    """

    log: Normal

    def __init__(self, mean: ArrayLike, sd: ArrayLike) -> None:
        object.__setattr__(self, "log", Normal(mean, sd))

    @property
    def support(self) -> Support:
        """The positive numbers."""
        return Support(np.zeros(self.log.mean.size), np.full(self.log.mean.size, np.inf))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw ``n`` independent parameters, shape (n, d)."""
        return np.exp(self.log.sample(n, rng))

    def log_prob(self, theta: ArrayLike) -> Array:
        """Evaluate the log density at each row of ``theta`` (n, d); shape (n,)."""
        theta = np.asarray(theta, dtype=float)
        positive = np.all(theta > 0, axis=-1, keepdims=True)
        log_theta = np.log(np.where(positive, theta, 1.0))
        return np.where(positive[..., 0], self.log.log_prob(log_theta) - log_theta.sum(-1), -np.inf)

    def describe(self) -> Description:
        """Return the prior as JSON."""
        return _description("LogNormal", mean=self.log.mean, sd=self.log.sd)


def as_prior(prior: Any) -> Prior:
    """Return a prior in our conventions.

    Args:
        prior: One of ours; a (lower, upper) pair, for a uniform prior; a distribution of torch's kind, as sbi's
            priors are, or a frozen one of SciPy's; a sequence of such distributions, which are then independent;
            or an object of your own with ``log_prob(theta)`` and ``sample(n, rng)``. A distribution without event
            dimensions (``Gamma(a, b)`` with vectors a and b) is a product of independent parameters.

    Example:
        >>> import torch
        >>> as_prior(torch.distributions.Normal(torch.zeros(2), torch.ones(2))).log_prob([[0.0, 0.0]]).round(4)
        array([-1.8379])
    """
    if is_product(prior):
        return Independent(tuple(as_prior(part) for part in prior), tuple(dimension(part) for part in prior))
    if isinstance(prior, tuple | list) and len(prior) == 2:
        return Uniform(*prior)
    if hasattr(prior, "logpdf") and hasattr(prior, "rvs"):
        return ScipyPrior(prior)
    missing = [name for name in ("log_prob", "sample") if not callable(getattr(prior, name, None))]
    if missing:
        raise TypeError(
            f"`prior` must be a (lower, upper) pair or have `log_prob` and `sample`; got {type(prior).__name__} "
            f"without {' and '.join(missing)}."
        )
    if type(prior).__module__.partition(".")[0] in ("torch", "sbi", "pyro") or hasattr(prior, "event_shape"):
        return TorchPrior(prior)
    return prior  # pyright: ignore[reportReturnType]


@dataclass(frozen=True, eq=False)
class TorchPrior:
    """A distribution of torch's kind in our conventions.

    Args:
        distribution: With ``sample(shape)`` and ``log_prob``.
    """

    distribution: Any

    @property
    def support(self) -> Support:
        """Where the density may be positive, as far as the distribution says."""
        return self._support

    @cached_property
    def _support(self) -> Support:
        return Support.of(self.distribution, self.sample(1, np.random.default_rng(0)).shape[1])

    @cached_property
    def _dtype(self) -> Any:
        """The precision of the distribution: at float64 parameters float32 points would be other points."""
        with seeded(0):
            return self.distribution.sample((1,)).dtype

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw ``n`` independent parameters, shape (n, d)."""
        # Torch's distributions draw from its global generator alone: set for the call, and put back.
        with seeded(int(rng.integers(2**62))):
            drawn = self.distribution.sample((n,))
        return np.asarray(drawn.detach().cpu().numpy(), float).reshape(n, dimension(self.distribution))

    def log_prob(self, theta: ArrayLike) -> Array:
        """Evaluate the log density at each row of ``theta`` (n, d); shape (n,)."""
        import torch

        points = torch.as_tensor(np.asarray(theta, float), dtype=self._dtype)
        # Draws are rounded up to an upper bound, where torch's uniform has no density: the last number below has.
        lower, upper = (points.new_tensor(of.tolist()) for of in (self.support.lower, self.support.upper))
        at_upper = (points == upper) & torch.as_tensor(np.asarray(theta, float) <= self.support.upper)
        points = torch.where(at_upper, torch.nextafter(upper, lower), points)
        # Outside the support a distribution raises, or gives NaN where validation was switched off.
        inside = self.distribution.support.check(points).reshape(len(points), -1).all(1)
        inside &= torch.as_tensor(self.support.contains(theta))
        values = torch.full((len(points),), -torch.inf, dtype=points.dtype)
        if inside.any():
            within = self._log_prob_inside(points[inside], lower, upper)
            values[inside] = within.reshape(int(inside.sum()), -1).sum(1).to(points.dtype)
        return np.asarray(values.detach().cpu().numpy(), float)

    def _log_prob_inside(self, points: Any, lower: Any, upper: Any) -> Any:
        """Return the log density of points in the support."""
        try:
            return self.distribution.log_prob(points)
        except ValueError:
            # Transformed back, a point at a bound may lie beyond that of the base distribution, by rounding.
            lower, upper = lower + 2 * ROUNDING * lower.abs(), upper - 2 * ROUNDING * upper.abs()
            return self.distribution.log_prob(points.clamp(lower, upper))

    def describe(self) -> Description | None:
        """Return the prior as JSON, if it is uniform, normal or log-normal with independent parameters."""
        from torch import distributions as torch_distributions

        base = self.distribution
        while isinstance(base, torch_distributions.Independent):  # sbi's BoxUniform is one
            base = base.base_dist
        if type(base) is torch_distributions.Uniform:
            return _description("Uniform", lower=base.low, upper=base.high)
        if type(base) in (torch_distributions.Normal, torch_distributions.LogNormal):
            return _description(type(base).__name__, mean=base.loc, sd=base.scale)
        return None


@dataclass(frozen=True, eq=False)
class ScipyPrior:
    """A frozen distribution of SciPy's in our conventions.

    Args:
        distribution: With ``rvs`` and ``logpdf``.
    """

    distribution: Any

    @property
    def support(self) -> Support:
        """Where the density may be positive; the whole space for multivariate distributions."""
        return Support.of(self.distribution, dimension(self.distribution))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw ``n`` independent parameters, shape (n, d)."""
        d = dimension(self.distribution)
        size = (n, d) if self._univariate else n
        return np.asarray(self.distribution.rvs(size=size, random_state=rng), float).reshape(n, d)

    def log_prob(self, theta: ArrayLike) -> Array:
        """Evaluate the log density at each row of ``theta`` (n, d); shape (n,)."""
        theta = np.asarray(theta, float)
        log_p = np.asarray(self.distribution.logpdf(theta), float)
        return log_p.sum(-1) if self._univariate else log_p.reshape(len(theta))

    @property
    def _univariate(self) -> bool:
        return callable(getattr(self.distribution, "support", None))


@dataclass(frozen=True, eq=False)
class Independent:
    r"""A product :math:`p(\theta) = \prod_b p_b(\theta_b)` over blocks of parameters, one after another.

    Args:
        parts: The priors :math:`p_b`.
        sizes: The number of parameters of each.
    """

    parts: tuple[Prior, ...]
    sizes: tuple[int, ...]

    @property
    def support(self) -> Support:
        """The supports of the parts, one after another."""
        supports = [Support.of(part, size) for part, size in zip(self.parts, self.sizes, strict=True)]
        return Support(
            np.concatenate([support.lower for support in supports]),
            np.concatenate([support.upper for support in supports]),
        )

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw ``n`` independent parameters, shape (n, d)."""
        return np.concatenate([part.sample(n, rng) for part in self.parts], axis=1)

    def log_prob(self, theta: ArrayLike) -> Array:
        """Evaluate the log density at each row of ``theta`` (n, d); shape (n,)."""
        blocks = np.split(np.asarray(theta, float), np.cumsum(self.sizes)[:-1], axis=-1)
        return np.sum([part.log_prob(block) for part, block in zip(self.parts, blocks, strict=True)], axis=0)

    def describe(self) -> Description | None:
        """Return the prior as JSON, unless one of the parts is code."""
        parts = [describe_prior(part) for part in self.parts]
        return None if None in parts else {"distribution": "Independent", "parts": parts}


def describe_prior(prior: Any) -> Description | None:
    """Return a prior as JSON, from which :func:`described_prior` makes it again; None if it is code.

    Args:
        prior: As for :func:`as_prior`. Uniform, normal and log-normal priors are data, ours or torch's (sbi's
            ``BoxUniform`` too), and so are sequences of them.

    Example:
        >>> describe_prior(([0.0], [2.0]))
        {'distribution': 'Uniform', 'lower': [0.0], 'upper': [2.0]}
    """
    ours = as_prior(prior)
    # A class derived from one of ours is code.
    return getattr(ours, "describe", lambda: None)() if type(ours).__module__ == __name__ else None


def described_prior(plain: Mapping[str, Any]) -> Prior:
    """Return the prior that :func:`describe_prior` described."""
    arguments = dict(plain)
    name = arguments.pop("distribution")
    if name == "Independent":
        return as_prior([described_prior(part) for part in arguments["parts"]])
    kinds = {"Uniform": Uniform, "Normal": Normal, "LogNormal": LogNormal}
    if name not in kinds:
        raise ValueError(f"the prior {name!r} is not one of {', '.join((*kinds, 'Independent'))}.")
    return kinds[name](**arguments)


def _description(distribution: str, **arguments: Any) -> Description:
    vectors = {name: np.asarray(as_numpy(value), float).ravel().tolist() for name, value in arguments.items()}
    return {"distribution": distribution, **vectors}


def _vectors(first_name: str, first: ArrayLike, second_name: str, second: ArrayLike) -> tuple[Array, Array]:
    """Turn both arguments into read-only vectors of one length (d,)."""
    a, b = np.array(first, dtype=float, ndmin=1), np.array(second, dtype=float, ndmin=1)
    if a.ndim != 1 or a.shape != b.shape or np.isnan(a).any() or np.isnan(b).any():
        raise ValueError(
            f"`{first_name}` and `{second_name}` must be vectors (d,) of the same length without NaN; "
            f"got shapes {a.shape} and {b.shape}."
        )
    a.flags.writeable = b.flags.writeable = False
    return a, b
