r"""Members restricted to a prior's support: one treatment of leakage for draws and for densities.

A density estimator trained on a bounded prior puts some of its mass outside the support Θ. Restricted to Θ it is

.. math::
    q_Θ(θ \mid y) = \frac{q(θ \mid y)\, 1(θ ∈ Θ)}{A(y)}, \qquad A(y) = \int_Θ q(θ \mid y)\, dθ.

Its draws are the draws of q that lie in Θ, and A(y) is their share. Ranks, intervals and means of these draws thus
belong to the same distribution as this density.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, cast

import numpy as np
import torch
from torch.distributions import constraints

from drystone._arrays import as_numpy
from drystone.adapters.member import Density, Member, Sampler, draw
from drystone.errors import IntractableError, SamplingError
from drystone.simulation.rejection import AT_ONCE, GIVE_UP, draw_accepted
from drystone.simulation.support import Support, is_product

__all__ = ["Contains", "RestrictedDraws", "RestrictedMember", "restrict", "support_of"]

# Returns whether theta (..., d) lies in the support, (...,).
Contains = Callable[[np.ndarray], np.ndarray]

# Sampling stops if fewer than LEAST of at least GIVE_UP draws of a member are accepted, so that n accepted draws
# cost at most max(GIVE_UP, n / LEAST).
LEAST = 1e-3
# Most rows of theta and y of one call of a network's density.
ROWS = 10_000
# Most acceptance rates that a member caches, at 8 bytes each.
CACHED_ROWS = 100_000


def restrict(member: Density | Sampler, prior: object, *, error: float = 0.05) -> Member:
    r"""Restrict a member to the support of a prior: reject draws outside it and renormalize the density.

    Args:
        member: A member with ``sample(n, y)`` and, if it has a density, ``log_prob(theta, y)``.
        prior: The prior: a (lower, upper) pair or array (2, d), two numbers that bound every parameter, a
            :class:`~drystone.simulation.support.Support`, an object with a ``support``, such as a torch
            distribution or one of sbi's priors, or with a ``log_prob`` of theta (N, d) for torch or NumPy arrays.
        error: Largest standard error, in nats, that estimating A(y) may add to a log density. At 0.05 a row of y
            takes 400 draws, if at least half of them are accepted; at 0.1 a quarter of that. All rows of a call
            are estimated together, from draws whose seed is derived from the set of distinct rows. A density hence
            depends on theta, y and that set, not on order, repetitions, other thetas or earlier calls; the same y
            among other rows has another estimate, with its own error. :func:`drystone.tabulate` always uses the
            same blocks of rows.

    Returns:
        The restricted member, without a density if ``member`` has none; ``member`` itself if the support is the
        whole space.

    Raises:
        SamplingError: At the evaluation of densities or draws, if less than one draw in a thousand is accepted, or
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
        return cast(Member, member)
    if getattr(member, "sample", None) is None:
        raise IntractableError(
            f"restricting {type(member).__name__} to a support needs its `sample`, from which the share of draws "
            "in the support is estimated; it has none."
        )
    if getattr(member, "log_prob", None) is None:
        return cast(Member, RestrictedDraws(cast(Sampler, member), contains, error))
    return RestrictedMember(cast(Member, member), contains, error)


