r"""Sets that contain θ with probability at least 1 − α, whatever the members do (conformal prediction).

At every row the stacked density of the truth has a place s(θ, y) among those of draws of the stacked posterior
there, see :mod:`drystone.diagnostics.density_places`. The set at y_o is

.. math::
    C(y_o) = \{\theta: s(\theta, y_o) \le \hat s\},

a threshold on the stacked density, where ŝ is the ⌈(1 − α)(n + 1)⌉-th smallest of the s at n simulations that had
no part in the weights. θ and y_o being one more simulation,

.. math::
    P(\theta \in C(y_o)) \ge 1 - \alpha,

on average over (θ, y_o) and the n simulations, for any members: bad ones make sets large, not wrong. Near y_o
alone (``local=True``) simulations count by a kernel, which is approximate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import as_numpy
from drystone._messages import digits_for, unknown
from drystone.diagnostics.density_places import DRAWS, density_at
from drystone.diagnostics.reference import Reference, reference_of
from drystone.estimate import Estimate, bandwidth_for, effective_rows, kernel_weights
from drystone.table.inputs import as_levels, each_level

if TYPE_CHECKING:
    from drystone.posterior import StackedPosterior

__all__ = ["CredibleSet", "credible_set"]

# Points of each of the two kinds that a volume is estimated from.
POINTS = 10_000
# A local set rests on so many effective simulations, or on a quarter of them if that is more.
LOCAL_ROWS = 50.0
# Share of the volume that the ends of a projection leave out.
SLIVER = 1e-3


@dataclass(frozen=True, eq=False)
class CredibleSet:
    """The set {θ: log q*(θ|y_o) ≥ threshold}.

    Attributes:
        alpha: miscoverage.
        threshold: on the log density of the stacked posterior; −inf if the simulations allow no bound.
        parameters: the names of θ.
        rows: simulations it was calibrated on, effective ones if they have weights.
        approximate: whether it was calibrated near the observation only, without a guarantee.

    Example:
        >>> import drystone as ds
        >>> fit = ds.stack(ds.toy.table(300, seed=1))
        >>> posterior = fit.posterior(ds.toy.MEMBERS, reference=ds.toy.table(600, seed=2))
        >>> region = posterior.credible_set([1.5], alpha=0.1)
        >>> region.contains([[1.5], [9.0]])
        array([ True, False])
        >>> 3.0 < region.volume.value < 4.0  # a central 90 % interval of N(1.5, 1) has 3.3
        True
    """

    alpha: float
    threshold: float
    parameters: tuple[str, ...]
    rows: float
    approximate: bool
    _log_prob: Callable[[np.ndarray], np.ndarray] = field(repr=False)
    _sample: Callable[[int], np.ndarray] = field(repr=False)
    _box: np.ndarray = field(repr=False)

    def contains(self, theta: ArrayLike) -> np.ndarray:
        """Return whether parameters (S, d), or (d,), are in the set: (S,) of bool."""
        points = np.atleast_2d(np.asarray(as_numpy(theta), float))
        if points.shape[-1] != len(self.parameters):
            raise ValueError(
                f"`theta` must have d = {len(self.parameters)} parameters along its last axis; got {points.shape}."
            )
        return self._log_prob(points) >= self.threshold

    @property
    def volume(self) -> Estimate:
        """Volume in the units of θ, within the range of the reference's parameters and of the draws.

        Infinite if no bounded set has the probability. By importance sampling: half of the points are draws of the
        posterior, half uniform in that range, where the set may reach beyond the draws.
        """
        if self.threshold == -np.inf:
            return Estimate(np.inf, np.nan)
        terms = self._volumes
        parts = terms.reshape(2, POINTS)
        return Estimate(float(terms.mean()), float(np.sqrt((parts.var(1) / POINTS).sum()) / 2))

    @property
    def draws(self) -> np.ndarray:
        """Draws of the stacked posterior that lie inside, (m, d)."""
        points, _, inside = self._points
        return points[:POINTS][inside[:POINTS]]

    @property
    def probability(self) -> float:
        """Share of the stacked posterior inside, as the posterior itself has it."""
        return float(self._points[2][:POINTS].mean())

    @property
    def bounds(self) -> np.ndarray:
        """Ends of the projection onto each parameter, (d, 2), of all but a thousandth of the volume.

        Flows within bounds have slivers of high density at them, of no volume to speak of: a single draw there
        would stretch the ends to a bound that the set does not otherwise come near.
        """
        if self.threshold == -np.inf:
            return np.tile([-np.inf, np.inf], (len(self.parameters), 1))
        return self._ends

    @property
    def _ends(self) -> np.ndarray:
        """Ends within the range of the points, (d, 2)."""
        points, _, inside = self._points
        if not inside.any():
            return np.full((len(self.parameters), 2), np.nan)
        levels, inner = np.array([SLIVER / 2, 1 - SLIVER / 2]), points[inside]
        volume = self._volumes[inside]
        ends = np.empty((inner.shape[1], 2))
        for j, column in enumerate(inner.T):
            order = np.argsort(column)
            below = np.cumsum(volume[order])
            ends[j] = column[order][np.searchsorted(below, levels * below[-1]).clip(max=len(order) - 1)]
        return ends

    @cached_property
    def _points(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draws and uniform points, (2 POINTS, d), their log densities, and which are inside."""
        low, high = self._box
        uniform = low + (high - low) * np.random.default_rng(0).random((POINTS, len(low)))
        points = np.concatenate([self._sample(POINTS), uniform])
        log_q = self._log_prob(points)
        return points, log_q, log_q >= self.threshold

    @cached_property
    def _volumes(self) -> np.ndarray:
        """The volume that each of the points stands for, (2 POINTS,): 0 outside."""
        low, high = self._box
        points, log_q, inside = self._points
        in_box = ((points >= low) & (points <= high)).all(1)
        log_uniform = np.where(in_box, -np.log(high - low).sum(), -np.inf)
        log_density = np.logaddexp(log_q, log_uniform) - np.log(2)
        inside = inside & (log_density > -np.inf)
        return np.where(inside, np.exp(-np.where(inside, log_density, 0.0)), 0.0)

    def projection(self, *parameters: str, bins: int = 40) -> tuple[np.ndarray, ...]:
        """Return the projection onto one or two parameters: edges of bins for each, and which bins it meets.

        Args:
            parameters: one or two names.
            bins: per parameter, over the bounds of the set.
        """
        if not 1 <= len(parameters) <= 2:
            raise ValueError(f"a projection is onto one or two parameters; got {len(parameters)}.")
        for name in parameters:
            if name not in self.parameters:
                raise ValueError(unknown("parameter", name, self.parameters))
        columns = [self.parameters.index(name) for name in parameters]
        points, _, inside = self._points
        ends = [(float(low), float(high)) for low, high in self._ends[columns]] if inside.any() else None
        counts, edges = np.histogramdd(points[inside][:, columns], bins=bins, range=ends)
        return *edges, counts > 0

    def __str__(self) -> str:
        level = f"{100 * (1 - self.alpha):.4g} %"
        if self.threshold == -np.inf:
            enough = np.ceil(1 / self.alpha) - 1
            why = f"{enough:.0f} are needed" if self.rows < enough else "the members say too little"
            return f"No bounded set has {level} probability by {self.rows:.0f} simulations: {why}."
        if self.approximate:
            kind = f"about {level} probability near this observation (approximate, by {self.rows:.0f} simulations)"
        else:
            kind = (
                f"at least {level} probability, whatever the members (calibrated on {self.rows:.0f} simulations)"
            )
        # A set reaches about four standard deviations from end to end.
        digits = [digits_for(np.abs(ends).max(), (ends[1] - ends[0]) / 4) for ends in self.bounds]
        ends = ", ".join(
            f"{name} in [{low:.{n}g}, {high:.{n}g}]"
            for name, (low, high), n in zip(self.parameters, self.bounds, digits, strict=True)
        )
        return f"A set with {kind}: volume {self.volume}; {ends}."

    __repr__ = __str__


