r"""Posteriors trained on data that likelihoods simulate: amortized, with fast draws and no need to normalize.

.. math:: \theta_i \sim p(\theta), \qquad y_i \sim \sum_k w_k\, q_k(y \mid \theta_i), \qquad i = 1, \dots, n

A likelihood is often the better fit to few simulations, and its pairs cost next to nothing: there can be so many
that the error of the posterior's network is the smaller one.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drystone._arrays import as_numpy
from drystone._defaults import EPOCHS, LOG_Y, SEED, VALIDATION
from drystone._messages import unknown
from drystone._parallel import Executor
from drystone.errors import IntractableError
from drystone.likelihood.member import CheckedLikelihood, LikelihoodMember, checked_likelihoods
from drystone.simulation.prior import Prior, as_prior
from drystone.training.ensemble import Ensemble
from drystone.training.sweep import Configuration, Family, Sweep
from drystone.training.train import train
from drystone.training.warp import LogY

__all__ = ["distill"]

# Enough for a stack, at ten times the usual number of simulations each.
MEMBERS = 4


def distill(
    likelihoods: Mapping[str, LikelihoodMember] | Sequence[LikelihoodMember],
    *,
    prior: object,
    weights: ArrayLike | Mapping[str, float] | None = None,
    n: int = 100_000,
    theta: ArrayLike | None = None,
    y: ArrayLike | None = None,
    members: int = MEMBERS,
    family: Family | None = None,
    sweep: Sweep | Sequence[Configuration] | None = None,
    seed: int = SEED,
    workers: int | None = None,
    client: Executor | None = None,
    directory: str | os.PathLike[str] | None = None,
    epochs: int = EPOCHS,
    lr_drops: int | None = None,
    validation: float = VALIDATION,
    log_y: LogY = LOG_Y,
    progress: bool | None = None,
) -> Ensemble[Any]:
    """Train posteriors on pairs from the prior and a mixture of likelihoods, and on real simulations if given.

    The members are ordinary posteriors: they draw without normalizing, compete with others in a stack, and are
    good proposals for :func:`drystone.normalize`.

    Args:
        likelihoods: Members with ``simulate(theta, seed)``, such as those of ``ds.train(target="likelihood")``.
        prior: p(θ), to draw from: see :func:`drystone.train`, except that bounds alone mean a uniform prior.
        weights: Weights of the likelihoods, (K,) or by name, in any unit; ``None`` for equal ones.
        n: Number of emulated pairs.
        theta: Parameters of real simulations, (N, d), to be trained on too.
        y: Their data, (N, c).
        members: Number of posteriors.
        family: As in :func:`drystone.train`.
        sweep: As in :func:`drystone.train`.
        seed: Seed of the pairs and of the training.
        workers: As in :func:`drystone.train`.
        client: As in :func:`drystone.train`.
        directory: Where members are written as they finish. The same call continues: the pairs are drawn again,
            the same for the same likelihoods and seed.
        epochs: As in :func:`drystone.train`.
        lr_drops: As in :func:`drystone.train`.
        validation: As in :func:`drystone.train`.
        log_y: As in :func:`drystone.train`.
        progress: As in :func:`drystone.train`.

    Returns:
        The posteriors, as :func:`drystone.train` returns them, with names that begin with ``distilled-``.

    Example:
        >>> import drystone as ds, numpy as np
        >>> class Noise:
        ...     def log_likelihood(self, theta, y): return -((y - theta) ** 2).sum(1) / 2
        ...     def simulate(self, theta, seed): return np.random.default_rng(seed).normal(theta)
        >>> prior = ds.tasks.Normal([0.0], [1.0])
        >>> ds.distill([Noise()], prior=prior, n=100, members=1, family="maf", epochs=1, workers=1)
        Ensemble(1 member: distilled-maf-000)
    """
    checked = checked_likelihoods(likelihoods)
    w = _weights(weights, checked)
    drawn_from = [likelihood for likelihood, weight in zip(checked, w, strict=True) if weight > 0]
    emulated = _emulate(drawn_from, w[w > 0], as_prior(prior), n, seed)
    real = _real(theta, y, emulated)
    theta_all, y_all = (np.concatenate(pair) for pair in zip(emulated, real, strict=True))
    return train(
        theta_all,
        y_all,
        prefix="distilled-",
        members=members,
        family=family,
        sweep=sweep,
        seed=seed,
        prior=prior,
        workers=workers,
        client=client,
        directory=directory,
        epochs=epochs,
        lr_drops=lr_drops,
        validation=validation,
        log_y=log_y,
        progress=progress,
    )


def _emulate(
    likelihoods: list[CheckedLikelihood], w: NDArray[np.float64], prior: Prior, n: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return n pairs of the prior and the mixture of likelihoods, (n, d) and (n, c)."""
    if n < 1:
        raise ValueError(f"`n` must be at least 1; got {n}.")
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(4,)))
    theta = prior.sample(n, rng)
    chosen = rng.choice(len(likelihoods), size=n, p=w)
    parts: list[tuple[NDArray[np.intp], NDArray[np.float64]]] = []
    for k, likelihood in enumerate(likelihoods):
        simulate = getattr(likelihood.member, "simulate", None)
        if simulate is None:
            raise IntractableError(
                f"likelihood {likelihood.name!r} has no `simulate(theta, seed)`, so that no data can be drawn "
                "from it (a ratio never has one). Leave it out, or give it weight 0."
            )
        rows, its_seed = np.flatnonzero(chosen == k), int(rng.integers(2**62))
        if rows.size:
            parts.append((rows, np.asarray(as_numpy(simulate(theta[rows], its_seed)), float)))
    y = np.empty((n, *parts[0][1].shape[1:]))
    for rows, simulated in parts:
        y[rows] = simulated
    finite = np.isfinite(y).reshape(n, -1).all(axis=1)
    if not finite.all():
        text = f"{n - int(finite.sum())} of {n} emulated rows of y are not finite"
        if finite.mean() < 0.99:
            raise ValueError(f"{text}: check the likelihoods.")
        warnings.warn(f"{text} and were left out.", stacklevel=3)
    return theta[finite], y[finite]


