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

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from drystone.adapters.points import PointSource, Values, prior_of
from drystone.errors import IntractableError
from drystone.forms.form import Arrays, Form, MemberLike, Shares
from drystone.forms.params import check_array, check_names
from drystone.forms.view import Params, View, members_in_use
from drystone.table import Statistic, Table

__all__ = ["PointForm", "PointView", "log_sums"]

# Draws without repeats: points per draw, and Metropolis steps at most.
POOL, STEPS = 10, 20
# Numbers of log densities that are worked on at once.
NUMBERS = 2**23


@dataclass(frozen=True, repr=False)
class PointForm(Form):
    """A form with parameters ``weights`` (K,) ≥ 0, normalized at points.

    On the rows of a table these are the table's shared points (``ds.tabulate(..., points=1000, prior=...)``). At
    new data they are drawn from the prior and the members, with a seed that derives from the data: so the density
    is a function of θ and y alone.

    A form of this kind defines ``log_target``. All statistics but the density come from the weighted points, less
    the first of each row, which is the truth.
    """

    gives: ClassVar = frozenset({"log_q", "rank", "mean", "moments", "interval", "draws"})

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

    def expand_params(self, params: dict[str, np.ndarray], members: np.ndarray, K: int) -> dict[str, np.ndarray]:
        """Return the weights of all K members, 0 for the others."""
        weights = np.zeros(K)
        weights[members] = params["weights"]
        return {"weights": weights}

    def active_members(self, params: Arrays) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the members with weight."""
        members = np.flatnonzero(params["weights"])
        return members, {"weights": params["weights"][members]}

    def check_params(self, params: Arrays, K: int, d: int) -> None:
        """Raise ``ValueError`` unless there are K weights ≥ 0."""
        check_names(params, ("weights",))
        check_array("weights", params["weights"], (K,))
        if (params["weights"] < 0).any():
            raise ValueError(f"`weights` must be ≥ 0; got {params['weights'].min():.6g}.")

    def describe_params(self, params: Arrays, names: tuple[str, ...]) -> list[str]:
        """Return the members with weight, heaviest first, and the sum of the weights."""
        weights = params["weights"]
        heaviest = [int(k) for k in np.argsort(-weights, kind="stable") if weights[k] > 0]
        lines = [f"  {names[k]:<40} {weights[k]:8.4f}" for k in heaviest[:20]]
        return [*lines, f"  {'sum of all weights':<40} {weights.sum():8.4f}"]

    def shares(self, params: Arrays, table: Table) -> Shares:
        """Return the weights."""
        return Shares("weight", params["weights"], simplex=bool(abs(params["weights"].sum() - 1) < 1e-6))

    def weights_at(self, params: Arrays, y: np.ndarray) -> np.ndarray:
        """Return the weights, (K,), the same for all data."""
        return params["weights"]

    # ── at new data ──────────────────────────────────────────────────────────────────────────────────────

    def log_prob(
        self, params: Arrays, members: Sequence[MemberLike], theta: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        """Return the conservative log density of paired rows theta (N, d), y (N, ...): (N,)."""
        w, used, prior = self._in_use(params, members)
        log_q = np.empty(len(theta))
        for one_y, rows in _distinct(y):
            pool = _Pool.drawn(self, w, self._source(w, used, prior, one_y), self.point_count, _seeded(one_y))
            of_theta = pool.log_weights(theta[rows])
            total = log_sums(pool.log_w[None])[0]
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
            drawn.append(_Pool.drawn(self, w, source, max(POOL * n, self.point_count), rng).resampled(n, rng))
        return np.stack(drawn, 1), None

    @property
    def point_count(self) -> int:
        """Points at new data that a density is normalized with."""
        return 1000

    def _in_use(self, params: Arrays, members: Sequence[MemberLike]) -> tuple[np.ndarray, list[Any], Any]:
        """Return the weights that are not 0, their members, and the prior."""
        active, of_active = members_in_use(self, params, len(members))
        used: list[Any] = [members[int(k)] for k in active]
        prior = prior_of(getattr(self, "prior", None), used)
        self._check_prior(of_active["weights"], used, prior)
        return of_active["weights"], used, prior

    def _check_prior(self, weights: np.ndarray, members: Sequence[Any], prior: Any) -> None:
        """Raise if the form needs a prior at new data and has none."""
        if prior is None:
            raise IntractableError(
                f"{type(self).__name__} needs the prior at new data: fit with {type(self).__name__}(prior=...), "
                "or "
                "load with Stacking.load(path, form=...)."
            )

    def _source(self, w: np.ndarray, members: Sequence[Any], prior: Any, y: np.ndarray) -> PointSource:
        total = w.sum()
        shares = w / total if total > 0 else np.full(len(w), 1 / len(w))
        return PointSource(members, shares, prior, y)


def _distinct(y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return each distinct row of y, (1, ...), and the places where it stands."""
    places: dict[bytes, list[int]] = {}
    for n in range(len(y)):
        places.setdefault(np.ascontiguousarray(y[n]).tobytes(), []).append(n)
    return [(y[rows[0]][None], np.array(rows)) for rows in places.values()]


def _seeded(y: np.ndarray) -> np.random.Generator:
    """Return a generator that derives from y."""
    digest = hashlib.sha256(np.ascontiguousarray(y, float).tobytes()).digest()
    return np.random.default_rng(np.frombuffer(digest, np.uint32).tolist())


