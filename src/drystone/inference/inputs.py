"""What an inference is given besides its simulations: checked before any work is done."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import as_integer, as_numpy
from drystone._messages import count_and_first_few, counted
from drystone._resume import digest_array
from drystone.simulation.prior import as_prior

__all__ = ["Kind", "check_prior", "inputs_of", "most_members", "one_row"]

Kind = Literal["posterior", "likelihood"]


def most_members(members: int | tuple[int, int]) -> dict[Kind, int]:
    """Return how many members of each kind to train, at most."""
    each = members if isinstance(members, tuple | list) else (members, members)
    if len(each) != 2:
        raise ValueError(
            f"`members` must be an integer, or two: of posteriors and of likelihoods; got {len(each)} numbers."
        )
    return {"posterior": as_integer("members", each[0]), "likelihood": as_integer("members", each[1])}


def check_prior(prior: object, theta: np.ndarray) -> None:
    """Raise if a prior is not of these parameters, or has no density at some of them."""
    p, n = as_prior(prior), len(theta)
    sizes = p.sample(1, np.random.default_rng(0)).shape[1], theta.shape[1]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"`prior` must be of the {counted(sizes[1], 'parameter')} of `theta`; it has {sizes[0]}. Bounds are "
            "two sequences with a number per parameter: prior=([0, 0], [1, 1])."
        )
    log_p = np.asarray(p.log_prob(np.asarray(theta, float)), float)
    if log_p.shape != (n,):
        raise ValueError(f"`prior.log_prob(theta)` must give shape (N,) = ({n},); got {log_p.shape}.")
    if (bad := np.flatnonzero(np.isnan(log_p) | (log_p == np.inf))).size:
        raise ValueError(
            f"`prior.log_prob(theta)` must be finite or −inf; {count_and_first_few(bad)} of {n} are not."
        )
    if (bad := np.flatnonzero(log_p == -np.inf)).size:
        raise ValueError(
            f"`theta` must lie in the support of `prior`; {count_and_first_few(bad)} of {n} rows do not: it is "
            "not the prior of these simulations."
        )


def one_row(name: str, at: ArrayLike, y: np.ndarray) -> np.ndarray:
    """Return an observation in the shape of a row of y (N, ...); raise if it has other numbers of entries."""
    observation, shape = as_numpy(at), y.shape[1:]
    if observation.size != math.prod(shape):
        raise ValueError(f"`{name}` must be one observation of shape {shape}; got shape {observation.shape}.")
    return observation.reshape(shape)


def inputs_of(theta: np.ndarray, y: np.ndarray, prior: object) -> dict[str, str | None]:
    """Return digests of the simulations and the prior that an inference is made of."""
    log_prior = as_prior(prior).log_prob(np.asarray(theta, float))
    return {"theta": digest_array(theta), "y": digest_array(y), "prior": digest_array(log_prior)}
