"""The posterior at one observation: draws and weights there, and whether they can be believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from drystone.errors import IntractableError

if TYPE_CHECKING:
    from drystone.posterior import StackedPosterior

__all__ = ["PosteriorAt", "posterior_at"]

# Members that are listed by weight.
LISTED = 5


@dataclass(frozen=True, eq=False)
class PosteriorAt:
    """The stacked posterior at one observation.

    Attributes:
        y: the observation, of the shape of a row of the data.
        draws: of the stacked posterior there, (S, d).
        parameters: the names of θ.
        weights: of the members in use there, by name; empty for forms without a set of weights.
        missing: what cannot be answered, and why, one sentence each.
    """

    y: np.ndarray
    draws: np.ndarray = field(repr=False)
    parameters: tuple[str, ...]
    weights: Mapping[str, float]
    missing: tuple[str, ...] = ()

    @property
    def mean(self) -> np.ndarray:
        """The posterior mean, (d,)."""
        return self.draws.mean(0)

    @property
    def cov(self) -> np.ndarray:
        """The posterior covariance, (d, d)."""
        return np.atleast_2d(np.cov(self.draws, rowvar=False))

    def interval(self, alpha: float = 0.1) -> np.ndarray:
        """Return the central 1 − alpha interval of each parameter, (d, 2)."""
        return np.quantile(self.draws, [alpha / 2, 1 - alpha / 2], axis=0).T

    def __str__(self) -> str:
        ends = self.interval(0.1)
        lines = [
            f"{name}: {mean:.4g} ± {sd:.2g}, 90 % in [{low:.4g}, {high:.4g}]"
            for name, mean, sd, (low, high) in zip(
                self.parameters, self.mean, self.draws.std(0), ends, strict=True
            )
        ]
        heaviest = sorted(self.weights.items(), key=lambda item: -item[1])[:LISTED]
        if heaviest:
            rest = f" and {len(self.weights) - LISTED} more" if len(self.weights) > LISTED else ""
            lines.append("Weights here: " + ", ".join(f"{name} {w:.2f}" for name, w in heaviest) + rest + ".")
        return "\n".join([*lines, *self.missing])


def posterior_at(
    posterior: StackedPosterior, y_o: ArrayLike | None = None, *, draws: int = 10_000, seed: int = 0
) -> PosteriorAt:
    """Return the posterior at one observation; see :meth:`drystone.StackedPosterior.at`.

    Args:
        posterior: with a ``reference``, for the checks.
        y_o: the observation; None for the default one.
        draws: of the posterior.
        seed: same seed, same result.
    """
    y = posterior.one_observation(y_o)
    missing = []
    if posterior.reference is None:
        missing.append(
            "Not checked: the posterior has no reference simulations. Give test rows to "
            "fit.posterior(members, reference=table)."
        )
    return PosteriorAt(
        y[0],
        np.asarray(posterior.sample((draws,), y, seed=seed)),
        posterior.fit.parameters,
        weights_in_use(posterior, y),
        tuple(missing),
    )


def weights_in_use(posterior: StackedPosterior, y: np.ndarray) -> dict[str, float]:
    """Return the weights of the members at one row y (1, ...), by name; none of forms that have no such set."""
    fit = posterior.fit
    try:
        weights = fit.form.weights_at(fit.params, y).reshape(-1)
    except IntractableError:
        return {}
    return {name: float(w) for name, w in zip(fit.names, weights, strict=True) if w > 0}