def credible_set(
    posterior: StackedPosterior,
    y_o: ArrayLike | None = None,
    alpha: float = 0.1,
    *,
    local: bool = False,
    seed: int = 0,
) -> CredibleSet:
    """Return a set that contains θ with probability at least 1 − alpha.

    Args:
        posterior: from ``fit.posterior(members, reference=table)``; its form must have a density and draws.
        y_o: the observation; None for the default one.
        alpha: miscoverage.
        local: calibrate on simulations near the observation: nearer to the probability there, but approximate.
        seed: of the draws.

    Example:
        >>> import drystone as ds
        >>> fit = ds.stack(ds.toy.table(300, seed=1))
        >>> posterior = fit.posterior(ds.toy.MEMBERS, reference=ds.toy.table(600, seed=2))
        >>> print(credible_set(posterior, [1.5], 0.3))
        A set with at least 70 % probability, whatever the members (calibrated on 600 simulations): volume ...
    """
    (alpha,) = each_level(as_levels(alpha))
    posterior.fit.form.check_gives("log_q")
    posterior.fit.form.check_gives("draws")
    reference = reference_of(posterior, seed)
    y = posterior.one_observation(y_o)
    a, own = _weights(reference, y, local)
    place = _conformal_quantile(reference.truth_places, a, own, 1 - alpha)

    def log_prob(theta: np.ndarray) -> np.ndarray:
        values = posterior.log_prob_batched(theta[:, None], y)[:, 0]
        return np.where(np.isnan(values), -np.inf, values)

    def sample(n: int) -> np.ndarray:
        return posterior.sample((n,), y, seed=at_y + 1)

    at_y = reference.seed_at(y)
    # Placed among as many draws as the truths of the simulations were.
    threshold = density_at(place, np.sort(log_prob(posterior.sample((DRAWS,), y, seed=at_y))))
    return CredibleSet(
        alpha,
        threshold,
        posterior.fit.parameters,
        effective_rows(a / a.sum()),
        local,
        log_prob,
        sample,
        np.stack([reference.theta.min(0), reference.theta.max(0)]),
    )


def _conformal_quantile(values: np.ndarray, a: np.ndarray, own: float, level: float) -> float:
    """Return the least value with a share ``level`` of the weight up to it; the observation's is at infinity."""
    order = np.argsort(values)
    share = np.cumsum(a[order]) / (a.sum() + own)
    enough = np.flatnonzero(share >= level - 1e-12)
    return float(values[order][enough[0]]) if enough.size else np.inf


def _weights(reference: Reference, y: np.ndarray, local: bool) -> tuple[np.ndarray, float]:
    """Return the weights of the simulations, and that of the observation."""
    a = reference.row_weights
    if not local:
        return a, float(a.max())
    cloud, _ = reference.neighbors_in_data
    at = cloud.whitened(np.asarray(y, float).reshape(1, -1))
    squared = ((cloud.whitened(reference.data) - at) ** 2).sum(1)
    wanted = max(min(LOCAL_ROWS, len(a) / 2), len(a) / 4)
    near = kernel_weights(a, squared, bandwidth_for(a, squared, wanted))
    return near, float(near.max())