def _weights(
    weights: ArrayLike | Mapping[str, float] | None, likelihoods: tuple[CheckedLikelihood, ...]
) -> NDArray[np.float64]:
    names = [likelihood.name for likelihood in likelihoods]
    if weights is None:
        return np.full(len(names), 1 / len(names))
    if isinstance(weights, Mapping):
        for name in weights:
            if name not in names:
                raise ValueError(unknown("likelihood in `weights`", name, names))
        weights = [weights.get(name, 0.0) for name in names]
    w = np.asarray(weights, np.float64)
    if w.shape != (len(names),) or not (w >= 0).all() or not 0 < w.sum() < np.inf:
        raise ValueError(
            f"`weights` must be {len(names)} non-negative numbers, one per likelihood, not all 0; got {weights}."
        )
    return w / w.sum()


def _real(
    theta: ArrayLike | None, y: ArrayLike | None, emulated: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> tuple[NDArray, NDArray]:
    """Return the real simulations, none if there are none; raise if they are of another shape."""
    if (theta is None) != (y is None):
        raise ValueError("`theta` and `y` must be given together, or neither.")
    real = tuple(
        e[:0] if a is None else np.asarray(as_numpy(a), float) for a, e in zip((theta, y), emulated, strict=True)
    )
    for name, a, e in zip(("theta", "y"), real, emulated, strict=True):
        if a.shape[1:] != e.shape[1:]:
            raise ValueError(f"`{name}` must have shape (N, {', '.join(map(str, e.shape[1:]))}); got {a.shape}.")
    return real[0], real[1]