@dataclass(frozen=True, eq=False)
class _Pool:
    """Weighted points at one y.

    Attributes:
        form: whose target they are weighted by.
        w: its weights.
        source: where the points come from.
        theta: the points, (m, d).
        log_w: log g − log r, (m,).
    """

    form: PointForm
    w: np.ndarray
    source: PointSource
    theta: np.ndarray
    log_w: np.ndarray

    @classmethod
    def drawn(cls, form: PointForm, w: np.ndarray, source: PointSource, n: int, rng: np.random.Generator) -> _Pool:
        """Return n new points."""
        theta = source.sample(n, rng)
        pool = cls(form, w, source, theta, np.empty(0))
        return cls(form, w, source, theta, pool.log_weights(theta)[1])

    def log_weights(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log g and log g − log r at any points (m, d): (m,), (m,)."""
        values = self.source.at(theta)
        likelihood = np.array([member.is_likelihood for member in self.source.members])
        log_g = self.form.log_target(self.w, values, likelihood)
        return log_g, np.where(log_g == -np.inf, -np.inf, log_g - values.log_r)

    def resampled(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n draws, (n, d): systematic resampling, then Metropolis steps until repeats have moved apart."""
        share = np.exp(self.log_w - log_sums(self.log_w[None]))
        chosen = np.minimum(np.searchsorted(np.cumsum(share), (rng.random() + np.arange(n)) / n), len(share) - 1)
        theta = self.theta[chosen]
        still = np.r_[False, chosen[1:] == chosen[:-1]]
        if still.any():
            d, effective = theta.shape[1], 1 / (share**2).sum()
            mean = share @ self.theta
            scatter = (share[:, None] * (self.theta - mean)).T @ (self.theta - mean)
            root = np.linalg.cholesky(scatter + 1e-10 * np.diag(np.diag(scatter) + 1e-300))
            width = (4 / (effective * (d + 2))) ** (1 / (d + 4))
            log_g = self.log_weights(theta)[0]
            for _ in range(STEPS):
                moving = np.flatnonzero(still)
                if not moving.size:
                    break
                step = width * rng.standard_normal((moving.size, d)) @ root.T
                reached = self.log_weights(theta[moving] + step)[0]
                accepted = np.log(rng.random(moving.size)) < reached - log_g[moving]
                theta[moving[accepted]] += step[accepted]
                log_g[moving[accepted]] = reached[accepted]
                still[moving[accepted]] = False
        return rng.permutation(theta)


def log_sums(log_w: np.ndarray) -> np.ndarray:
    """Return log Σ_m w_nm of each row, (N, M) → (N,); −inf where every weight is 0."""
    highest = log_w.max(1)
    reference = np.where(np.isfinite(highest), highest, 0.0)
    with np.errstate(divide="ignore"):
        return reference + np.log(np.exp(log_w - reference[:, None]).sum(1))


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
            log_z = log_sums(log_w) - np.log(log_w.shape[1])
            density = log_g[:, 0] - log_z
        return torch.as_tensor(np.where(log_g[:, 0] == -np.inf, -np.inf, density))

    def draws_behind_rank(self) -> Tensor | None:
        """Return the effective number of points, (N,)."""
        return torch.as_tensor(1 / (self._shares() ** 2).sum(1))

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
        points, share = self.table.points[:, 1:], self._shares()
        order = np.argsort(points, 1)
        ordered, mass = np.take_along_axis(points, order, 1), np.take_along_axis(share[..., None], order, 1)
        middle = np.cumsum(mass, 1) - mass / 2
        ends = np.empty((len(points), points.shape[2], 2))
        for n, j in np.ndindex(ends.shape[:2]):
            ends[n, j] = np.interp([alpha / 2, 1 - alpha / 2], middle[n, :, j], ordered[n, :, j])
        return torch.as_tensor(ends)

    def draws(self, n: int | None = None, seed: int = 0) -> Tensor:
        """Return points resampled by weight, (N, n, d), in random order; 100 of them unless told otherwise."""
        rng, share, n = np.random.default_rng(seed), self._shares(), 100 if n is None else n
        cumulated = np.cumsum(share, 1)
        drawn = np.empty((self.table.N, n, self.d))
        for row, edges in enumerate(cumulated):
            chosen = np.minimum(np.searchsorted(edges, (rng.random() + np.arange(n)) / n), len(edges) - 1)
            drawn[row] = self.table.points[row, 1 + rng.permutation(chosen)]
        return torch.as_tensor(drawn)

    def _shares(self) -> np.ndarray:
        """Return the weights of the points but the first of each row, (N, M − 1), which sum to one."""
        log_w = self.log_weights[1][:, 1:]
        with np.errstate(invalid="ignore"):
            return np.exp(log_w - log_sums(log_w)[:, None])

    @cached_property
    def log_weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Log g and log g − log r at the shared points, (N, M) each."""
        return _log_weights(self.table, self.form, self.weights)


def _log_weights(table: Table, form: PointForm, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    log_r = table.log_r
    likelihood = np.array([name in table.likelihoods for name in table.names])
    log_g = np.empty(log_r.shape)
    rows = max(1, NUMBERS // (table.K * log_r.shape[1]))
    for start in range(0, table.N, rows):
        part = slice(start, start + rows)
        log_prior = None if table.log_prior is None else table.log_prior[part]
        log_g[part] = form.log_target(w, Values(table.log_f[:, part], log_prior, log_r[part]), likelihood)
    with np.errstate(invalid="ignore"):
        return log_g, np.where(log_g == -np.inf, -np.inf, log_g - log_r)
