r"""Members held to a prior's support: one treatment of leakage for draws and for densities.

A density estimator trained on a bounded prior puts some of its mass outside the support Θ. Held to Θ it is

.. math::
    q_Θ(θ \mid y) = \frac{q(θ \mid y)\, 1(θ ∈ Θ)}{A(y)}, \qquad A(y) = \int_Θ q(θ \mid y)\, dθ.

Its draws are the draws of q that fall into Θ, and A(y) is the share of them that does. A rank, an interval or a
mean of these draws, and this density, speak of the same distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import numpy as np

from drystone.arrays import as_numpy
from drystone.errors import IntractableError, SamplingError
from drystone.members import draw
from drystone.support import Support

__all__ = ["Contains", "RestrictedDraws", "RestrictedMember", "restrict", "support_of"]

# Says of theta (..., d) which lie in the support, (...,).
Contains = Callable[[np.ndarray], np.ndarray]

# A member of which fewer than LEAST of at least GIVE_UP draws are accepted is not sampled any further: the cost
# of n accepted draws is thereby at most max(GIVE_UP, n / LEAST).
LEAST, GIVE_UP = 1e-3, 10_000
# Draws asked of a member at once, over all rows: some tens of MB.
AT_ONCE = 2**20
# Acceptance rates remembered by a member, at about 100 bytes each.
REMEMBERED = 100_000


def restrict(member: Any, prior: Any, *, error: float = 0.05) -> Any:
    r"""Hold a member to the support of a prior: draws rejected, density renormalised.

    Args:
        member: anything with ``sample(n, y)`` and, if it has a density, ``log_prob(theta, y)``.
        prior: whose support it is: a (lower, upper) pair, a :class:`~drystone.support.Support`, an object with a
            ``support``, such as a torch distribution or one of sbi's priors, or with a ``log_prob``.
        error: largest standard error, in nats, that estimating A(y) may add to a log density. At 0.05 a row of y
            takes 400 draws, if at least half of them are accepted; at 0.1 a quarter of that. The estimate is a
            function of the row alone, so that a density is the same whatever else is asked for in the same call,
            and is remembered.

    Returns:
        a member; the one given if the support is the whole space.

    Raises:
        SamplingError: when densities or draws are asked for, if less than one draw in a thousand is accepted.

    Example:
        >>> import drystone as ds
        >>> half = ds.adapters.restrict(ds.toy.MEMBERS["narrow"], prior=([0.0], [np.inf]))
        >>> bool(half.sample(100, np.zeros((3, 1)), seed=0).min() >= 0)
        True
    """
    if not 0 < error < 1:
        raise ValueError(f"`error` must be in (0, 1); got {error}.")
    contains = support_of(prior)
    if contains is None:
        return member
    if getattr(member, "sample", None) is None:
        raise IntractableError(
            f"holding {type(member).__name__} to a support needs its `sample`, which the share of draws within "
            "the support is estimated from; it has none."
        )
    kind = RestrictedDraws if getattr(member, "log_prob", None) is None else RestrictedMember
    return kind(member, contains, error)


class RestrictedDraws:
    """A sampler held to a support."""

    def __init__(self, member: Any, contains: Contains, error: float) -> None:
        self.member, self.contains, self.error = member, contains, error

    def sample(self, n: int, y: np.ndarray, seed: int | None = None) -> np.ndarray:
        """n draws within the support for each row of y, (n, N, d): the first n that fall into it."""
        rng = np.random.default_rng(seed)
        draws: np.ndarray | None = None
        accepted, proposed = np.zeros(len(y), int), np.zeros(len(y), int)
        while (lacking := np.flatnonzero(accepted < n)).size:
            m = _how_many(n - accepted[lacking], accepted[lacking], proposed[lacking])
            for rows in np.array_split(lacking, -(-lacking.size * m // AT_ONCE)):
                candidates = draw(self.member, m, y[rows], int(rng.integers(2**62)))
                inside = self.contains(candidates)
                if draws is None:
                    if rows.size == len(y) and inside.all():
                        return candidates
                    draws = np.empty((n, len(y), candidates.shape[-1]), candidates.dtype)
                for j, row in enumerate(rows):
                    kept = candidates[inside[:, j], j][: n - accepted[row]]
                    draws[accepted[row] : accepted[row] + len(kept), row] = kept
                    accepted[row] += len(kept)
                proposed[rows] += m
            _check(accepted, proposed, y)
        if draws is None:
            raise ValueError(f"a sample needs at least one draw and one row; got n = {n} and {len(y)} rows.")
        return draws

    def __repr__(self) -> str:
        return f"{self.member!r}, held to a support"


class RestrictedMember(RestrictedDraws):
    """A density and its sampler, held to a support."""

    def __init__(self, member: Any, contains: Contains, error: float) -> None:
        super().__init__(member, contains, error)
        self._acceptance: dict[bytes, float] = {}

    def log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """log q(θ_n | y_n) − log A(y_n) within the support, −inf outside: (N,)."""
        inside = self.contains(theta)
        log_q = np.full(len(theta), -np.inf)
        if inside.any():
            theta, y = theta[inside], y[inside]
            log_q[inside] = as_numpy(self.member.log_prob(theta, y)) - np.log(self.acceptance(y))
        return log_q

    def acceptance(self, y: np.ndarray) -> np.ndarray:
        """A(y): the share of draws within the support for each row of y, (N,)."""
        # A row's own bytes seed its estimate, which so is a function of the row alone, and can be remembered.
        keys = [blake2b(np.asarray(row, float).tobytes(), digest_size=8).digest() for row in y]
        if len(self._acceptance) > REMEMBERED:
            self._acceptance.clear()
        for key, row in zip(keys, y, strict=True):
            if key not in self._acceptance:
                self._acceptance[key] = self._estimate(row[None], int.from_bytes(key, "little") >> 2)
        return np.array([self._acceptance[key] for key in keys])

    def _estimate(self, y: np.ndarray, seed: int) -> float:
        """A at one row (1, ...), with relative standard error √((1 − A) / accepted) ≤ error."""
        rng, m = np.random.default_rng(seed), math.ceil(self.error**-2)
        accepted, proposed = np.zeros(1, int), np.zeros(1, int)
        while proposed[0] == 0 or (1 - accepted[0] / proposed[0]) > self.error**2 * accepted[0]:
            candidates = draw(self.member, m, y, int(rng.integers(2**62)))
            accepted += self.contains(candidates[:, 0]).sum()
            proposed += m
            _check(accepted, proposed, y)
        return float(accepted[0] / proposed[0])


def _how_many(missing: np.ndarray, accepted: np.ndarray, proposed: np.ndarray) -> int:
    """Draws to ask for next: as many as the neediest row is likely to need, but no more than it may have."""
    rate = np.where(proposed > 0, (accepted + 1) / (proposed + 1), 1.0)  # never 0
    return int(min(np.ceil((missing / rate).max()), max(GIVE_UP, missing.max())))


def _check(accepted: np.ndarray, proposed: np.ndarray, y: np.ndarray) -> None:
    hopeless = np.flatnonzero((proposed >= GIVE_UP) & (accepted < LEAST * proposed))
    if hopeless.size:
        row = hopeless[0]
        shown = np.array2string(np.ravel(y[row])[:4], precision=4, separator=", ")
        raise SamplingError(
            f"{accepted[row]} of {proposed[row]} draws lie within the prior's support at y = {shown} (and so at "
            f"{hopeless.size} of {len(y)} rows). The member puts its mass elsewhere: leave it out, train it "
            "longer or in an unbounded space, or check that `prior` is the one it was trained with."
        )


def support_of(prior: Any) -> Contains | None:
    """What says whether theta (..., d) lies in a prior's support, (...,); None if everything does."""
    if prior is None:
        return None
    support = getattr(prior, "support", prior) if not isinstance(prior, Support) else prior
    if isinstance(prior, tuple | list):
        support = Support(*(np.atleast_1d(np.asarray(as_numpy(bound), float)) for bound in prior))
    if isinstance(support, Support):
        return support.contains if support.bounded else None
    if hasattr(support, "check"):
        return None if _everything(support) else _Check(prior)
    if hasattr(prior, "log_prob"):
        return _Check(prior)
    raise TypeError(
        "`prior` must be a (lower, upper) pair, a Support, or have a `support` or a `log_prob`; "
        f"got {type(prior).__name__}."
    )


def _everything(constraint: Any) -> bool:
    from torch.distributions import constraints

    return getattr(constraint, "base_constraint", constraint) in (constraints.real, constraints.real_vector)


class _Check:
    """The support of a torch distribution, or of anything with a torch ``log_prob``."""

    def __init__(self, prior: Any) -> None:
        self.prior = prior

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        import torch

        # In the prior's own precision, or a parameter that stands on a bound may be rounded across it.
        like = _a_tensor_of(self.prior)
        points = torch.as_tensor(np.asarray(theta)).to(like.device, like.dtype)
        try:
            inside = self.prior.support.check(points)
        except (AttributeError, NotImplementedError):
            inside = torch.isfinite(self.prior.log_prob(points.reshape(-1, theta.shape[-1])))
        if inside.shape == points.shape:  # a constraint on each parameter, not on the vector
            inside = inside.all(-1)
        return as_numpy(inside).reshape(theta.shape[:-1])


def _a_tensor_of(prior: Any) -> Any:
    """Some parameter of a torch distribution, which says where and how precise it is."""
    import torch

    base = getattr(prior, "base_dist", prior)
    floating = (v for v in vars(base).values() if isinstance(v, torch.Tensor) and v.is_floating_point())
    return next(floating, torch.empty(()))
