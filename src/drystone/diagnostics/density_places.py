r"""Where a density stands among those of draws: the mass of the smallest region of high density that reaches it.

.. math::
    s(\theta, y) = \text{share of draws } \tilde\theta \sim q^*(\cdot|y) \text{ with }
    q^*(\tilde\theta|y) > q^*(\theta|y),

interpolated between draws; beyond the lowest of them 1 plus the nats that θ lies lower, beyond the highest the
nats that it lies higher, as a negative number. It falls strictly as the density rises, so it can be inverted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from drystone.posterior import StackedPosterior

__all__ = ["DRAWS", "density_at", "place", "truth_places"]

# Draws per row among which a truth is placed: the same number at simulations and at the observation.
DRAWS = 200


def truth_places(posterior: StackedPosterior, theta: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """Return s(θ_n, y_n) of paired rows theta (n, d), y (n, ...): (n,)."""
    draws = posterior.sample_batched((DRAWS,), y, seed=seed)
    of_draws = np.sort(posterior.log_prob_batched(draws, y), 0)
    of_truth = posterior.log_prob_batched(theta, y)[0]
    return np.array([place(value, column) for value, column in zip(of_truth, of_draws.T, strict=True)])


def place(log_q: float, of_draws: np.ndarray) -> float:
    """Return s of a log density among sorted log densities of draws, (S,); it falls as the density rises."""
    of_draws = of_draws[np.isfinite(of_draws)]
    if not np.isfinite(log_q) or not len(of_draws):
        return np.inf
    if log_q < of_draws[0]:
        return 1 + of_draws[0] - log_q
    if log_q > of_draws[-1]:
        return of_draws[-1] - log_q
    return float(np.interp(log_q, of_draws, np.linspace(1, 0, len(of_draws))))


def density_at(place: float, of_draws: np.ndarray) -> float:
    """Return the log density at a place s: the inverse of :func:`place`."""
    of_draws = of_draws[np.isfinite(of_draws)]
    if place == np.inf or not len(of_draws):
        return -np.inf
    if place > 1:
        return float(of_draws[0] - (place - 1))
    if place < 0:
        return float(of_draws[-1] - place)
    return float(np.interp(1 - place, np.linspace(0, 1, len(of_draws)), of_draws))
