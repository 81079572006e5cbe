r"""Likelihood members: :math:`f(\theta, y) = \log q(y \mid \theta)` up to a term in y.

A ratio :math:`\log r(\theta, y) = \log q(y \mid \theta) - \log q(y)` is the same thing: the term in y cancels once
the posterior is normalized. Only a member that is a density of y (``normalized_in_y``) knows the evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import as_numpy
from drystone._parallel import evaluating

__all__ = ["CheckedLikelihood", "LikelihoodMember", "checked_likelihoods"]

# Rows of a call. A network's last bits depend on how many rows it is given at once: calls of one fixed size make
# the density of a row a function of that row alone.
ROWS = 64


@runtime_checkable
class LikelihoodMember(Protocol):
    """Anything with a log likelihood for paired rows.

    Two attributes are optional: ``normalized_in_y`` (True if exp(f) integrates to one over y, for every θ) and a
    method ``simulate(theta, seed) -> y`` for paired rows.
    """

    def log_likelihood(self, theta: np.ndarray, y: np.ndarray, /) -> ArrayLike:
        """Return f(θ_n, y_n) for paired rows theta (N, d), y (N, ...): (N,)."""
        ...


@dataclass(frozen=True)
class CheckedLikelihood:
    """A likelihood member with its name, whose values are checked.

    Attributes:
        name: for messages.
        member: the likelihood member itself.
    """

    name: str
    member: LikelihoodMember

    @property
    def normalized_in_y(self) -> bool:
        """Whether exp(f) is a normalized density of y."""
        return bool(getattr(self.member, "normalized_in_y", False))

    def at(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return f(θ_m, y) at points theta (m, d) for one row y (1, ...): (m,).

        The values depend on θ_m and y only, not on the other points: the points are padded to whole calls.
        """
        m = len(theta)
        whole = np.concatenate([theta, np.repeat(theta[-1:], -m % ROWS, 0)])
        # The member gets copies: what it does to them changes nothing else.
        with evaluating(self.name):  # those that share its points are evaluated in one process with it
            values = as_numpy(self.member.log_likelihood(whole, np.repeat(y, len(whole), 0)))
        if values.dtype.kind not in "fiub":
            raise TypeError(
                f"`log_likelihood` of member {self.name!r} must give real numbers; got dtype {values.dtype}."
            )
        values = np.asarray(values, float)
        if values.shape != (len(whole),):
            raise ValueError(
                f"`log_likelihood` of member {self.name!r} must give shape (N,) = ({len(whole)},) for paired "
                f"rows; got {values.shape}."
            )
        values = values[:m]
        if np.isnan(values).any() or (values == np.inf).any():
            raise ValueError(
                f"`log_likelihood` of member {self.name!r} is NaN or +inf at {int((~(values < np.inf)).sum())} of "
                f"{m} points."
            )
        return values


def checked_likelihoods(
    likelihoods: Mapping[str, LikelihoodMember] | Sequence[LikelihoodMember],
) -> tuple[CheckedLikelihood, ...]:
    """Return the likelihoods with their names: a mapping's keys, an ensemble's names, or ``likelihood_k``."""
    if isinstance(likelihoods, Mapping):
        named = dict(likelihoods)
    elif not isinstance(likelihoods, Iterable):
        raise TypeError(
            "`likelihoods` must be a mapping of names to likelihood members, or several of them; got one "
            f"{type(likelihoods).__name__}. Give it a name: {{name: likelihood}}."
        )
    else:
        members = list(likelihoods)
        names = getattr(likelihoods, "names", None) or [f"likelihood_{k}" for k in range(len(members))]
        named = dict(zip(names, members, strict=True))
    if not named:
        raise ValueError("`likelihoods` must hold at least one member; got none.")
    for name, member in named.items():
        if not isinstance(member, LikelihoodMember):
            raise TypeError(
                f"`likelihoods` must have `log_likelihood(theta, y)`; {name!r} is a {type(member).__name__} "
                "without it. Wrap a function with ds.adapters.from_likelihood or from_ratio."
            )
    return tuple(CheckedLikelihood(name, member) for name, member in named.items())
