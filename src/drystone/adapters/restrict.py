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
import torch
from torch.distributions import constraints

from drystone._arrays import as_numpy
from drystone.adapters.member import draw
from drystone.errors import IntractableError, SamplingError
from drystone.simulation.support import Support

__all__ = ["Contains", "RestrictedDraws", "RestrictedMember", "restrict", "support_of"]

# Says of theta (..., d) which lie in the support, (...,).
Contains = Callable[[np.ndarray], np.ndarray]

# A member of which fewer than LEAST of at least GIVE_UP draws are accepted is not sampled any further: the cost
# of n accepted draws is thereby at most max(GIVE_UP, n / LEAST).
LEAST, GIVE_UP = 1e-3, 10_000
# Draws asked of a member at once, over all rows: some tens of MB.
AT_ONCE = 2**20
# Rows of theta and y whose density is asked of a network at once.
ROWS = 10_000
# Acceptance rates remembered by a member, at 8 bytes each.
REMEMBERED = 100_000


def restrict(member: Any, prior: Any, *, error: float = 0.05) -> Any:
    r"""Hold a member to the support of a prior: draws rejected, density renormalised.

    Args:
        member: anything with ``sample(n, y)`` and, if it has a density, ``log_prob(theta, y)``.
        prior: whose support it is: a (lower, upper) pair or array (2, d), numbers for bounds of every parameter,
            a :class:`~drystone.simulation.support.Support`, an object with a ``support``, such as a torch
            distribution or one of sbi's priors, or with a ``log_prob`` of theta (N, d), torch's or NumPy's.
        error: largest standard error, in nats, that estimating A(y) may add to a log density. At 0.05 a row of y
            takes 400 draws, if at least half of them are accepted; at 0.1 a quarter of that. All rows of a call
            are estimated together, from draws that the set of different rows seeds. A density hence depends on
            theta, y and that set, not on order, repetitions, other thetas or earlier calls; the same y among
            other rows has another estimate, with an error of its own. :func:`drystone.tabulate` always asks in
            the same blocks of rows.

    Returns:
        a member; the one given if the support is the whole space.

    Raises:
        SamplingError: when densities or draws are asked for, if less than one draw in a thousand is accepted, or
            one is not finite.

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
                candidates = self._candidates(m, y[rows], rng)
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

    def _candidates(self, m: int, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """m draws of the member for each row of y, in the support or not: (m, N, d)."""
        candidates = draw(self.member, m, y, int(rng.integers(2**62)))
        finite = np.asarray(np.isfinite(candidates).all(-1))
        if not finite.all():  # to be told from draws that leak, which are rejected
            row = int(np.flatnonzero(~finite.all(0))[0])
            raise SamplingError(
                f"{m - finite[:, row].sum()} of {m} draws at y = {_shown(y[row])} are not finite. The member is "
                "broken there: train it again or leave it out."
            )
        return candidates

    def __repr__(self) -> str:
        return f"{self.member!r}, held to a support"


class RestrictedMember(RestrictedDraws):
    """A density and its sampler, held to a support."""

    def __init__(self, member: Any, contains: Contains, error: float) -> None:
        super().__init__(member, contains, error)
        self._remembered: dict[bytes, np.ndarray] = {}

    def log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """log q(θ_n | y_n) − log A(y_n) within the support, −inf outside: (N,)."""
        inside = self.contains(theta)
        log_q = np.full(len(theta), -np.inf)
        if inside.any():
            # A of all rows, also of those whose theta is outside, or it would depend on theta.
            log_a = np.log(self.acceptance(y)[inside])
            log_q[inside] = as_numpy(self.member.log_prob(theta[inside], y[inside])) - log_a
        return log_q

    def acceptance(self, y: np.ndarray) -> np.ndarray:
        """A(y): the share of draws within the support for each row of y, (N,)."""
        rows, which = np.unique(y.reshape(len(y), -1), axis=0, return_inverse=True)
        key = blake2b(np.asarray(rows, float).tobytes(), digest_size=8).digest()
        if key not in self._remembered:
            if sum(map(len, self._remembered.values())) + len(rows) > REMEMBERED:
                self._remembered.clear()
            seed = int.from_bytes(key, "little")
            self._remembered[key] = self._estimate(rows.reshape(-1, *y.shape[1:]), seed)
        return self._remembered[key][which.reshape(-1)]

    def _estimate(self, y: np.ndarray, seed: int) -> np.ndarray:
        """A at each row of y, (N,), with relative standard error √((1 − A) / accepted) ≤ error."""
        rng, m = np.random.default_rng(seed), math.ceil(self.error**-2)
        accepted, proposed = np.zeros(len(y), int), np.zeros(len(y), int)
        vague = np.arange(len(y))
        while vague.size:
            for rows in np.array_split(vague, -(-vague.size * m // AT_ONCE)):
                accepted[rows] += self.contains(self._candidates(m, y[rows], rng)).sum(0)
                proposed[rows] += m
            _check(accepted, proposed, y)
            vague = np.flatnonzero(1 - accepted / proposed > self.error**2 * accepted)
        return accepted / proposed


def _how_many(missing: np.ndarray, accepted: np.ndarray, proposed: np.ndarray) -> int:
    """Draws to ask for next: as many as the neediest row is likely to need, but no more than it may have."""
    rate = np.where(proposed > 0, (accepted + 1) / (proposed + 1), 1.0)  # never 0
    return int(min(np.ceil((missing / rate).max()), max(GIVE_UP, missing.max())))


def _check(accepted: np.ndarray, proposed: np.ndarray, y: np.ndarray) -> None:
    hopeless = np.flatnonzero((proposed >= GIVE_UP) & (accepted < LEAST * proposed))
    if hopeless.size:
        row = hopeless[0]
        raise SamplingError(
            f"{accepted[row]} of {proposed[row]} draws lie within the prior's support at y = {_shown(y[row])} "
            f"(and so at {hopeless.size} of {len(y)} rows). The member puts its mass elsewhere: leave it out, "
            "train it longer or in an unbounded space, or check that `prior` is the one it was trained with."
        )


def _shown(row: np.ndarray) -> str:
    """The first numbers of a row of data, for a message."""
    return np.array2string(np.ravel(row)[:4], precision=4, separator=", ")


def support_of(prior: Any) -> Contains | None:
    """What says whether theta (..., d) lies in a prior's support, (...,); None if everything does."""
    if prior is None:
        return None
    if isinstance(prior, tuple | list | np.ndarray | torch.Tensor):
        return _box(prior)
    support = prior if isinstance(prior, Support) else getattr(prior, "support", prior)
    if isinstance(support, Support):
        return _Box(support) if support.bounded else None
    if hasattr(support, "check"):
        return None if _everything(support) else _Check(prior)
    if hasattr(prior, "log_prob"):
        return _Positive(prior)
    raise TypeError(
        "`prior` must be a (lower, upper) pair, a Support, or have a `support` or a `log_prob`; "
        f"got {type(prior).__name__}."
    )


