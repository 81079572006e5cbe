"""The stacked posterior at new data: one object to carry on with.

Shapes follow sbi, so that its diagnostics and plots take it as it is: ``sample((S,), x)`` gives (S, d),
``sample_batched((S,), xs)`` gives (S, B, d). Results have the type of ``x``: torch tensors of its dtype on its
device for a tensor, NumPy arrays otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from drystone._arrays import LARGEST, as_integer, as_numpy, rows_not_in_range, rows_of_data
from drystone._messages import counted, require
from drystone.adapters.member import CheckedMember
from drystone.table.inputs import as_levels

if TYPE_CHECKING:
    from drystone.diagnostics.credible_sets import CredibleSet
    from drystone.diagnostics.observation import PosteriorAt
    from drystone.diagnostics.predictive import Summary
    from drystone.diagnostics.reference import Reference
    from drystone.stacking.result import Stacking
    from drystone.table import Table

__all__ = ["StackedPosterior"]

# How many draws a mean, a covariance or an interval is computed from by default.
DRAWS = 10_000
# Numbers of repeated observations that members are given at once.
MOST_VALUES = 4_000_000
# Step of the differences that stand for a gradient, in standard deviations of the posterior.
STEP = 1e-3
# Stands for the negative log density where the density is 0: line searches cannot deal with infinity.
NO_DENSITY = 1e10


@final
@dataclass(eq=False)
class StackedPosterior:
    """The stacked posterior over its members. Methods take one observation ``x`` or, if batched, one per row.

    It checks inputs and converts shapes; draws, densities and intervals are the form's. A form that cannot give
    one of them raises :class:`~drystone.IntractableError`. One observation may have any shape: that of a row of
    the reference's y or, without a reference, the one that a member knows (``y_shape``); failing that, (dim,) or
    (1, ...).

    Attributes:
        fit: the stacking it was made from.
        members: the members in the order of the fit, checked and named.
        reference: simulations that had no part in the weights, with y, or None: what an observation is held
            against (:meth:`at`).
        default_x: the observation of methods that are given none; see :meth:`set_default_x`.

    Example:
        >>> import drystone as ds
        >>> posterior = ds.stack(ds.toy.table(200, seed=1)).posterior(ds.toy.MEMBERS)
        >>> draws = posterior.sample((1000,), 2.0, seed=1)
        >>> draws.shape, posterior.log_prob(draws, 2.0).shape
        ((1000, 1), (1000,))
        >>> low, high = posterior.interval(2.0, alpha=0.1, seed=1)[0]
        >>> bool(0 < low < 0.5 and 3 < high < 4)
        True
    """

    fit: Stacking
    members: tuple[CheckedMember, ...]
    reference: Table | None = None
    default_x: Any = field(default=None, init=False, repr=False)
    # What is known of the reference, by seed, so that it is computed once.
    _references: dict[int, Reference] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self.fit.form.check_members(self.fit.params, self.members)
        if self.reference is None:
            return
        if self.reference.y is None:
            raise ValueError(
                "`reference` must hold the data `y` of its simulations, which an observation is held against; got "
                "None. Tabulate with y, or Table(theta, y=y, ...)."
            )
        if self.reference.parameters != self.fit.parameters:
            raise ValueError(
                f"`reference` must have the parameters of the fit, {self.fit.parameters}; got "
                f"{self.reference.parameters}."
            )

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
        """Return draws at one observation: ``(*sample_shape, d)``.

        Args:
            sample_shape: shape of the sample.
            x: the observation; None for the default one.
            seed: same seed, same draws. Without one, randomness is torch's global generator's.
            show_progress_bars: accepted because sbi passes it; there is nothing slow to show.
        """
        x = self._given_or_default(x)
        return self._sampled(sample_shape, x, self.one_observation(x), seed)[..., 0, :]

    def sample_batched(
        self,
        sample_shape: Sequence[int] | int,
        x: ArrayLike,
        *,
        seed: int | None = None,
        show_progress_bars: bool = False,
    ) -> Any:
        """Return draws at B observations: ``(*sample_shape, B, d)``."""
        return self._sampled(sample_shape, x, self._checked(rows_of_data("x", x)), seed)

    def log_prob(self, theta: ArrayLike, x: ArrayLike | None = None) -> Any:
        """Return the log density of theta (S, d) at one observation: (S,)."""
        x = self._given_or_default(x)
        y, points = self.one_observation(x), np.atleast_2d(self._points(theta))
        if points.ndim > 2:
            raise ValueError(f"`theta` must have shape (S, d); got {points.shape}. Flatten its first axes.")
        return _like(x, self._log_prob(points, np.repeat(y, len(points), 0)))

    def log_prob_batched(self, theta: ArrayLike, x: ArrayLike) -> Any:
        """Return the log density of theta (S, B, d), or (B, d) for S = 1, at B observations: (S, B)."""
        y, points = self._checked(rows_of_data("x", x)), self._points(theta)
        points = points[None] if points.ndim == 2 else points
        if points.ndim != 3 or points.shape[1] != len(y):
            raise ValueError(
                f"`theta` must have shape (S, B, d) with B = {len(y)} observations; got {points.shape}."
            )
        S, B, d = points.shape
        log_q = np.empty((S, B))
        size = max(1, MOST_VALUES // max(S * int(np.prod(y.shape[1:])), 1))
        for rows in (slice(start, start + size) for start in range(0, B, size)):
            at, some = points[:, rows], y[rows]
            paired = np.broadcast_to(some, (S, *some.shape)).reshape(S * len(some), *y.shape[1:])
            log_q[:, rows] = self._log_prob(at.reshape(S * len(some), d), paired).reshape(S, len(some))
        return _like(x, log_q)

    def potential(self, theta: ArrayLike, x: ArrayLike | None = None) -> Any:
        """Return :meth:`log_prob`, under the name sbi's diagnostics use."""
        return self.log_prob(theta, x)

    def mean(self, x: ArrayLike | None = None, *, draws: int = DRAWS, seed: int | None = None) -> Any:
        """Return the posterior mean at one observation, (d,), over ``draws`` draws."""
        return self.sample((draws,), x, seed=seed).mean(0)

    def cov(self, x: ArrayLike | None = None, *, draws: int = DRAWS, seed: int | None = None) -> Any:
        """Return the posterior covariance at one observation, (d, d), over ``draws`` draws."""
        x = self._given_or_default(x)
        sample = as_numpy(self.sample((draws,), x, seed=seed))
        return _like(x, np.atleast_2d(np.cov(sample, rowvar=False)))

    def interval(
        self,
        x: ArrayLike | None = None,
        alpha: float | None = None,
        *,
        draws: int = DRAWS,
        seed: int | None = None,
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
        x = self._given_or_default(x)
        y, rng = self.one_observation(x), np.random.default_rng(_start(seed))
        ends = form.interval(self.fit.params, self.members, y, alpha, draws, rng)
        return _like(x, ends[0])

    def map(
        self,
        x: ArrayLike | None = None,
        *,
        num_iter: int = 100,
        num_to_optimize: int = 5,
        num_init_samples: int = 1000,
        seed: int | None = None,
        show_progress_bars: bool = False,
    ) -> Any:
        """Return the mode at one observation, (d,): the draws with the highest density, moved uphill.

        Args:
            x: the observation; None for the default one.
            num_iter: most steps of each climb.
            num_to_optimize: how many of the draws climb.
            num_init_samples: draws to choose them from.
            seed: of the draws.
            show_progress_bars: accepted because sbi passes it.
        """
        x = self._given_or_default(x)
        y = self.one_observation(x)
        draws = self._draw(num_init_samples, y, seed)[0][:, 0]

        def log_prob(theta: np.ndarray) -> np.ndarray:
            return self._log_prob(theta, np.repeat(y, len(theta), 0))

        starts = draws[np.argsort(-log_prob(draws))[:num_to_optimize]]
        return _like(x, _highest(log_prob, starts, draws.std(0), num_iter))

    def set_default_x(self, x: ArrayLike | None) -> StackedPosterior:
        """Set the observation of methods that are given none, as in sbi; None to forget it. Return ``self``."""
        if x is not None:
            self.one_observation(x)
        self.default_x = x
        return self

    def to(self, device: str | torch.device) -> StackedPosterior:
        """Move the members that live on a device, and the default observation, to ``device``; return ``self``.

        Results are where ``x`` is. Members without a method ``to`` (arrays, compiled flows) stay on the CPU.
        """
        device = torch.device(device)
        for member in self.members:
            move = getattr(member.posterior, "to", None)
            if move is not None:
                move(device)
        if isinstance(self.default_x, torch.Tensor):
            self.default_x = self.default_x.to(device)
        return self

    def at(
        self,
        y_o: ArrayLike | None = None,
        *,
        alpha: float = 0.1,
        simulator: Any = None,
        summaries: Mapping[str, Summary] | None = None,
        draws: int = DRAWS,
        seed: int = 0,
    ) -> PosteriorAt:
        """Return the posterior at one observation, with the checks whether it can be believed there.

        Args:
            y_o: the observation; None for the default one.
            alpha: miscoverage of the credible set.
            simulator: a task, or a function ``(theta, rng) -> y``, to simulate data from the posterior.
            summaries: functions of data (N, ...), by name, by which these are held against the observation; None
                for its entries or, if these are many, four numbers.
            draws: of the posterior.
            seed: same seed, same result.
        """
        from drystone.diagnostics.observation import posterior_at

        return posterior_at(
            self, y_o, alpha=alpha, simulator=simulator, summaries=summaries, draws=draws, seed=seed
        )

    def credible_set(
        self, y_o: ArrayLike | None = None, alpha: float = 0.1, *, local: bool = False, seed: int = 0
    ) -> CredibleSet:
        """Return a set that contains θ with probability at least 1 − alpha, whatever the members do.

        Args:
            y_o: the observation; None for the default one.
            alpha: miscoverage.
            local: calibrate on simulations near the observation, which is approximate.
            seed: of the draws.
        """
        from drystone.diagnostics.credible_sets import credible_set

        return credible_set(self, y_o, alpha, local=local, seed=seed)

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

    def to_arviz(self, x: ArrayLike | None = None, *, draws: int = 1000, seed: int | None = None) -> Any:
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

        y = self.one_observation(self._given_or_default(x))
        sample, member = self._draw(draws, y, seed)
        log_prob = None
        in_use = self.fit.form.active_members(dict(self.fit.params))[0]
        if "log_q" in self.fit.form.gives and all(self.members[int(k)].has("log_prob") for k in in_use):
            log_prob = self._log_prob(sample[:, 0], np.repeat(y, draws, 0))
        member = None if member is None else member[:, 0]
        return posterior_groups(self.fit.parameters, sample[:, 0], y[0], log_prob, member, self.fit.names)

    def one_observation(self, x: ArrayLike | None = None) -> np.ndarray:
        """Return one observation, or the default one, as a batch of one: (1, ...)."""
        x = self._checked(as_numpy(self._given_or_default(x)))
        shape = self._y_shape
        if shape is None:
            if x.ndim > 1 and len(x) != 1:
                raise ValueError(
                    f"`x` must be one observation, (dim,) or (1, ...); got shape {x.shape}. For several use the "
                    "batched method; if it is one observation of this shape, give x[None], or a `reference` to "
                    "fit.posterior."
                )
            return x.reshape(1, 1) if x.ndim == 0 else x[None] if x.ndim == 1 else x
        if x.shape in (shape, (1, *shape)) or (x.size == 1 and math.prod(shape) == 1):
            return x.reshape(1, *shape)
        several = "For several use the batched method." if x.shape[1:] == shape else "Is it transposed?"
        raise ValueError(f"`x` must be one observation of shape {shape}; got shape {x.shape}. {several}")

    @property
    def bounds(self) -> np.ndarray | None:
        """Bounds of the parameters, (d, 2), infinite where there is none; None if no member knows its prior's."""
        return next((member.bounds for member in self.members if member.bounds is not None), None)

    @property
    def _y_shape(self) -> tuple[int, ...] | None:
        """Return the shape of one observation, if the reference or a member knows it."""
        if self.reference is not None:
            return rows_of_data("y", np.asarray(self.reference.y)).shape[1:]
        return next((member.y_shape for member in self.members if member.y_shape is not None), None)

    def _checked(self, x: np.ndarray) -> np.ndarray:
        """Return data; raise if they are nothing that the members can be asked about."""
        if any(member.needs_finite_y for member in self.members):
            if x.dtype.kind == "c":  # its imaginary part would be dropped
                raise TypeError(f"`x` must be real numbers; got dtype {x.dtype}.")
            if rows_not_in_range(x.reshape(1, -1)).size:
                raise ValueError(
                    f"`x` must be finite, where numbers above {LARGEST:g} count as infinite: these members were "
                    "trained on finite data alone."
                )
        return x

    def _given_or_default(self, x: ArrayLike | None) -> Any:
        """Return ``x``, or the default observation if it is None."""
        if x is None and self.default_x is None:
            raise ValueError(
                "`x` is missing: the observation to condition on. Give it, or set_default_x(x) once for all."
            )
        return self.default_x if x is None else x

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
        given = (sample_shape,) if isinstance(sample_shape, int | np.integer) else tuple(sample_shape)
        shape = tuple(as_integer("sample_shape", n, 0) for n in given)
        draws, _ = self._draw(math.prod(shape), y, seed)
        return _like(x, draws.reshape(*shape, *draws.shape[1:]))

    def _points(self, theta: ArrayLike) -> np.ndarray:
        """Return theta as an array whose last axis has our d parameters."""
        points, d = as_numpy(theta), len(self.fit.parameters)
        if points.dtype.kind == "c":
            raise TypeError(f"`theta` must be real numbers; got dtype {points.dtype}.")
        if points.ndim == 0 or points.shape[-1] != d:
            raise ValueError(
                f"`theta` must have d = {d} parameters along its last axis; got shape {points.shape}."
            )
        return points

    def __repr__(self) -> str:
        return f"StackedPosterior({counted(len(self.members), 'member')}, {self.fit.form!r} × {self.fit.score!r})"


def _start(seed: int | None) -> int:
    """Return the seed, or one from torch's generator, so that torch.manual_seed governs us as it does sbi."""
    return int(torch.randint(2**62, ())) if seed is None else seed


def _highest(
    log_prob: Callable[[np.ndarray], np.ndarray], starts: np.ndarray, scale: np.ndarray, steps: int
) -> np.ndarray:
    """Return the point of highest density that quasi-Newton climbs from ``starts`` (n, d) lead to, (d,).

    Slopes are differences, all from one call; next to the edge of a support they are one-sided. A simplex search
    ends the best climb, for a mode may lie on the edge.
    """
    scale = np.where(scale > 0, scale, 1.0)
    offsets = np.concatenate([np.zeros((1, len(scale))), STEP * np.eye(len(scale)), -STEP * np.eye(len(scale))])

    def height(points: np.ndarray) -> np.ndarray:
        values = log_prob(points * scale)
        return np.where(np.isfinite(values), -values, NO_DENSITY)

    def value_and_slope(point: np.ndarray) -> tuple[float, np.ndarray]:
        here, *around = height(point + offsets)
        above, below = np.array(around).reshape(2, -1)
        inside = (above < NO_DENSITY).astype(float) + (below < NO_DENSITY)
        above, below = (np.where(values < NO_DENSITY, values, here) for values in (above, below))
        return float(here), (above - below) / (STEP * np.maximum(inside, 1.0))

    climbs = [
        minimize(value_and_slope, start / scale, jac=True, method="L-BFGS-B", options={"maxiter": steps}).x
        for start in starts
    ]
    points = np.concatenate([starts / scale, climbs])
    best = points[height(points).argmin()]
    last = minimize(lambda point: height(point[None])[0], best, method="Nelder-Mead", options={"xatol": STEP})
    return (last.x if last.fun <= height(best[None])[0] else best) * scale


def _like(x: ArrayLike | None, array: np.ndarray) -> Any:
    """Return ``array`` with the type of ``x``: a tensor of its floating dtype on its device, or NumPy."""
    if isinstance(x, torch.Tensor):
        dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
        return torch.as_tensor(np.ascontiguousarray(array), dtype=dtype, device=x.device)
    return array