class RestrictedDraws:
    """A sampler restricted to a support."""

    def __init__(self, member: Sampler, contains: Contains, error: float) -> None:
        self.member, self.contains, self.error = member, contains, error

    @property
    def y_shape(self) -> tuple[int, ...] | None:
        """Shape of one observation, if the member knows it."""
        return getattr(self.member, "y_shape", None)

    def to(self, device: torch.device) -> None:
        """Move the member to a device, if it lives on one."""
        move = getattr(self.member, "to", None)
        if move is not None:
            move(device)

    def sample(self, n: int, y: np.ndarray, seed: int | None = None) -> np.ndarray:
        """Return the first n draws in the support for each row of y, (n, N, d)."""
        rng = np.random.default_rng(seed)
        return draw_accepted(
            n,
            len(y),
            lambda m, rows: self._candidates(m, y[rows], rng),
            self.contains,
            lambda accepted, proposed: _check_accepted(accepted, proposed, y),
        )

    def _candidates(self, m: int, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return m draws of the member for each row of y, in the support or not, (m, N, d)."""
        candidates = draw(self.member, m, y, int(rng.integers(2**62)))
        finite = np.asarray(np.isfinite(candidates).all(-1))
        if not finite.all():  # unlike finite draws outside the support, which are rejected
            row = int(np.flatnonzero(~finite.all(0))[0])
            raise SamplingError(
                f"{m - finite[:, row].sum()} of {m} draws at y = {_first_few(y[row])} are not finite. The member "
                "is broken there: train it again or leave it out."
            )
        return candidates

    def __repr__(self) -> str:
        return f"{self.member!r}, restricted to a support"


class RestrictedMember(RestrictedDraws):
    """A density and its sampler, restricted to a support."""

    def __init__(self, member: Member, contains: Contains, error: float) -> None:
        super().__init__(member, contains, error)
        self.density: Density = member
        self._acceptance: dict[bytes, np.ndarray] = {}

    def log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return log q(θ_n | y_n) − log A(y_n) in the support and −inf outside, (N,)."""
        inside = self.contains(theta)
        log_q = np.full(len(theta), -np.inf)
        if inside.any():
            # A is estimated for all rows, also where theta is outside; otherwise it would depend on theta.
            log_a = np.log(self.acceptance(y)[inside])
            log_q[inside] = as_numpy(self.density.log_prob(theta[inside], y[inside])) - log_a
        return log_q

    def acceptance(self, y: np.ndarray) -> np.ndarray:
        """Return A(y), the share of draws in the support for each row of y, (N,)."""
        rows, index = np.unique(y.reshape(len(y), -1), axis=0, return_inverse=True)
        key = blake2b(np.asarray(rows, float).tobytes(), digest_size=8).digest()
        if key not in self._acceptance:
            if sum(map(len, self._acceptance.values())) + len(rows) > CACHED_ROWS:
                self._acceptance.clear()
            seed = int.from_bytes(key, "little")
            self._acceptance[key] = self._estimate(rows.reshape(-1, *y.shape[1:]), seed)
        return self._acceptance[key][index.reshape(-1)]

    def _estimate(self, y: np.ndarray, seed: int) -> np.ndarray:
        """Return A at each row of y, (N,), with relative standard error √((1 − A) / accepted) ≤ error."""
        rng, m = np.random.default_rng(seed), math.ceil(self.error**-2)
        accepted, proposed = np.zeros(len(y), int), np.zeros(len(y), int)
        imprecise = np.arange(len(y))
        while imprecise.size:
            for rows in np.array_split(imprecise, -(-imprecise.size * m // AT_ONCE)):
                accepted[rows] += self.contains(self._candidates(m, y[rows], rng)).sum(0)
                proposed[rows] += m
            _check_accepted(accepted, proposed, y)
            imprecise = np.flatnonzero(1 - accepted / proposed > self.error**2 * accepted)
        return accepted / proposed


def _check_accepted(accepted: np.ndarray, proposed: np.ndarray, y: np.ndarray) -> None:
    """Raise if too small a share of the draws is accepted at some row."""
    failed = np.flatnonzero((proposed >= GIVE_UP) & (accepted < LEAST * proposed))
    if failed.size:
        row = failed[0]
        raise SamplingError(
            f"{accepted[row]} of {proposed[row]} draws lie within the prior's support at y = {_first_few(y[row])} "
            f"(and so at {failed.size} of {len(y)} rows). The member puts its mass elsewhere: leave it out, "
            "train it longer or in an unbounded space, or check that `prior` is the one it was trained with."
        )


def _first_few(row: np.ndarray) -> str:
    """Return the first numbers of a row of data, for a message."""
    return np.array2string(np.ravel(row)[:4], precision=4, separator=", ")


def support_of(prior: Any) -> Contains | None:
    """Return a function that tells whether theta (..., d) lies in a prior's support; None for the whole space."""
    if prior is None:
        return None
    if is_product(prior) or hasattr(prior, "rvs"):  # independent priors, or SciPy's
        from drystone.simulation.prior import as_prior

        prior = as_prior(prior).support
    if isinstance(prior, tuple | list | np.ndarray | torch.Tensor):
        return _box(prior)
    support = prior if isinstance(prior, Support) else getattr(prior, "support", prior)
    if isinstance(support, Support):
        return _Box(support) if support.bounded else None
    if hasattr(support, "check"):
        return None if _is_whole_space(support) else _Check(prior)
    if hasattr(prior, "log_prob"):
        return _Positive(prior)
    raise TypeError(
        "`prior` must be a (lower, upper) pair, a Support, or have a `support` or a `log_prob`; "
        f"got {type(prior).__name__}."
    )


def _box(bounds: Any) -> Contains | None:
    """Return the box of a (lower, upper) pair."""
    pair = [np.asarray(as_numpy(bound), float) for bound in bounds]
    if len(pair) != 2 or max(bound.ndim for bound in pair) > 1:
        raise ValueError(
            "bounds passed as `prior` must be a (lower, upper) pair of (d,) arrays or one array (2, d); got "
            f"{len(pair)} of shapes {', '.join(str(bound.shape) for bound in pair)}."
        )
    (d,) = max((bound.shape for bound in pair), key=len) or (1,)
    support = Support(*(np.broadcast_to(bound, d) if bound.ndim == 0 else bound for bound in pair))
    any_d = all(bound.ndim == 0 for bound in pair)
    return _Box(support, any_d) if support.bounded else None


class _Box:
    """A box; with ``any_d`` its bounds hold for each of any number of parameters."""

    def __init__(self, support: Support, any_d: bool = False) -> None:
        self.support, self.any_d = support, any_d

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        if not self.any_d:
            _check_d(len(self.support.lower), theta)
        return self.support.contains(theta)


class _Check:
    """The support of a torch distribution."""

    def __init__(self, prior: Any) -> None:
        self.prior = prior

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        shape = (*getattr(self.prior, "batch_shape", ()), *getattr(self.prior, "event_shape", ()))
        if shape:
            _check_d(shape[-1], theta)
        points = _tensor(theta, self.prior)
        try:
            inside = self.prior.support.check(points)
        except (AttributeError, NotImplementedError):  # a distribution without a support
            return _Positive(self.prior)(theta)
        if inside.shape == points.shape:  # a constraint on each parameter, not on the vector
            inside = inside.all(-1)
        return as_numpy(inside).reshape(theta.shape[:-1])


class _Positive:
    """The set where a density is positive; its ``log_prob`` takes torch tensors or NumPy arrays."""

    def __init__(self, prior: Any) -> None:
        self.prior = prior

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        rows = np.asarray(theta).reshape(-1, theta.shape[-1])
        try:
            log_prob = self.prior.log_prob(rows.copy())  # the prior may change its argument
        except (TypeError, AttributeError, ValueError):  # raised by torch for NumPy arrays
            log_prob = self.prior.log_prob(_tensor(rows, self.prior))
        return np.isfinite(as_numpy(log_prob)).reshape(theta.shape[:-1])


def _check_d(d: int, theta: np.ndarray) -> None:
    if theta.shape[-1] != d:
        raise ValueError(
            f"`prior` is one of {d} parameters; theta has {theta.shape[-1]}, in shape {theta.shape}. "
            "Are theta and y exchanged?"
        )


def _is_whole_space(constraint: Any) -> bool:
    return getattr(constraint, "base_constraint", constraint) in (constraints.real, constraints.real_vector)


def _tensor(theta: np.ndarray, prior: Any) -> torch.Tensor:
    """Return a tensor in the prior's precision; otherwise rounding could move a parameter across a bound."""
    base = getattr(prior, "base_dist", prior)
    floating = (v for v in vars(base).values() if isinstance(v, torch.Tensor) and v.is_floating_point())
    like = next(floating, torch.empty(()))
    return torch.as_tensor(np.asarray(theta)).to(like.device, like.dtype)