def _box(bounds: Any) -> Contains | None:
    """The box of a (lower, upper) pair."""
    pair = [np.asarray(as_numpy(bound), float) for bound in bounds]
    if len(pair) != 2 or max(bound.ndim for bound in pair) > 1:
        raise ValueError(
            "bounds given as `prior` must be a (lower, upper) pair of (d,) arrays or one array (2, d); got "
            f"{len(pair)} of shapes {', '.join(str(bound.shape) for bound in pair)}."
        )
    (d,) = max((bound.shape for bound in pair), key=len) or (1,)
    support = Support(*(np.broadcast_to(bound, d) if bound.ndim == 0 else bound for bound in pair))
    everywhere = all(bound.ndim == 0 for bound in pair)
    return _Box(support, everywhere) if support.bounded else None


class _Box:
    """A box; if ``everywhere``, of the same bounds for however many parameters there are."""

    def __init__(self, support: Support, everywhere: bool = False) -> None:
        self.support, self.everywhere = support, everywhere

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        if not self.everywhere:
            _same_d(len(self.support.lower), theta)
        return self.support.contains(theta)


class _Check:
    """The support of a torch distribution."""

    def __init__(self, prior: Any) -> None:
        self.prior = prior

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        shape = (*getattr(self.prior, "batch_shape", ()), *getattr(self.prior, "event_shape", ()))
        if shape:
            _same_d(shape[-1], theta)
        points = _tensor(theta, self.prior)
        try:
            inside = self.prior.support.check(points)
        except (AttributeError, NotImplementedError):  # a distribution that does not say where it lives
            return _Positive(self.prior)(theta)
        if inside.shape == points.shape:  # a constraint on each parameter, not on the vector
            inside = inside.all(-1)
        return as_numpy(inside).reshape(theta.shape[:-1])


class _Positive:
    """Where a density is not 0; its ``log_prob`` takes torch's arrays or NumPy's."""

    def __init__(self, prior: Any) -> None:
        self.prior = prior

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        rows = np.asarray(theta).reshape(-1, theta.shape[-1])
        try:
            log_prob = self.prior.log_prob(rows.copy())  # which it may change
        except (TypeError, AttributeError, ValueError):  # what torch makes of NumPy's arrays
            log_prob = self.prior.log_prob(_tensor(rows, self.prior))
        return np.isfinite(as_numpy(log_prob)).reshape(theta.shape[:-1])


def _same_d(d: int, theta: np.ndarray) -> None:
    if theta.shape[-1] != d:
        raise ValueError(f"`prior` is one of {d} parameters; theta has {theta.shape[-1]}, in shape {theta.shape}.")


def _everything(constraint: Any) -> bool:
    return getattr(constraint, "base_constraint", constraint) in (constraints.real, constraints.real_vector)


def _tensor(theta: np.ndarray, prior: Any) -> torch.Tensor:
    """In the prior's own precision, or a parameter that stands on a bound may be rounded across it."""
    base = getattr(prior, "base_dist", prior)
    floating = (v for v in vars(base).values() if isinstance(v, torch.Tensor) and v.is_floating_point())
    like = next(floating, torch.empty(()))
    return torch.as_tensor(np.asarray(theta)).to(like.device, like.dtype)
