r"""Members averaged over a finite group of symmetries.

If :math:`p(g\theta, gy) = p(\theta, y)` for all g of a group G, as for labels that may be exchanged or a sign that
the data do not determine, then a posterior should have the same symmetry. The average over the group has it:

.. math:: \bar q(\theta \mid y) = \frac{1}{|G|} \sum_{g \in G} q(g\theta \mid gy)\, |\det g'(\theta)|

By the concavity of the logarithm its expected log density is at least the mean of those of its terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.special import logsumexp

from drystone._arrays import as_numpy
from drystone.adapters.member import Density, Member, Sampler, draw
from drystone.errors import IntractableError

__all__ = ["averaged"]

# Maps rows (N, …) to rows of the same shape.
Map = Callable[[np.ndarray], np.ndarray]
# Maps of theta and of y, and log |det| of the map of theta: a number or a function of theta; 0 if left out.
Symmetry = tuple[Map, Map] | tuple[Map, Map, float | Callable[[np.ndarray], np.ndarray]]


def averaged(member: Density | Sampler, maps: Sequence[Symmetry]) -> Member:
    r"""Average a member over a finite group of symmetries of the problem.

    Args:
        member: A member with ``log_prob(theta, y)``, ``sample(n, y)`` or both.
        maps: All elements of the group, the identity among them. Each is a pair (map of theta, map of y) of
            functions of rows, (N, d) → (N, d) and (N, …) → (N, …), or a triple with the log of the absolute
            determinant of the map of theta: a number, or a function (N, d) → (N,). Without it the map must
            preserve volumes, as permutations, signs, rotations and shifts do.

    Returns:
        The averaged member. A draw is one of ``member`` at gy for a random g, mapped back by the inverse of g.

    Example:
        >>> import drystone as ds
        >>> flip = (lambda theta: -theta, lambda y: -y)
        >>> same = (lambda theta: theta, lambda y: y)
        >>> even = ds.adapters.averaged(ds.toy.MEMBERS["left"], [same, flip])
        >>> theta, y = np.array([[0.3]]), np.array([[1.0]])
        >>> bool(np.isclose(even.log_prob(theta, y), even.log_prob(-theta, -y)).all())
        True
    """
    if not len(maps):
        raise ValueError("`maps` is empty; expected the elements of a group, the identity among them.")
    group = tuple(_Element(symmetry[0], symmetry[1], *symmetry[2:]) for symmetry in maps)
    has_density, has_draws = (getattr(member, name, None) is not None for name in ("log_prob", "sample"))
    if not (has_density or has_draws):
        raise IntractableError(f"{type(member).__name__} has neither `log_prob` nor `sample`: it is no member.")
    kind: Any = AveragedMember if has_density and has_draws else AveragedDensity if has_density else AveragedDraws
    return cast(Member, kind(member, group))


@dataclass(frozen=True)
class _Element:
    """One element of the group."""

    theta: Map
    y: Map
    log_det: float | Callable[[np.ndarray], np.ndarray] = 0.0

    def of_theta(self, theta: np.ndarray) -> np.ndarray:
        return _mapped("theta", self.theta, theta)

    def of_y(self, y: np.ndarray) -> np.ndarray:
        return _mapped("y", self.y, y)

    def log_det_at(self, theta: np.ndarray) -> np.ndarray:
        log_det = self.log_det(theta.copy()) if callable(self.log_det) else self.log_det
        return np.broadcast_to(as_numpy(log_det), len(theta))


def _mapped(name: str, function: Map, rows: np.ndarray) -> np.ndarray:
    new = as_numpy(function(rows.copy()))
    if new.shape != rows.shape:
        raise ValueError(f"a map of `{name}` must return the shape that it gets, {rows.shape}; got {new.shape}.")
    return new


class _Averaged:
    """A member and the group."""

    def __init__(self, member: Any, group: tuple[_Element, ...]) -> None:
        self.member, self.group = member, group

    @property
    def y_shape(self) -> tuple[int, ...] | None:
        """Shape of one observation, if the member knows it."""
        return getattr(self.member, "y_shape", None)

    @property
    def needs_finite_y(self) -> bool:
        """Whether the member gives NaN where y is NaN."""
        return bool(getattr(self.member, "needs_finite_y", False))

    def __repr__(self) -> str:
        return f"{self.member!r}, averaged over {len(self.group)} symmetries"


class AveragedDensity(_Averaged):
    """A density averaged over a group."""

    def log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the log of the averaged density for paired rows theta (N, d) and y (N, …), (N,)."""
        terms = [
            as_numpy(self.member.log_prob(g.of_theta(theta), g.of_y(y))) + g.log_det_at(theta) for g in self.group
        ]
        return np.asarray(logsumexp(terms, axis=0) - np.log(len(self.group)))


class AveragedDraws(_Averaged):
    """A sampler averaged over a group."""

    def sample(self, n: int, y: np.ndarray, seed: int | None = None) -> np.ndarray:
        """Return n draws for each row of y, (n, N, d)."""
        rng = np.random.default_rng(seed)
        chosen = rng.integers(len(self.group), size=n)
        draws: np.ndarray | None = None
        for k in np.unique(chosen):
            at, its_seed = np.flatnonzero(chosen == k), int(rng.integers(2**62))
            transformed = draw(self.member, at.size, self.group[k].of_y(y), its_seed)
            rows = np.asarray(transformed, float).reshape(-1, transformed.shape[-1])
            if draws is None:
                draws = np.empty((n, len(y), rows.shape[1]))
            draws[at] = self._inverse(k, rows).of_theta(rows).reshape(transformed.shape)
        if draws is None:
            raise ValueError(f"a sample needs at least one draw; got n = {n}.")
        return draws

    def _inverse(self, k: int, theta: np.ndarray) -> _Element:
        """Return the element of the group that undoes the k-th at these parameters."""
        mapped, rounding = self.group[k].of_theta(theta), 1e-9 * np.nanmax(np.abs(theta), axis=0, initial=0.0)
        for g in self.group:
            if np.isclose(g.of_theta(mapped), theta, rtol=1e-6, atol=rounding, equal_nan=True).all():
                return g
        raise ValueError(
            f"`maps` must be a group: none of its {len(self.group)} elements is the inverse of number {k}. Add it."
        )


class AveragedMember(AveragedDensity, AveragedDraws):
    """A density and its sampler, averaged over a group."""
