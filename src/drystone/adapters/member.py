"""Members: what a single approximate posterior must be able to do, whatever library it comes from.

A member is anything with ``log_prob(theta, y) -> (N,)`` for paired rows and ``sample(n, y) -> (n, N, d)``; either
may be missing (MCMC draws have no density, some densities no sampler). Arguments are NumPy arrays; the answers
may be NumPy arrays or torch tensors. If ``sample`` has a parameter ``seed`` it is given one. The arrays that a
member is called with are copies; changing them in place is an error.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from drystone._arrays import as_numpy
from drystone._parallel import seeded
from drystone.errors import IntractableError, SamplingError

__all__ = ["Member", "draw", "name_members"]

# Libraries whose posteriors have methods of our names with other arguments.
FOREIGN = ("bayesflow", "lampe", "sbi", "zuko")


def draw(posterior: Any, n: int, y: np.ndarray, seed: int, isolated: bool = True) -> np.ndarray:
    """n draws of a member for each row of y, (n, N, d), with ``seed`` whether or not its ``sample`` takes one.

    Args:
        posterior: the member itself.
        n: draws a row.
        y: data, (N, ...).
        seed: given to a member whose ``sample`` takes one.
        isolated: run a member that takes none with torch's and NumPy's global generators set to the seed, and
            put them back; else it uses the generators as they stand.
    """
    if "seed" in inspect.signature(posterior.sample).parameters:
        return as_numpy(posterior.sample(n, y, seed=seed))
    with seeded(seed if isolated else None):
        return as_numpy(posterior.sample(n, y))


@dataclass(frozen=True)
class Member:
    """A posterior with its name, whose answers are checked.

    Attributes:
        name: for messages.
        posterior: the member itself.
        d: how many parameters it must speak of.
    """

    name: str
    posterior: Any
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
                f"other arguments than ours; wrap it: ds.adapters.from_{library}(...)."
            )

    def log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """log q(θ_n | y_n) for paired rows theta (N, d), y (N, ...): (N,)."""
        log_prob_of = self._method("log_prob", "density")
        try:
            with self._copies(theta=theta, y=y) as (own_theta, own_y):
                answer = log_prob_of(own_theta, own_y)
        except SamplingError as error:  # an acceptance rate stands behind some densities
            raise SamplingError(f"member {self.name!r}: {error}") from error
        log_prob = np.asarray(as_numpy(answer), float)
        if log_prob.shape != (len(theta),):
            raise ValueError(
                f"`log_prob` of member {self.name!r} must give shape (N,) = ({len(theta)},) for paired rows; "
                f"got {log_prob.shape}."
            )
        return log_prob

    def sample(self, n: int, y: np.ndarray, seed: int, isolated: bool = True) -> np.ndarray:
        """n draws from q(· | y_i) for each row of y (N, ...): (n, N, d).

        Args:
            n: draws a row.
            y: data, (N, ...).
            seed: same seed, same draws.
            isolated: see :func:`draw`.
        """
        self._method("sample", "sampler")
        try:
            with self._copies(y=y) as (own_y,):
                draws = draw(self.posterior, n, own_y, seed, isolated)
        except SamplingError as error:
            raise SamplingError(f"member {self.name!r}: {error}") from error
        if draws.shape != (n, len(y), self.d):
            raise ValueError(
                f"`sample` of member {self.name!r} must give shape (n, N, d) = ({n}, {len(y)}, {self.d}); "
                f"got {draws.shape}."
            )
        return draws

    @contextmanager
    def _copies(self, **arrays: np.ndarray) -> Iterator[list[np.ndarray]]:
        """Yield copies of the arrays for the member to work on; raise if it has changed them."""
        copies = [np.array(array, order="C") for array in arrays.values()]
        yield copies
        for (name, array), copy in zip(arrays.items(), copies, strict=True):
            if copy.tobytes() != array.tobytes():  # NaN is equal to itself
                raise ValueError(f"member {self.name!r} changed `{name}` in place; work on a copy.")

    def _method(self, name: str, noun: str) -> Any:
        method = getattr(self.posterior, name, None)
        if method is None:
            raise IntractableError(
                f"member {self.name!r} ({type(self.posterior).__name__}) has no `{name}`, so no {noun}. "
                "Use a score and a form that do not need it, or leave the member out."
            )
        return method


def name_members(
    members: Mapping[str, Any] | Sequence[Any], names: Sequence[str], parameters: Sequence[str]
) -> tuple[Member, ...]:
    """Members in the order of ``names``: a mapping by its keys, an ensemble by its names, a sequence as it stands.

    Args:
        members: posteriors by name, or in order.
        names: the names expected, in order.
        parameters: the names of θ.
    """
    own = getattr(members, "names", None)
    if own is not None and not isinstance(members, Mapping):
        members = dict(zip(own, members, strict=True))
    if isinstance(members, Mapping):
        missing = [name for name in names if name not in members]
        if missing:
            raise ValueError(f"`members` lacks {missing}; it has {list(members)}.")
        members = [members[name] for name in names]
    members = list(members)
    if len(members) != len(names):
        raise ValueError(f"expected {len(names)} `members` ({', '.join(names[:3])}, …); got {len(members)}.")
    return tuple(Member(name, member, len(parameters)) for name, member in zip(names, members, strict=True))
