"""Members: the interface of a single approximate posterior, whatever library it comes from.

A member has ``log_prob(theta, y) -> (N,)`` for paired rows, ``sample(n, y) -> (n, N, d)``, or both: MCMC draws
have no density, some densities no sampler. Arguments are NumPy arrays; results may be NumPy arrays or torch
tensors. If ``sample`` has a parameter ``seed``, an integer is passed for it. A member is called with copies of the
arrays; changing them in place is an error.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from drystone._arrays import as_numpy
from drystone._parallel import generators_restored, seeded
from drystone.errors import IntractableError, SamplingError
from drystone.table.statistics import quantile

if TYPE_CHECKING:
    import torch

__all__ = ["CheckedMember", "Density", "Member", "Sampler", "draw", "lacking_names", "name_members"]

# Libraries whose posteriors have methods of these names with other arguments.
FOREIGN = ("bayesflow", "lampe", "sbi", "zuko")


class Density(Protocol):
    """A member with a density q(θ | y); without a sampler the table lacks the statistics of draws.

    Example:
        >>> import drystone as ds, scipy.stats
        >>> class Laplace:
        ...     def log_prob(self, theta, y): return scipy.stats.laplace.logpdf(theta, y).sum(1)
        >>> theta, y = ds.toy.simulate(20, seed=1)
        >>> ds.tabulate({"laplace": Laplace()}, theta, y, draws=0)
        Table(K=1 member, N=20 simulations, d=1 parameter; gives log_q)
    """

    def log_prob(self, theta: np.ndarray, y: np.ndarray, /) -> np.ndarray | torch.Tensor:
        """Return log q(θ_n | y_n), (N,), for paired rows theta (N, d) and y (N, ...)."""
        ...


class Sampler(Protocol):
    """A member that draws from q(θ | y); without a density the table lacks ``log_q``.

    Example:
        >>> import drystone as ds, numpy as np, warnings
        >>> class Chains:
        ...     def sample(self, n, y, seed): return np.random.default_rng(seed).normal(y, size=(n, *y.shape))
        >>> theta, y = ds.toy.simulate(20, seed=1)
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")  # "the rows of chains are without `log_q` …"
        ...     table = ds.tabulate({"chains": Chains(), **ds.toy.MEMBERS}, theta, y)
        >>> table.has("log_q")
        array([False,  True,  True,  True,  True])
    """

    def sample(self, n: int, y: np.ndarray, /, *args: Any, **kwargs: Any) -> np.ndarray | torch.Tensor:
        """Return n draws from q(· | y_i) for each row of y (N, ...), (n, N, d).

        A further parameter ``seed`` is optional; equal seeds must give equal draws.
        """
        ...


class Member(Density, Sampler, Protocol):
    """A member with both a density and a sampler.

    Example:
        >>> import drystone as ds, numpy as np, scipy.stats
        >>> class Normal:
        ...     def log_prob(self, theta, y): return scipy.stats.norm.logpdf(theta, y).sum(1)
        ...     def sample(self, n, y, seed): return np.random.default_rng(seed).normal(y, size=(n, *y.shape))
        >>> theta, y = ds.toy.simulate(20, seed=1)
        >>> ds.tabulate({"normal": Normal()}, theta, y)
        Table(K=1 member, N=20 simulations, d=1 parameter; gives interval, log_q, mean, moments, rank)
    """


def draw(posterior: Sampler, n: int, y: np.ndarray, seed: int) -> np.ndarray:
    """Return n draws of a member for each row of y, (n, N, d), the same for the same seed.

    Args:
        posterior: The member.
        n: Draws per row.
        y: Data, (N, ...).
        seed: Passed to ``sample`` if it has a parameter ``seed``; otherwise the global generators are set to it.
            In either case they are restored afterwards.
    """
    if _takes_seed(posterior):
        with generators_restored():
            return as_numpy(posterior.sample(n, y, seed=seed))
    with seeded(seed):
        return as_numpy(posterior.sample(n, y))


def _takes_seed(posterior: Density | Sampler) -> bool:
    sample = getattr(posterior, "sample", None)
    return sample is not None and "seed" in inspect.signature(sample).parameters


@dataclass(frozen=True)
class CheckedMember:
    """A member with its name, whose results are checked.

    Attributes:
        name: Name for messages.
        posterior: The member itself.
        d: Expected number of parameters.
    """

    name: str
    posterior: Density | Sampler
    d: int

    def __post_init__(self) -> None:
        library = type(self.posterior).__module__.partition(".")[0]
        if hasattr(self.posterior, "log_likelihood") and not hasattr(self.posterior, "log_prob"):
            raise TypeError(
                f"member {self.name!r} is a likelihood (it has `log_likelihood` and no `log_prob`), not yet a "
                "posterior; make one of it: members |= ds.normalize({name: likelihood}, prior=...)."
            )
        if isinstance(self.posterior, Mapping):
            raise TypeError(f"member {self.name!r} is a dictionary; if it holds members, merge it: members |= ...")
        if library in FOREIGN:
            raise TypeError(
                f"member {self.name!r} is a {type(self.posterior).__name__} of {library}, whose methods have "
                f"other arguments than a member's; wrap it: ds.adapters.from_{library}(...)."
            )

    def has(self, method: str) -> bool:
        """Return whether the member has a method: ``log_prob``, ``sample``, ``log_likelihood``, ``proposal``."""
        return getattr(self.posterior, method, None) is not None

    @property
    def y_shape(self) -> tuple[int, ...] | None:
        """Shape of one observation, if the member knows it; optional."""
        shape = getattr(self.posterior, "y_shape", None)
        return None if shape is None else tuple(shape)

    @property
    def needs_finite_y(self) -> bool:
        """Whether the member is known to give NaN where y is NaN or infinite; others may be made for it."""
        return bool(getattr(self.posterior, "needs_finite_y", False))

    @property
    def bounds(self) -> np.ndarray | None:
        """Lower and upper bounds of the parameters, (d, 2), infinite where there is none; None if not known."""
        owner = self.posterior if self.has("support") else getattr(self.posterior, "prior", None)
        support = getattr(owner, "support", None)
        lower, upper = np.asarray(getattr(support, "lower", None)), np.asarray(getattr(support, "upper", None))
        known = lower.shape == upper.shape == (self.d,)
        return np.stack([lower, upper], -1) if known else None

    @property
    def is_likelihood(self) -> bool:
        """Whether it is a likelihood, made a posterior by :func:`drystone.normalize`."""
        return self.has("log_likelihood") and self.has("proposal")

    @property
    def normalized_in_y(self) -> bool:
        """Whether it is a likelihood that is a normalized density of y."""
        return self.is_likelihood and bool(getattr(self.posterior, "normalized_in_y", False))

    def log_likelihood(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return log q(y_n | θ_n), (N,), of a likelihood for paired rows theta (N, d) and y (N, ...)."""
        self._check_has("log_likelihood", "likelihood")
        posterior: Any = self.posterior
        return np.asarray(as_numpy(posterior.log_likelihood(theta, y)), float)

    def log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return log q(θ_n | y_n), (N,), for paired rows theta (N, d) and y (N, ...)."""
        self._check_has("log_prob", "density")
        try:
            # Some densities contain an estimate; a member that takes a seed has a generator of its own.
            generators = generators_restored() if _takes_seed(self.posterior) else seeded(0)
            with generators, self._copies(theta=theta, y=y) as (theta_copy, y_copy):
                values = cast(Density, self.posterior).log_prob(theta_copy, y_copy)
        except SamplingError as error:  # some densities contain an estimated acceptance rate
            raise SamplingError(f"member {self.name!r}: {error}") from error
        log_prob = np.asarray(self._real("log_prob", values), float)
        if log_prob.shape != (len(theta),):
            raise ValueError(
                f"`log_prob` of member {self.name!r} must return shape (N,) = ({len(theta)},) for paired rows; "
                f"got {log_prob.shape}."
            )
        return log_prob

    def sample(self, n: int, y: np.ndarray, seed: int) -> np.ndarray:
        """Return n draws from q(· | y_i) for each row of y (N, ...), (n, N, d); equal seeds give equal draws."""
        self._check_has("sample", "sampler")
        try:
            with self._copies(y=y) as (y_copy,):
                draws = draw(cast(Sampler, self.posterior), n, y_copy, seed)
        except SamplingError as error:
            raise SamplingError(f"member {self.name!r}: {error}") from error
        draws = self._real("sample", draws)
        if draws.shape != (n, len(y), self.d):
            raise ValueError(
                f"`sample` of member {self.name!r} must return shape (n, N, d) = ({n}, {len(y)}, {self.d}); "
                f"got {draws.shape}."
            )
        return draws

    def quantiles(self, n: int, y: np.ndarray, levels: Sequence[float], seed: int) -> np.ndarray:
        """Return quantiles at some levels for each row of y, (levels, N, d), as a table of this member has them.

        They are read off n draws or, of a normalized likelihood, off its weighted points.
        """
        of_points = getattr(self.posterior, "quantiles_of_points", None)
        return quantile(self.sample(n, y, seed), levels, 0) if of_points is None else of_points(y, levels)

    @contextmanager
    def _copies(self, **arrays: np.ndarray) -> Iterator[list[np.ndarray]]:
        """Yield copies of the arrays for a call of the member; raise if it has changed them."""
        copies = [np.array(array, order="C") for array in arrays.values()]
        yield copies
        for (name, array), copy in zip(arrays.items(), copies, strict=True):
            if not np.array_equal(copy, array, equal_nan=True):
                raise ValueError(f"member {self.name!r} changed `{name}` in place; work on a copy.")

    def _real(self, method: str, values: np.ndarray | torch.Tensor) -> np.ndarray:
        """Return a result of the member as an array of real numbers, in which masked entries are NaN."""
        array = as_numpy(values)
        if array.dtype.kind not in "fiub":
            raise TypeError(
                f"`{method}` of member {self.name!r} must return real numbers; got dtype {array.dtype}."
            )
        return array

    def _check_has(self, name: str, noun: str) -> None:
        if not self.has(name):
            raise IntractableError(
                f"member {self.name!r} ({type(self.posterior).__name__}) has no `{name}`, so no {noun}. "
                "Use a score and a form that do not need it, or leave the member out."
            )


def lacking_names(
    members: Mapping[str, Density | Sampler] | Sequence[Density | Sampler], names: Sequence[str]
) -> list[str]:
    """Return the names that a mapping or an ensemble lacks; none for a sequence, which has no names."""
    present = members if isinstance(members, Mapping) else getattr(members, "names", names)
    return [name for name in names if name not in present]


def name_members(
    members: Mapping[str, Density | Sampler] | Sequence[Density | Sampler],
    names: Sequence[str],
    parameters: Sequence[str],
) -> tuple[CheckedMember, ...]:
    """Return checked members in the order of ``names``.

    Args:
        members: A mapping, matched by its keys; an ensemble, by its names; or a sequence in this order.
        names: The expected names.
        parameters: The names of θ.
    """
    ensemble_names = getattr(members, "names", None)
    if ensemble_names is not None and not isinstance(members, Mapping):
        members = dict(zip(ensemble_names, members, strict=True))
    if isinstance(members, Mapping):
        missing = [name for name in names if name not in members]
        if missing:
            raise ValueError(f"`members` lacks {missing}; it has {list(members)}.")
        members = [members[name] for name in names]
    members = list(members)
    if len(members) != len(names):
        raise ValueError(f"expected {len(names)} `members` ({', '.join(names[:3])}, …); got {len(members)}.")
    d = len(parameters)
    return tuple(CheckedMember(name, member, d) for name, member in zip(names, members, strict=True))
