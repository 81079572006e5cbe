"""The stacked posterior at new data: one object to carry on with.

Shapes follow sbi, so that its diagnostics and plots take it as it is: ``sample((S,), x)`` gives (S, d),
``sample_batched((S,), xs)`` gives (S, B, d). Results have the type of ``x``: torch tensors of its dtype on its
device for a tensor, NumPy arrays otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from numpy.typing import ArrayLike

from drystone._arrays import as_numpy, rows_of_data
from drystone._messages import require
from drystone.adapters.member import CheckedMember
from drystone.table.inputs import as_levels

if TYPE_CHECKING:
    from drystone.stacking.result import Stacking

__all__ = ["StackedPosterior"]

# How many draws a mean, a covariance or an interval is computed from by default.
DRAWS = 10_000


@final
@dataclass(frozen=True, eq=False)
class StackedPosterior:
    """The stacked posterior over its members. Methods take one observation ``x`` or, if batched, one per row.

    It checks inputs and converts shapes; draws, densities and intervals are the form's. A form that cannot give
    one of them raises :class:`~drystone.IntractableError`.

    Attributes:
        fit: the stacking it was made from.
        members: the members in the order of the fit, checked and named.
    """

    fit: Stacking
    members: tuple[CheckedMember, ...]

    @property
    def weights(self) -> np.ndarray:
        """The weights of the fit, (K,)."""
        return self.fit.weights

    @property
    def member_weights(self) -> dict[str, float]:
        """The members that carry weight, by name."""
        return self.fit.member_weights

    def sample(
        self,
        sample_shape: Sequence[int] | int = (),
        x: ArrayLike | None = None,
        *,
        seed: int | None = None,
        show_progress_bars: bool = False,
    ) -> Any:
        """Return draws at one observation: (*sample_shape, d).

        Args:
            sample_shape: shape of the sample.
            x: the observation.
            seed: same seed, same draws. Without one, randomness is torch's global generator's.
            show_progress_bars: accepted because sbi passes it; there is nothing slow to show.
        """
        return self._sampled(sample_shape, x, _one_observation(x), seed)[..., 0, :]

    def sample_batched(
        self,
        sample_shape: Sequence[int] | int,
        x: ArrayLike,
        *,
        seed: int | None = None,
        show_progress_bars: bool = False,
    ) -> Any:
        """Return draws at B observations: (*sample_shape, B, d)."""
        return self._sampled(sample_shape, x, rows_of_data("x", x), seed)

    def log_prob(self, theta: ArrayLike, x: ArrayLike | None = None) -> Any:
        """Return the log density of theta (S, d) at one observation: (S,)."""
        y, points = _one_observation(x), np.atleast_2d(self._points(theta))
        return _like(x, self._log_prob(points, np.repeat(y, len(points), 0)))

    def log_prob_batched(self, theta: ArrayLike, x: ArrayLike) -> Any:
        """Return the log density of theta (S, B, d), or (B, d) for S = 1, at B observations: (S, B)."""
        y, points = rows_of_data("x", x), self._points(theta)
        points = points[None] if points.ndim == 2 else points
        if points.ndim != 3 or points.shape[1] != len(y):
            raise ValueError(
                f"`theta` must have shape (S, B, d) with B = {len(y)} observations; got {points.shape}."
            )
        S, B, d = points.shape
        paired = np.broadcast_to(y, (S, *y.shape)).reshape(S * B, *y.shape[1:])
        return _like(x, self._log_prob(points.reshape(S * B, d), paired).reshape(S, B))

    def potential(self, theta: ArrayLike, x: ArrayLike | None = None) -> Any:
        """Return :meth:`log_prob`, under the name sbi's diagnostics use."""
        return self.log_prob(theta, x)

    def mean(self, x: ArrayLike, *, draws: int = DRAWS, seed: int | None = None) -> Any:
        """Return the posterior mean at one observation, (d,), over ``draws`` draws."""
        return self.sample((draws,), x, seed=seed).mean(0)

    def cov(self, x: ArrayLike, *, draws: int = DRAWS, seed: int | None = None) -> Any:
        """Return the posterior covariance at one observation, (d, d), over ``draws`` draws."""
        sample = as_numpy(self.sample((draws,), x, seed=seed))
        return _like(x, np.atleast_2d(np.cov(sample, rowvar=False)))

    def interval(
        self, x: ArrayLike, alpha: float | None = None, *, draws: int = DRAWS, seed: int | None = None
    ) -> Any:
        """Return the central 1 − alpha interval of each parameter at one observation, (d, 2).

        Args:
            x: the observation.
            alpha: miscoverage; None for 0.1 or, of aggregated intervals, for the level that was fitted.
            draws: how many draws quantiles are read off; of aggregated intervals, draws of each member. Conformal
                ones are read off as many as the margin was found with, whatever this is: else they cover more.
            seed: of the draws.
        """
        form = self.fit.form
        form.check_gives("interval")
        alpha = form.default_alpha() if alpha is None else alpha
        as_levels(alpha)
        y, rng = _one_observation(x), np.random.default_rng(_start(seed))
        ends = form.interval(self.fit.params, self.members, y, alpha, draws, rng)
        return _like(x, ends[0])

    def to_sbi(self, prior: torch.distributions.Distribution | None = None, *, ensemble: bool = False) -> Any:
        """Return a real ``NeuralPosterior`` of sbi, with ``set_default_x``, ``potential`` and ``map()``.

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

    def to_arviz(self, x: ArrayLike, *, draws: int = 1000, seed: int | None = None) -> Any:
        """Return draws at one observation for ArviZ: a ``DataTree``, or ``InferenceData`` before ArviZ 1.0.

        Groups ``posterior`` (one variable per parameter), ``observed_data``, and ``sample_stats`` with the log
        density ``lp``, if there is one, and for a mixture the ``member`` each draw came from.

        Args:
            x: the observation.
            draws: how many, in one chain.
            seed: same seed, same draws.
        """
        require("xarray", "files", "to_arviz")
        from drystone.adapters.to_arviz import posterior_groups

        y = _one_observation(x)
        sample, member = self._draw(draws, y, seed)
        log_prob = None
        if "log_q" in self.fit.form.gives:
            log_prob = self._log_prob(sample[:, 0], np.repeat(y, draws, 0))
        member = None if member is None else member[:, 0]
        return posterior_groups(self.fit.parameters, sample[:, 0], y[0], log_prob, member, self.fit.names)

    def _draw(self, n: int, y: np.ndarray, seed: int | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Return n draws for each row of y, (n, B, d), and the member each came from, (n, B), if from one."""
        form = self.fit.form
        form.check_gives("draws")
        rng = np.random.default_rng(_start(seed))
        return form.draw(self.fit.params, self.members, n, y, rng)

    def _log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the log density of paired rows, (N,)."""
        self.fit.form.check_gives("log_q")
        return self.fit.form.log_prob(self.fit.params, self.members, theta, y)

    def _sampled(
        self, sample_shape: Sequence[int] | int, x: ArrayLike | None, y: np.ndarray, seed: int | None
    ) -> Any:
        shape = (sample_shape,) if isinstance(sample_shape, int | np.integer) else tuple(sample_shape)
        draws, _ = self._draw(math.prod(shape), y, seed)
        return _like(x, draws.reshape(*shape, *draws.shape[1:]))

    def _points(self, theta: ArrayLike) -> np.ndarray:
        """Return theta as an array whose last axis has our d parameters."""
        points, d = as_numpy(theta), len(self.fit.parameters)
        if points.ndim == 0 or points.shape[-1] != d:
            raise ValueError(
                f"`theta` must have d = {d} parameters along its last axis; got shape {points.shape}."
            )
        return points

    def __repr__(self) -> str:
        return f"StackedPosterior({len(self.members)} members, {self.fit.form!r} × {self.fit.score!r})"


def _start(seed: int | None) -> int:
    """Return the seed, or one from torch's generator, so that torch.manual_seed governs us as it does sbi."""
    return int(torch.randint(2**62, ())) if seed is None else seed


def _one_observation(x: ArrayLike | None) -> np.ndarray:
    """Return ``x`` as a batch of one: (dim,) or (1, ...) → (1, ...)."""
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


def _like(x: ArrayLike | None, array: np.ndarray) -> Any:
    """Return ``array`` with the type of ``x``: a tensor of its floating dtype on its device, or NumPy."""
    if isinstance(x, torch.Tensor):
        dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
        return torch.as_tensor(np.ascontiguousarray(array), dtype=dtype, device=x.device)
    return array
