"""Members: what a single approximate posterior must be able to do, whatever library it comes from.

A member is anything with ``log_prob(theta, y) -> (N,)`` for paired rows and ``sample(n, y) -> (n, N, d)``; either
may be missing (MCMC draws have no density, some densities no sampler). Arguments are NumPy arrays; the answers
may be NumPy arrays or torch tensors. If ``sample`` has a parameter ``seed`` it is given one.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from drystone.arrays import as_numpy
from drystone.errors import IntractableError

__all__ = ["Member", "name_members"]


@dataclass(frozen=True)
class Member:
    """A posterior with its name, whose answers are checked."""

    name: str
    posterior: Any

    def log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """log q(θ_n | y_n) for paired rows theta (N, d), y (N, ...): (N,)."""
        answer = self._method("log_prob", "density")(theta, y)
        log_prob = np.asarray(as_numpy(answer), float)
        if log_prob.shape != (len(theta),):
            raise ValueError(
                f"`log_prob` of member {self.name!r} must give shape (N,) = ({len(theta)},) for paired rows; "
                f"got {log_prob.shape}."
            )
        return log_prob

    def sample(self, n: int, y: np.ndarray, seed: int | None = None) -> np.ndarray:
        """n draws from q(· | y_i) for each row of y (N, ...): (n, N, d).

        With a ``seed``, members that cannot take one are run with torch's generator set to it, and the
        generator put back as it was.
        """
        sample = self._method("sample", "sampler")
        if seed is None:
            answer = sample(n, y)
        elif "seed" in inspect.signature(sample).parameters:
            answer = sample(n, y, seed=seed)
        else:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                answer = sample(n, y)
        draws = as_numpy(answer)
        if draws.ndim != 3 or draws.shape[:2] != (n, len(y)):
            raise ValueError(
                f"`sample` of member {self.name!r} must give shape (n, N, d) = ({n}, {len(y)}, d); "
                f"got {draws.shape}."
            )
        return draws

    def _method(self, name: str, noun: str) -> Any:
        method = getattr(self.posterior, name, None)
        if method is None:
            raise IntractableError(
                f"member {self.name!r} ({type(self.posterior).__name__}) has no `{name}`, so no {noun}. "
                "Use a score and a form that do not need it, or leave the member out."
            )
        return method


def name_members(
    members: Mapping[str, Any] | Sequence[Any], names: Sequence[str] | None = None
) -> tuple[Member, ...]:
    """Members in order, with names: a mapping's keys, or those given for a sequence.

    Args:
        members: posteriors by name, or in order.
        names: the names expected, in order. A mapping is put in their order; a sequence must be as long.
    """
    if isinstance(members, Mapping):
        missing = [name for name in names or () if name not in members]
        if missing:
            raise ValueError(f"`members` lacks {missing}; it has {list(members)}.")
        return tuple(Member(name, members[name]) for name in names or members)
    members = list(members)
    if names is None:
        names = [f"member_{k}" for k in range(len(members))]
    if len(members) != len(names):
        raise ValueError(f"expected {len(names)} `members` ({', '.join(names[:3])}, …); got {len(members)}.")
    return tuple(Member(name, member) for name, member in zip(names, members, strict=True))
