r"""Forms whose density must be normalized: by importance sampling at points θ_m ~ r(·|y).

.. math::
    \log q^*(\theta_n \mid y_n) = \log g(\theta_n) - \log \hat Z^+_n, \qquad
    \hat Z^+_n = \frac{1}{M} \sum_{m=1}^M \frac{g(\theta_{nm})}{r(\theta_{nm} \mid y_n)}, \quad \theta_{n1} =
    \theta_n

The evaluated point is one of the points. So the estimate is, on average, the density of a distribution that one
can draw from (sampling importance resampling), which errs low, and no row claims more than M r(θ). Without it the
estimate would be too high without bound wherever the points miss the posterior, and a fit would find these rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from drystone._arrays import distinct_rows, entropy_of
from drystone.adapters.points import PointSource, Values, prior_of
from drystone.errors import IntractableError, SamplingError
from drystone.forms.form import Arrays, MemberLike, Shares
from drystone.forms.simplex import WeightedForm
from drystone.forms.view import Params, View, members_in_use
from drystone.likelihood.weights import (
    effective_points,
    log_sum,
    log_total,
    moved_apart,
    normalized_weights,
    resampled,
    weighted_quantiles,
)
from drystone.table import Statistic, Table

__all__ = ["PointForm", "PointView", "are_likelihoods", "stretches"]

# Points at new data that a density is normalized with, and points per draw, at least.
POINTS, POOL = 1000, 10
# Points that tell how many are needed, effective ones that are wanted, and the most as a multiple of the least.
PILOT, ENOUGH, MOST = 250, 500, 16
# Numbers of log densities that are worked on at once.
NUMBERS = 2**23


@dataclass(frozen=True, repr=False)
class PointForm(WeightedForm):
    """A form with parameters ``weights`` (K,) ≥ 0, normalized at points.

    On the rows of a table these are the table's shared points (``ds.tabulate(..., points=1000, prior=...)``). At
    new data they are drawn from the prior and the members, with a seed that derives from the data: so the density
    is a function of θ and y alone. There are 1,000 of them, or up to 16 times as many where fewer than 500 would
    be effective.

    A form of this kind defines ``log_target``. All statistics but the density come from the weighted points, less
    the first of each row, which is the truth.

    Example:
        >>> import drystone as ds, numpy as np, torch
        >>> class Pool(ds.forms.PointForm):
        ...     def log_target(self, weights, values, likelihood): return np.tensordot(weights, values.log_f, 1)
        >>> (theta, y), members = ds.toy.simulate(20, seed=1), [ds.toy.MEMBERS["left"], ds.toy.MEMBERS["right"]]
        >>> table = ds.tabulate(members, theta, y, draws=0, points=1000)
        >>> view = Pool().combine({"weights": torch.tensor([0.5, 0.5])}, table)
        >>> exact = ds.toy.Gaussian(0.0, 1.0).log_prob(theta, y)  # √(left · right), normalized
        >>> bool(abs(view.log_q().numpy() - exact).max() < 0.1)
        True
    """

    gives: ClassVar = frozenset({"log_q", "rank", "mean", "moments", "interval", "draws"})
    prior: Any = field(default=None, repr=False, kw_only=True)

    def describe(self) -> dict[str, Any]:
        """Return the form as JSON, with its prior if that is data; at rows of a table it is not needed."""
        from drystone.simulation.prior import describe_prior

        return {**super().describe(), "prior": None if self.prior is None else describe_prior(self.prior)}

    @property
    def needs_prior(self) -> bool:
        """Whether the prior must be known at new data, whatever the members are."""
        return True

    @abstractmethod
    def log_target(self, weights: np.ndarray, values: Values, likelihood: np.ndarray) -> np.ndarray:
        """Return log g, up to a term in y: (...).

        Args:
            weights: (K,).
            values: log densities (K, ...) of the members and, if it is known, of the prior (...).
            likelihood: which members are likelihoods, (K,) of bool.
        """

    def requires(self, statistic: str) -> str:
        """Return ``points`` for all statistics."""
        return "points"

    def combine(self, params: Params, table: Table, softness: Tensor | float = 0.0) -> PointView:
        """Return the form on the rows of ``table``."""
        return PointView(self, params["weights"].detach().numpy(), table, softness)

    # ── its parameters ───────────────────────────────────────────────────────────────────────────────────

    def describe_params(self, params: Arrays, names: tuple[str, ...]) -> list[str]:
        """Return the members with weight, heaviest first, and the sum of the weights."""
        total = f"  {'sum of all weights':<40} {params['weights'].sum():8.4f}"
        return [*super().describe_params(params, names), total]

    def shares(self, params: Arrays, table: Table) -> Shares:
        """Return the weights."""
        return Shares("weight", params["weights"], simplex=bool(abs(params["weights"].sum() - 1) < 1e-6))

    # ── at new data ──────────────────────────────────────────────────────────────────────────────────────

    def log_prob(
        self, params: Arrays, members: Sequence[MemberLike], theta: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        """Return the conservative log density of paired rows theta (N, d), y (N, ...): (N,)."""
        w, used, prior = self._in_use(params, members)
        log_q = np.empty(len(theta))
        for one_y, rows in distinct_rows(y):
            rng = np.random.default_rng(entropy_of(one_y))
            pool = _Pool.drawn(self, w, self._source(w, used, prior, one_y), 0, rng)
            of_theta = pool.log_weights(theta[rows])
            total = log_total(pool.log_w)
            with np.errstate(invalid="ignore"):
                density = of_theta[0] - (np.logaddexp(total, of_theta[1]) - np.log(len(pool.log_w) + 1))
            log_q[rows] = np.where(of_theta[0] == -np.inf, -np.inf, density)
        return log_q

    def draw(
        self,
        params: Arrays,
        members: Sequence[MemberLike],
        n: int,
        y: np.ndarray,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, None]:
        """Return n draws per row of y, (n, B, d): points resampled by weight, repeats moved apart."""
        w, used, prior = self._in_use(params, members)
        drawn = []
        for b in range(len(y)):
            source = self._source(w, used, prior, y[b : b + 1])
            drawn.append(_Pool.drawn(self, w, source, n, rng).resampled(n, rng))
        return np.stack(drawn, 1), None

    def check_members(self, params: Arrays, members: Sequence[MemberLike]) -> None:
        """Raise if the form needs a prior and none is known."""
        self._in_use(params, members)

    def _in_use(self, params: Arrays, members: Sequence[MemberLike]) -> tuple[np.ndarray, list[Any], Any]:
        """Return the weights that are not 0, their members, and the prior."""
        active, of_active = members_in_use(self, params, len(members))
        used: list[Any] = [members[int(k)] for k in active]
        prior = prior_of(self.prior, used)
        self._check_prior(of_active["weights"], used, prior)
        return of_active["weights"], used, prior

    def _check_prior(self, weights: np.ndarray, members: Sequence[Any], prior: Any) -> None:
        """Raise if the form needs a prior at new data and has none."""
        if prior is None:
            raise IntractableError(
                f"{type(self).__name__} needs the prior at new data: fit with {type(self).__name__}(prior=...). "
                "If it was fitted with one and loaded, the prior is code, which is not stored: "
                f"Stacking.load(path, form={type(self).__name__}(prior=...))."
            )

    def _source(self, w: np.ndarray, members: Sequence[Any], prior: Any, y: np.ndarray) -> PointSource:
        shares = w if w.sum() > 0 else np.ones(len(w))
        able = np.array([member.has("sample") for member in members])
        if prior is not None or able.any():  # else the first without `sample` is named when it is asked
            shares = np.where(able, shares, 0.0)
        return PointSource(members, shares / (shares.sum() or 1.0), prior, y)


@dataclass(frozen=True, eq=False)
class _Pool:
    """Weighted points at one y.

    Attributes:
        form: whose target they are weighted by.
        w: its weights.
        source: where the points come from.
        theta: the points, (m, d).
        log_w: log g − log r, (m,).
        log_z: log Z_k of the members, (K,).
    """

    form: PointForm
    w: np.ndarray
    source: PointSource
    theta: np.ndarray
    log_w: np.ndarray
    log_z: np.ndarray

    @classmethod
    def drawn(cls, form: PointForm, w: np.ndarray, source: PointSource, n: int, rng: np.random.Generator) -> _Pool:
        """Return as many points as n draws need; n = 0 for a density.

        Others tell how many that are. A pool that grew until its own weights look well would have a biased sum: it
        would stop where a part of the posterior is still missing.
        """
        share = effective_points(cls._of(form, w, source, PILOT, rng).log_w) / PILOT
        least = max(POOL * n, POINTS)
        needed = np.clip(np.ceil(max(n, ENOUGH) / share), least, MOST * least) if share else MOST * least
        return cls._of(form, w, source, int(needed), rng)

    @classmethod
    def _of(cls, form: PointForm, w: np.ndarray, source: PointSource, n: int, rng: np.random.Generator) -> _Pool:
        """Return n new points."""
        theta = source.sample(n, rng)
        values, likelihood = source.at(theta), source.are_likelihoods
        log_z = values.log_evidence(likelihood)
        _, log_w = _weighted(form, w, replace(values, log_z=log_z), likelihood)
        return cls(form, w, source, theta, log_w, log_z)

    def log_weights(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log g and log g − log r at any points (m, d): (m,), (m,)."""
        values = replace(self.source.at(theta), log_z=self.log_z)
        return _weighted(self.form, self.w, values, self.source.are_likelihoods)

    def resampled(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n draws, (n, d): resampled by weight, repeats moved apart."""
        if log_total(self.log_w) == -np.inf:
            raise SamplingError(
                f"the {type(self.form).__name__} is 0 at all {len(self.log_w)} points of an observation: its "
                "members explain these data nowhere within the prior, or no point is where they do."
            )
        share = normalized_weights(self.log_w)
        chosen = resampled(share, n, rng)
        theta, d = self.theta[chosen], self.theta.shape[1]
        if (chosen[1:] == chosen[:-1]).any():
            centered = self.theta - share @ self.theta
            scatter = (share[:, None] * centered).T @ centered
            root = np.linalg.cholesky(scatter + 1e-10 * np.diag(np.diag(scatter) + 1e-300))
            width = (4 / (effective_points(self.log_w) * (d + 2))) ** (1 / (d + 4))
            theta = moved_apart(
                theta,
                lambda points: self.log_weights(points)[0],
                lambda: width * rng.standard_normal((n, d)) @ root.T,
                rng,
            )
        return rng.permutation(theta)


class PointView(View):
    """Statistics of a form at the shared points of a table.

    Args:
        form: the form.
        weights: (K,).
        table: the members on the rows, with shared points.
        softness: not used: there are no steps.
    """

    def __init__(self, form: PointForm, weights: np.ndarray, table: Table, softness: Tensor | float = 0.0) -> None:
        super().__init__(table, softness)
        self.form, self.weights = form, weights

    def log_q(self) -> Tensor:
        """Return log g(θ_n) − log Ẑ⁺_n, (N,)."""
        log_g, log_w = self.log_weights
        with np.errstate(invalid="ignore"):
            log_z = log_sum(log_w.T) - np.log(log_w.shape[1])
            density = log_g[:, 0] - log_z
        return torch.as_tensor(np.where(log_g[:, 0] == -np.inf, -np.inf, density))

    def rank(self, statistic: Statistic | None = None) -> Tensor:
        """Return Σ_m w_m 1(θ_m ≤ θ_n), (N, d); of a quantity of interest, (N, 1)."""
        points, truth = self.table.points[:, 1:], self.table.points[:, 0]
        if statistic is not None:
            of_points = np.asarray(statistic(np.moveaxis(points, 1, 0), self.table.y)).T[..., None]
            points, truth = of_points, np.asarray(statistic(truth, self.table.y))[:, None]
        below = np.einsum("nm,nmd->nd", self._shares(), points <= truth[:, None])
        return torch.as_tensor(np.minimum(below, 1.0))

    def mean(self) -> Tensor:
        """Return Σ_m w_m θ_m, (N, d)."""
        return torch.as_tensor(np.einsum("nm,nmd->nd", self._shares(), self.table.points[:, 1:]))

    def cov(self) -> Tensor:
        """Return Σ_m w_m (θ_m − μ)(θ_m − μ)ᵀ, (N, d, d)."""
        centered = self.table.points[:, 1:] - self.mean().numpy()[:, None]
        return torch.as_tensor(np.einsum("nm,nmi,nmj->nij", self._shares(), centered, centered, optimize=True))

    def interval(self, alpha: float) -> Tensor:
        """Return weighted quantiles of the points, (N, d, 2)."""
        rows = zip(self.table.points[:, 1:], self._shares(), strict=True)
        ends = [weighted_quantiles(points, share, [alpha / 2, 1 - alpha / 2]) for points, share in rows]
        return torch.as_tensor(np.stack(ends).swapaxes(1, 2).copy())

    def draws(self, n: int | None = None, seed: int = 0) -> Tensor:
        """Return points resampled by weight, (N, n, d), in random order; 100 of them unless told otherwise.

        NaN at rows that no point explains, as rank, mean and covariance are.
        """
        rng, share, n = np.random.default_rng(seed), self._shares(), 100 if n is None else n
        drawn = np.empty((self.table.N, n, self.d))
        for row, of_row in enumerate(share):
            if np.isnan(of_row).any():
                drawn[row] = np.nan
            else:
                drawn[row] = self.table.points[row, 1 + rng.permutation(resampled(of_row, n, rng))]
        return torch.as_tensor(drawn)

    def _shares(self) -> np.ndarray:
        """Return the weights of the points but the first of each row, (N, M − 1), which sum to one."""
        log_w = self.log_weights[1][:, 1:]
        with np.errstate(invalid="ignore"):
            return np.exp(log_w - log_sum(log_w.T)[:, None])

    @cached_property
    def log_weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Log g and log g − log r at the shared points, (N, M) each."""
        return _log_weights(self.table, self.form, self.weights)


def stretches(table: Table) -> Iterator[tuple[Values, slice]]:
    """Yield the values of members at the shared points of stretches of rows that fit into memory."""
    log_f, log_prior, log_r = table.log_f, table.log_prior, table.log_r
    rows = max(1, NUMBERS // (table.K * log_r.shape[1]))
    for start in range(0, table.N, rows):
        part = slice(start, start + rows)
        yield Values(log_f[:, part], None if log_prior is None else log_prior[part], log_r[part]), part


def are_likelihoods(table: Table) -> np.ndarray:
    """Return which members of a table are likelihoods, (K,) of bool."""
    return np.array([name in table.likelihoods for name in table.names])


def _log_weights(table: Table, form: PointForm, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    log_g, log_w = np.empty(table.log_r.shape), np.empty(table.log_r.shape)
    for values, part in stretches(table):
        log_g[part], log_w[part] = _weighted(form, w, values, are_likelihoods(table))
    return log_g, log_w


def _weighted(
    form: PointForm, w: np.ndarray, values: Values, likelihood: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return log g and log g − log r at points."""
    log_g = form.log_target(w, values, likelihood)
    with np.errstate(invalid="ignore"):  # r may be 0 where the target is
        return log_g, np.where(log_g == -np.inf, -np.inf, log_g - values.log_r)
