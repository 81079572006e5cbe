"""The stacked posterior at new data: one object to carry on with.

Shapes follow sbi, so that its diagnostics and plots take it as it is: ``sample((S,), x)`` gives (S, d),
``sample_batched((S,), xs)`` gives (S, B, d). Draws and densities come back as what ``x`` was: torch tensors of its
dtype on its device for a tensor, NumPy arrays otherwise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import logsumexp

from drystone._arrays import as_numpy, rows_of_data
from drystone._messages import require
from drystone.adapters.member import Member, name_members
from drystone.errors import IntractableError
from drystone.forms import IntervalAggregation, LocalMixture, Mixture, SampleAggregation
from drystone.forms.stratified import allocate, pool
from drystone.stacking.result import Stacking, as_tensors
from drystone.table import Table
from drystone.table.inputs import as_levels, each_level

__all__ = ["StackedPosterior", "stacked_posterior"]

# How many draws stand behind a mean, a covariance or an interval unless the caller says otherwise.
DRAWS = 10_000


def stacked_posterior(fit: Stacking, members: Mapping[str, Any] | Sequence[Any]) -> StackedPosterior:
    """The posterior of a fit over the members it was fitted to, in the same order or by name."""
    named = name_members(members, fit.names, fit.parameters)
    if isinstance(fit.form, Mixture | LocalMixture):
        return MixturePosterior(fit, named)
    if isinstance(fit.form, SampleAggregation):
        return AggregatedPosterior(fit, named)
    return AggregatedIntervals(fit, named)


@dataclass(frozen=True, eq=False)
class StackedPosterior(ABC):
    """What every stacked posterior can do. Methods take one observation ``x`` or, if batched, a row each.

    Attributes:
        fit: the stacking it came from.
        members: the members in the order of the fit, checked and named.
    """

    fit: Stacking
    members: tuple[Member, ...]

    @abstractmethod
    def _draw(self, n: int, y: np.ndarray, rng: np.random.Generator, seeded: bool) -> np.ndarray:
        """n exchangeable draws for each row of y: (n, B, d)."""

    @abstractmethod
    def _log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Log density for paired rows theta (N, d), y (N, ...): (N,)."""

    @property
    def weights(self) -> np.ndarray:
        """The weights of the fit, (K,)."""
        return self.fit.weights

    def sample(
        self,
        sample_shape: Sequence[int] | int = (),
        x: Any = None,
        *,
        seed: int | None = None,
        show_progress_bars: bool = False,
    ) -> Any:
        """Draws at one observation: (*sample_shape, d).

        Args:
            sample_shape: shape of the sample.
            x: the observation.
            seed: same seed, same draws. Without one, randomness is torch's global generator's.
            show_progress_bars: accepted because sbi passes it; there is nothing slow to show.
        """
        y = _one_observation(x)
        return self._sampled(sample_shape, x, y, seed)[..., 0, :]

    def sample_batched(
        self,
        sample_shape: Sequence[int] | int,
        x: Any,
        *,
        seed: int | None = None,
        show_progress_bars: bool = False,
    ) -> Any:
        """Draws at B observations: (*sample_shape, B, d)."""
        y = rows_of_data("x", x)
        return self._sampled(sample_shape, x, y, seed)

    def log_prob(self, theta: Any, x: Any = None) -> Any:
        """Log density of theta (S, d) at one observation: (S,)."""
        y, points = _one_observation(x), np.atleast_2d(self._points(theta))
        return _like(x, self._log_prob(points, np.repeat(y, len(points), 0)))

    def log_prob_batched(self, theta: Any, x: Any) -> Any:
        """Log density of theta (S, B, d) at B observations: (S, B). A theta of (B, d) counts as S = 1."""
        y, points = rows_of_data("x", x), self._points(theta)
        points = points[None] if points.ndim == 2 else points
        if points.ndim != 3 or points.shape[1] != len(y):
            raise ValueError(
                f"`theta` must have shape (S, B, d) with B = {len(y)} observations; got {points.shape}."
            )
        S, B, d = points.shape
        paired = np.broadcast_to(y, (S, *y.shape)).reshape(S * B, *y.shape[1:])
        return _like(x, self._log_prob(points.reshape(S * B, d), paired).reshape(S, B))

    @property
    def member_weights(self) -> dict[str, float]:
        """The members that carry weight, by name."""
        return self.fit.member_weights

    def potential(self, theta: Any, x: Any = None) -> Any:
        """The same as :meth:`log_prob`, under the name sbi's diagnostics use."""
        return self.log_prob(theta, x)

    def mean(self, x: Any, *, draws: int = DRAWS, seed: int | None = None) -> Any:
        """Posterior mean at one observation, (d,), over ``draws`` draws."""
        return self.sample((draws,), x, seed=seed).mean(0)

    def cov(self, x: Any, *, draws: int = DRAWS, seed: int | None = None) -> Any:
        """Posterior covariance at one observation, (d, d), over ``draws`` draws."""
        sample = as_numpy(self.sample((draws,), x, seed=seed))
        return _like(x, np.atleast_2d(np.cov(sample, rowvar=False)))

    def interval(self, x: Any, alpha: float = 0.1, *, draws: int = DRAWS, seed: int | None = None) -> Any:
        """Central 1 − alpha interval of each parameter at one observation, (d, 2), over ``draws`` draws."""
        as_levels(alpha)
        sample = as_numpy(self.sample((draws,), x, seed=seed))
        return _like(x, np.quantile(sample, [alpha / 2, 1 - alpha / 2], axis=0).T)

    def to_sbi(self, prior: Any = None, *, ensemble: bool = False) -> Any:
        """A real ``NeuralPosterior`` of sbi, with ``set_default_x``, ``potential`` and ``map()``.

        sbi's diagnostics and plots take this object as it is; ``to_sbi`` is for code that asks for one of sbi's
        own class.

        Args:
            prior: a torch distribution; None for that of the first member from sbi, if there is one.
            ensemble: give sbi's own ``EnsemblePosterior`` of the members with weight instead: for a mixture of
                members from sbi of one class. Its draws come grouped by member, not shuffled, which misleads
                diagnostics that look at the first of them.
        """
        require("sbi", "sbi", "to_sbi")
        from drystone.adapters.to_sbi import to_sbi, to_sbi_ensemble

        return to_sbi_ensemble(self) if ensemble else to_sbi(self, prior)

    def to_arviz(self, x: Any, *, draws: int = 1000, seed: int | None = None) -> Any:
        """Draws at one observation for ArviZ: a ``DataTree``, or ``InferenceData`` if ArviZ is older than 1.0.

        Groups ``posterior`` (a variable each parameter), ``observed_data``, and ``sample_stats`` with the log
        density ``lp``, if there is one, and for a mixture the ``member`` each draw came from.

        Args:
            x: the observation.
            draws: how many, in one chain.
            seed: same seed, same draws.
        """
        require("xarray", "files", "to_arviz")
        from drystone.adapters.to_arviz import posterior_groups

        y = _one_observation(x)
        rng = np.random.default_rng(_start(seed))
        sample, member = self._draw_labelled(draws, y, rng, seed is not None)
        try:
            log_prob = self._log_prob(sample[:, 0], np.repeat(y, draws, 0))
        except IntractableError:
            log_prob = None
        member = None if member is None else member[:, 0]
        return posterior_groups(self.fit.parameters, sample[:, 0], y[0], log_prob, member, self.fit.names)

    def _draw_labelled(
        self, n: int, y: np.ndarray, rng: np.random.Generator, seeded: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The same as :meth:`_draw`, and which member each draw came from, (n, B), if from one."""
        return self._draw(n, y, rng, seeded), None

    def _sampled(self, sample_shape: Sequence[int] | int, x: Any, y: np.ndarray, seed: int | None) -> Any:
        shape = (sample_shape,) if isinstance(sample_shape, int | np.integer) else tuple(sample_shape)
        draws = self._draw(math.prod(shape), y, np.random.default_rng(_start(seed)), seed is not None)
        return _like(x, draws.reshape(*shape, *draws.shape[1:]))

    def _points(self, theta: Any) -> np.ndarray:
        """Theta as an array whose last axis has our d parameters."""
        points, d = as_numpy(theta), len(self.fit.parameters)
        if points.ndim == 0 or points.shape[-1] != d:
            raise ValueError(
                f"`theta` must have d = {d} parameters along its last axis; got shape {points.shape}."
            )
        return points

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.members)} members, {self.fit.form!r} × {self.fit.score!r})"


class MixturePosterior(StackedPosterior):
    """Σ_k w_k q_k(θ|y). Members without weight are never evaluated."""

    def _draw(self, n: int, y: np.ndarray, rng: np.random.Generator, seeded: bool) -> np.ndarray:
        return self._draw_labelled(n, y, rng, seeded)[0]

    def _draw_labelled(
        self, n: int, y: np.ndarray, rng: np.random.Generator, seeded: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Stratified over members, each observation on its own, then shuffled: any prefix is a sample."""
        counts = allocate(self._weights(y), n, len(y), rng)
        seeds = rng.integers(2**62, size=len(self.members))

        def draw(k: int, rows: np.ndarray, m: int) -> np.ndarray:
            draws = self.members[k].sample(m, y[rows], int(seeds[k]), seeded)
            return np.concatenate([draws, np.full((m, len(rows), 1), k)], -1)

        pooled = pool(counts, draw, rng)
        return pooled[..., :-1], pooled[..., -1].astype(int)

    def _log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """log Σ_k w_k q_k, in log space."""
        weights = self._weights(y)
        support = np.flatnonzero(weights.reshape(-1, len(self.members)).any(0))
        log_q = np.stack([self.members[k].log_prob(theta, y) for k in support], -1)
        return np.asarray(logsumexp(log_q, axis=-1, b=weights[..., support]))

    def _weights(self, y: np.ndarray) -> np.ndarray:
        """Weights for the rows of y: (K,) if they are the same for all, else (N, K)."""
        if isinstance(self.fit.form, LocalMixture):
            return self.fit.form.weights_at(as_tensors(self.fit.params), y).numpy()
        return self.fit.weights


class AggregatedPosterior(StackedPosterior):
    """θ* = w_0 + Σ_k W_k θ̃_k: a sampler without a density."""

    def _draw(self, n: int, y: np.ndarray, rng: np.random.Generator, seeded: bool) -> np.ndarray:
        """A draw of every member that matters for every draw of the sum."""
        seeds = rng.integers(2**62, size=len(self.members))
        used, params = self.fit.form.used(self.fit.params)
        draws = [self.members[k].sample(n, y, int(seeds[k]), seeded) for k in used]
        return params["offset"] + np.einsum("kij,knbj->nbi", params["matrix"], np.stack(draws))

    def _log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        raise IntractableError("aggregated samples have no density; stack with Mixture if you need log_prob.")


class AggregatedIntervals(StackedPosterior):
    """Intervals whose ends are weighted sums of the members' ends; neither draws nor a density."""

    def interval(self, x: Any, alpha: float | None = None, *, draws: int = DRAWS, seed: int | None = None) -> Any:
        """The aggregated interval of each parameter at one observation, (d, 2).

        Args:
            x: the observation.
            alpha: a level that was fitted; None for the only one.
            draws: how many draws of each member its own ends are read off.
            seed: of the members' draws.
        """
        levels = each_level(self._form.alpha)
        alpha = levels[0] if alpha is None and len(levels) == 1 else alpha
        if alpha is None:
            raise ValueError(f"intervals were fitted at several levels, {levels}; say which `alpha`.")
        y = _one_observation(x)
        seeds = np.random.default_rng(_start(seed)).integers(2**62, size=len(self.members))
        used, params = self._form.used(self.fit.params)
        drawn = [self.members[k].sample(draws, y, int(seeds[k]), seed is not None) for k in used]
        at_x = Table(drawn[0][:1, 0], draws=np.stack(drawn).transpose(0, 2, 1, 3))
        return _like(x, self._form.combine(as_tensors(params), at_x).interval(alpha)[0].numpy())

    @property
    def _form(self) -> IntervalAggregation:
        assert isinstance(self.fit.form, IntervalAggregation)
        return self.fit.form

    def _draw(self, n: int, y: np.ndarray, rng: np.random.Generator, seeded: bool) -> np.ndarray:
        raise IntractableError("aggregated intervals are not a distribution: they have no draws, only `interval`.")

    def _log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        raise IntractableError(
            "aggregated intervals are not a distribution: they have no density, only `interval`."
        )


def _start(seed: int | None) -> int:
    """The seed, or one from torch's generator, so that torch.manual_seed governs us as it does sbi."""
    return int(torch.randint(2**62, ())) if seed is None else seed


def _one_observation(x: Any) -> np.ndarray:
    """``x`` as a batch of one: (dim,) or (1, ...) → (1, ...)."""
    if x is None:
        raise ValueError("`x` is missing: the observation to condition on.")
    y = as_numpy(x)
    y = y[None] if y.ndim <= 1 else y
    if len(y) != 1:
        raise ValueError(
            f"`x` must be one observation, (dim,) or (1, ...); got shape {y.shape}. "
            "For several use the batched method."
        )
    return y.reshape(1, 1) if y.ndim == 1 else y


def _like(x: Any, array: np.ndarray) -> Any:
    """``array`` as what ``x`` is: a tensor of its floating dtype on its device, or NumPy."""
    if isinstance(x, torch.Tensor):
        dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
        return torch.as_tensor(np.ascontiguousarray(array), dtype=dtype, device=x.device)
    return array
