r"""Posteriors out of likelihoods, with a density that errs low.

.. math::
    w(\theta) = \frac{p(\theta)\, e^{f(\theta, y)}}{r(\theta \mid y)}, \qquad
    \hat Z^+(\theta) = \frac{w(\theta) + \sum_{m=1}^M w(\theta_m)}{M + 1}, \quad \theta_m \sim r(\cdot \mid y),
    \qquad \log q(\theta \mid y) = \log p(\theta) + f(\theta, y) - \log \hat Z^+(\theta)

The evaluated point is one of the draws, so that :math:`E[q]` is the density of sampling importance resampling with
M + 1 candidates (Domke & Sheldon 2018): a distribution that integrates to one, of which nothing claims more than
(M + 1) r(θ). Without the first term (the naive estimate) the density is too high without bound wherever the points
miss the posterior. The two bracket the truth; their difference is 1 / (effective points) on average over q.

M depends on y alone, by pilot points that are not used again. Were it chosen by the points themselves, or by the
difference at θ, it would grow where they show that something was missed and not where they hide it: of a mode that
is found late, high claims would stay and the low ones that make up for them would go.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import as_numpy, distinct_rows, entropy_of, rows_of_data
from drystone._defaults import DEFENSIVE, ERROR, POINTS_OF_LIKELIHOODS
from drystone.errors import ConvergenceWarning, IntractableError, SamplingError
from drystone.likelihood.member import CheckedLikelihood, LikelihoodMember, checked_likelihoods
from drystone.likelihood.proposal import DefensiveMixture, Proposal, adapted, as_proposal
from drystone.likelihood.report import NormalizationReport, pareto_shape
from drystone.likelihood.weights import (
    effective_points,
    log_sum,
    log_total,
    moved_apart,
    normalized_weights,
    resampled,
    weighted_quantiles,
)
from drystone.simulation.prior import Prior, as_prior

__all__ = ["NormalizedMember", "Normalizer", "normalize"]

# The most points at a row, in units of ``draws``.
CAP = 16
# Effective points that ranks and moments should rest on, and below which draws are not to be relied on.
ENOUGH, TOO_FEW = 100.0, 10.0
# Effective points that a density should rest on, in units of 1/error: its mean width is then a fifth of that.
PER_ERROR = 5.0
# Points that tell how many are needed at a row.
PILOT = 250
# The fewest points for each effective one that draws should rest on.
PER_EFFECTIVE = 4
# Bytes of points that are kept for the next likelihood or the next call, and rows whose proposal is kept when the
# points are not: every likelihood passes over all rows of a table, and pilots cost more than points.
CACHE, ROWS = 2**28, 10_000


def normalize(
    likelihoods: Mapping[str, LikelihoodMember] | Sequence[LikelihoodMember],
    *,
    prior: object,
    proposal: object = None,
    draws: int = POINTS_OF_LIKELIHOODS,
    defensive: float = DEFENSIVE,
    error: float = ERROR,
    seed: int = 0,
) -> dict[str, NormalizedMember]:
    """Make ordinary members of likelihoods: normalized posteriors, by name.

    All likelihoods share their points. What a member says of (θ, y) depends on θ, y, the likelihoods and ``seed``
    alone: not on the other rows of a call, nor on their order. A likelihood that raises or gives NaN has no part
    in the search for points. Where one hangs or ends its process, :func:`drystone.tabulate` with ``time_limit`` or
    several ``workers`` leaves it out and searches without it.

    Args:
        likelihoods: anything with ``log_likelihood(theta, y) -> (N,)`` for paired rows, up to a term in y.
        prior: p(θ): anything with ``log_prob`` and ``sample`` (ours, torch's, sbi's), or a (lower, upper) pair for
            a uniform one.
        proposal: posterior to draw points from: a stacked posterior, a member, or members; None for the prior. It
            is adapted to the likelihoods at each y.
        draws: points per row, to begin with.
        defensive: share of the points that are drawn from the prior: what the others miss is seen there.
        error: difference in nats between the naive and the conservative log density that few rows should exceed:
            where pilot points say that ``draws`` points are too few for that, there are up to 16 times as many.
        seed: of all draws.

    Example:
        >>> import drystone as ds
        >>> class Exact:
        ...     def log_likelihood(self, theta, y): return -((y - theta) ** 2).sum(1) / 2
        >>> members = normalize({"exact": Exact()}, prior=ds.tasks.Normal([0.0], [1.0]))
        >>> members["exact"].log_prob(np.array([[0.5]]), np.array([[1.0]])).round(1)
        array([-0.6])
    """
    if not 0 < defensive < 1:
        raise ValueError(f"`defensive` must be in (0, 1); got {defensive}.")
    if not error > 0:
        raise ValueError(f"`error` must be positive; got {error}.")
    if draws < 10:
        raise ValueError(f"`draws` must be at least 10; got {draws}.")
    checked, ours = checked_likelihoods(likelihoods), as_prior(prior)
    shared = Normalizer(checked, ours, _parameters(ours), as_proposal(proposal), draws, defensive, error, seed)
    return {likelihood.name: NormalizedMember(shared, k) for k, likelihood in enumerate(checked)}


@dataclass(frozen=True, eq=False)
class Normalizer:
    """The likelihoods that share points, and the points at the rows of y asked for last.

    Attributes:
        likelihoods: with their names.
        prior: p(θ).
        d: number of parameters.
        proposal: q(θ|y), or None.
        draws: points per row, to begin with.
        defensive: share of the prior.
        error: in nats.
        seed: of all draws.
    """

    likelihoods: tuple[CheckedLikelihood, ...]
    prior: Prior
    d: int
    proposal: Proposal | None
    draws: int
    defensive: float
    error: float
    seed: int
    _rows: OrderedDict[tuple[int, ...], Row] = field(default_factory=OrderedDict, repr=False)
    _plans: dict[tuple[int, ...], PointPlan] = field(default_factory=dict, repr=False)
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _rows=OrderedDict(), _plans={}, _lock=threading.Lock())

    @property
    def names(self) -> list[str]:
        """Names of the likelihoods."""
        return [likelihood.name for likelihood in self.likelihoods]

    def without(self, name: str) -> dict[str, NormalizedMember]:
        """Return the members of the other likelihoods by name, as if there had not been this one."""
        others = tuple(likelihood for likelihood in self.likelihoods if likelihood.name != name)
        shared = replace(self, likelihoods=others, _rows=OrderedDict(), _plans={}, _lock=threading.Lock())
        return {likelihood.name: NormalizedMember(shared, k) for k, likelihood in enumerate(others)}

    def row(self, y: np.ndarray) -> Row:
        """Return the points at one row y (1, ...)."""
        key = entropy_of(y)
        with self._lock:
            if key in self._rows:
                self._rows.move_to_end(key)
                return self._rows[key]
            while self._rows and sum(kept.bytes for kept in self._rows.values()) > CACHE:
                forgotten, row = self._rows.popitem(last=False)
                if row.known_plan is not None and len(self._plans) < ROWS:
                    self._plans[forgotten] = row.known_plan
            self._rows[key] = Row(self, y, key, self._plans.get(key))
            return self._rows[key]


@dataclass(frozen=True)
class PointPlan:
    """What pilot points have told of a row.

    Attributes:
        mixture: r(·|y), which points are drawn from.
        shares: effective points of each likelihood per point, (K,); 0 where none explains the data.
    """

    mixture: DefensiveMixture
    shares: np.ndarray


class Row:
    """Points θ_m ~ r(·|y) at one y, drawn in stretches that double their number, and every likelihood there.

    Args:
        normalizer: the settings.
        y: the row, (1, ...).
        key: its digest, from which the seeds derive.
        plan: what pilot points have told, if it is known already.
    """

    def __init__(
        self, normalizer: Normalizer, y: np.ndarray, key: tuple[int, ...], plan: PointPlan | None
    ) -> None:
        self.normalizer, self.y, self.known_plan = normalizer, y, plan
        self._entropy = [normalizer.seed, *key]
        self._theta: list[np.ndarray] = []
        self._base: list[np.ndarray] = []
        self._log_f: dict[tuple[int, int], np.ndarray] = {}
        self._lock = threading.RLock()
        self._last: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        self.bytes = 0  # of the points and of what is known there

    @property
    def plan(self) -> PointPlan:
        """Where points are drawn, adapted to the likelihoods, and how much they are worth."""
        with self._lock:
            if self.known_plan is None:
                n = self.normalizer
                start = DefensiveMixture(n.prior, n.proposal, None, n.defensive, self.y)
                mixture = adapted(start, self._target, self._rng(0))
                theta = mixture.sample(PILOT, self._rng(_stretches(CAP) + 1))
                log_prior = n.prior.log_prob(theta)
                inside = np.isfinite(log_prior)
                log_w = np.full((len(n.likelihoods), PILOT), -np.inf)
                if inside.any():
                    log_w[:, inside] = self._log_likelihoods(theta[inside])
                log_w += log_prior - mixture.log_prob(theta, log_prior)
                shares = [effective_points(of_k) / PILOT for of_k in log_w]
                self.known_plan = PointPlan(mixture, np.nan_to_num(shares))  # NaN of those that fail
            return self.known_plan

    @property
    def mixture(self) -> DefensiveMixture:
        """r(·|y)."""
        return self.plan.mixture

    def points(self, stretches: int) -> np.ndarray:
        """Return the points of the first stretches, (m, d)."""
        self._extend(stretches)
        return np.concatenate(self._theta[:stretches])

    def log_weights(self, k: int, stretches: int) -> np.ndarray:
        """Return log w(θ_m) of likelihood k at the points of the first stretches, (m,)."""
        self._extend(stretches)
        with self._lock:
            for i in range(stretches):
                if (k, i) not in self._log_f:
                    self._log_f[k, i] = self._values(k, self._theta[i], np.isfinite(self._base[i]))
                    self.bytes += self._log_f[k, i].nbytes
        return np.concatenate([self._log_f[k, i] + self._base[i] for i in range(stretches)])

    def log_weight_at(self, k: int, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log p + f and log w at any points (m, d): (m,), (m,)."""
        log_prior, log_r = self._reference(theta)
        joint = log_prior + self._values(k, theta, np.isfinite(log_prior))
        return joint, joint - log_r

    def log_joint(self, k: int, theta: np.ndarray) -> np.ndarray:
        """Return log p + f at any points (m, d): (m,)."""
        log_prior = self.normalizer.prior.log_prob(theta)
        return log_prior + self._values(k, theta, np.isfinite(log_prior))

    def enough(self, k: int) -> int:
        """Return how many stretches likelihood k takes for enough effective points."""
        n, share = self.normalizer, self.plan.shares[k]
        wanted = max(ENOUGH, PER_ERROR / n.error) / n.draws
        return int(np.clip(1 + np.ceil(np.log2(wanted / share)), 1, _stretches(CAP))) if share else _stretches(CAP)

    def new_points(self, k: int, effective: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return points (m, d) of this call alone, and log weights (m,); so many effective ones if possible."""
        least, most = min(self.normalizer.draws, PER_EFFECTIVE * effective), CAP * self.normalizer.draws
        share = self.plan.shares[k]
        theta, base = self._drawn(int(np.clip(effective / share, least, most)) if share else most, rng)
        return theta, self._values(k, theta, np.isfinite(base)) + base

    def _extend(self, stretches: int) -> None:
        with self._lock:
            for i in range(len(self._theta), stretches):
                n = self.normalizer.draws * (1 if i == 0 else 2 ** (i - 1))
                theta, base = self._drawn(n, self._rng(i + 1))
                self._theta.append(theta)
                self._base.append(base)
                self.bytes += theta.nbytes + base.nbytes

    def _drawn(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return n points, (n, d), and log p − log r there, (n,)."""
        theta = self.mixture.sample(n, rng)
        log_prior = self.normalizer.prior.log_prob(theta)
        return theta, log_prior - self.mixture.log_prob(theta, log_prior)

    def _reference(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log p and log r at any points (m, d): (m,), (m,); kept for the next likelihood."""
        with self._lock:
            if self._last is None or not np.array_equal(self._last[0], theta):
                log_prior = self.normalizer.prior.log_prob(theta)
                self._last = theta.copy(), log_prior, self.mixture.log_prob(theta, log_prior)
            return self._last[1:]

    def _values(self, k: int, theta: np.ndarray, inside: np.ndarray) -> np.ndarray:
        """Return f of likelihood k, asked only where the prior is positive."""
        values = np.full(len(theta), -np.inf)
        if inside.any():
            values[inside] = self.normalizer.likelihoods[k].at(theta[inside], self.y)
        return values

    def _target(self, theta: np.ndarray) -> np.ndarray:
        """Return log p(θ) Σ_k e^{f_k} / Z_k up to a constant: every likelihood that does not fail counts alike."""
        log_f = self._log_likelihoods(theta)
        log_f = log_f[~np.isnan(log_f[:, 0])]
        log_z = log_sum(log_f.T)
        log_f -= np.where(np.isfinite(log_z), log_z, 0.0)[:, None]
        return self.normalizer.prior.log_prob(theta) + log_sum(log_f)

    def _log_likelihoods(self, theta: np.ndarray) -> np.ndarray:
        """Return f_k at points (m, d), (K, m); NaN for those that fail, but an error if all do."""
        values, failed = np.full((len(self.normalizer.likelihoods), len(theta)), np.nan), None
        for of_k, likelihood in zip(values, self.normalizer.likelihoods, strict=True):
            try:
                of_k[:] = likelihood.at(theta, self.y)
            except (Exception, SystemExit) as error:  # it fails again when it is asked for itself
                failed = error
        if failed is not None and np.isnan(values[:, 0]).all():
            raise failed
        return values

    def _rng(self, stage: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self._entropy, spawn_key=(stage,)))


@dataclass(frozen=True, eq=False)
class NormalizedMember:
    """A likelihood as an ordinary member, with a conservative density.

    Attributes:
        normalizer: the points and the likelihoods that share them.
        k: which of them it is.
    """

    normalizer: Normalizer
    k: int

    @property
    def name(self) -> str:
        """Name of the likelihood."""
        return self.normalizer.likelihoods[self.k].name

    @property
    def prior(self) -> Prior:
        """The prior p(θ)."""
        return self.normalizer.prior

    @property
    def normalized_in_y(self) -> bool:
        """Whether the likelihood is a normalized density of y."""
        return self.normalizer.likelihoods[self.k].normalized_in_y

    @property
    def needs_finite_y(self) -> bool:
        """Whether the likelihood is known to give NaN where y is NaN or infinite."""
        return bool(getattr(self.normalizer.likelihoods[self.k].member, "needs_finite_y", False))

    def log_likelihood(self, theta: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Return f(θ_n, y_n) for paired rows theta (N, d), y (N, ...): (N,); −inf where the prior is 0."""
        theta, y = self._paired(theta, y)
        values, inside = np.full(len(theta), -np.inf), np.isfinite(self.prior.log_prob(theta))
        for one_y, rows in distinct_rows(y):
            chosen = rows[inside[rows]]
            if len(chosen):
                values[chosen] = self.normalizer.likelihoods[self.k].at(theta[chosen], one_y)
        return values

    def proposal(self, y: np.ndarray) -> DefensiveMixture:
        """Return the distribution that the points at one row y (1, ...) are drawn from."""
        return self.normalizer.row(y).mixture

    def log_prob(self, theta: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Return the conservative log q(θ_n | y_n) for paired rows theta (N, d), y (N, ...): (N,)."""
        return self.bracket(theta, y)[0]

    def bracket(self, theta: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return the conservative and the naive log density, between which the exact one lies on average."""
        theta, y = self._paired(theta, y)
        conservative, naive = np.empty(len(theta)), np.empty(len(theta))
        for one_y, rows in distinct_rows(y):
            conservative[rows], naive[rows] = self._at_row(self.normalizer.row(one_y), theta[rows])
        return conservative, naive

    def _paired(self, theta: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return theta (N, d) and y (N, ...) row by row; a single row of y is that of all."""
        theta, y, d = np.asarray(as_numpy(theta), float), rows_of_data("y", y), self.normalizer.d
        if theta.ndim != 2 or theta.shape[1] != d:
            raise ValueError(f"`theta` must have shape (N, d) = (N, {d}), as the prior has; got {theta.shape}.")
        if len(y) == 1:
            y = np.broadcast_to(y, (len(theta), *y.shape[1:]))
        if len(y) != len(theta):
            raise ValueError(f"`y` must have one row per row of `theta`, {len(theta)}, or one; got {len(y)}.")
        return theta, y

    def _at_row(self, row: Row, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        joint, log_w = row.log_weight_at(self.k, theta)
        conservative, naive = np.full(len(theta), -np.inf), np.full(len(theta), -np.inf)
        # NaN where the prior is 0: the density there is 0 whatever the points say.
        inside = np.isfinite(joint)
        if inside.any():
            of_points = row.log_weights(self.k, row.enough(self.k))
            m, total = len(of_points), log_total(of_points)
            naive[inside] = joint[inside] - (total - np.log(m))
            conservative[inside] = joint[inside] - (np.logaddexp(total, log_w[inside]) - np.log(m + 1))
        return conservative, naive

    def weighted_points(self, y: ArrayLike) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield for each row of y (N, ...) points (m, d) and their weights (m,), which sum to one.

        Ranks, means and quantiles come from these: resampling would only add noise.
        """
        for one_y in _rows(y):
            points, log_w = self._points(one_y)
            yield points, normalized_weights(log_w)

    def quantiles_of_points(self, y: ArrayLike, levels: Sequence[float]) -> np.ndarray:
        """Return quantiles at some levels for each row of y (N, ...), (levels, N, d)."""
        return np.stack([weighted_quantiles(points, w, levels) for points, w in self.weighted_points(y)], 1)

    def _points(self, one_y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return points (m, d) at one row y (1, ...), enough effective ones if possible, and log weights (m,)."""
        row = self.normalizer.row(one_y)
        stretches = row.enough(self.k)
        return row.points(stretches), row.log_weights(self.k, stretches)

    def sample(self, n: int, y: ArrayLike, seed: int | None = None) -> np.ndarray:
        """Return n draws for each row of y (N, ...): (n, N, d).

        Points are resampled by weight; Metropolis steps on the member's own density then move repeats apart. They
        are not those of the density, which are the same in every call: draws of two calls, or of two rows with the
        same y, are independent.
        """
        rng = np.random.default_rng(seed)
        drawn, poor = [], 0
        for one_y in _rows(y):
            row = self.normalizer.row(one_y)
            points, log_w = row.new_points(self.k, max(ENOUGH, n / 2), rng)
            if log_w.max() == -np.inf:
                raise SamplingError(
                    f"{self.name!r} has likelihood 0 at all {len(log_w)} points of row {len(drawn)} of y: it "
                    "explains these data nowhere within the prior, or the proposal misses where it does."
                )
            poor += effective_points(log_w) < TOO_FEW
            drawn.append(self._resampled(row, points, log_w, n, rng))
        if poor:
            warnings.warn(
                f"the draws of {self.name!r} rest on fewer than {TOO_FEW:g} effective points at {poor} of "
                f"{len(drawn)} rows of y: give ds.normalize a better `proposal`, or more `draws`.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return np.stack(drawn, 1)

    def _resampled(
        self, row: Row, points: np.ndarray, log_w: np.ndarray, n: int, rng: np.random.Generator
    ) -> np.ndarray:
        chosen = resampled(normalized_weights(log_w), n, rng)
        theta, kernels = points[chosen], row.mixture.kernels
        if kernels is not None and (chosen[1:] == chosen[:-1]).any():

            def steps() -> np.ndarray:
                scale = rng.choice(len(kernels.shares), size=n, p=kernels.shares)
                return kernels.steps(scale, rng) / np.sqrt(theta.shape[1])

            theta = moved_apart(theta, lambda points: row.log_joint(self.k, points), steps, rng)
        return rng.permutation(theta)

    def log_evidence(self, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return log ∫ p(θ) q(y|θ) dθ at each row of y (N, ...) and its standard error: (N,), (N,).

        The error is that of the integral over θ. Likelihoods of counts that Drystone trained are themselves known
        to some tenths of a nat only (:class:`drystone.training.likelihood.TrainedLikelihood`).
        """
        if not self.normalizer.likelihoods[self.k].normalized_in_y:
            raise IntractableError(
                f"{self.name!r} is not a normalized density of y (a ratio, or a likelihood up to a term in y), so "
                "it has no evidence. If it is one, say so: from_likelihood(f, normalized_in_y=True)."
            )
        values, errors = [], []
        for one_y in _rows(y):
            _, log_w = self._points(one_y)
            values.append(log_total(log_w) - np.log(len(log_w)))
            effective = effective_points(log_w)
            errors.append(np.sqrt(max(1 / effective - 1 / len(log_w), 0.0)) if effective else np.inf)
        return np.array(values), np.array(errors)

    def report(self, y: ArrayLike, theta: ArrayLike | None = None) -> NormalizationReport:
        """Return how well the member is normalized at each row of y (N, ...).

        Args:
            y: the data.
            theta: the parameters behind them, (N, d), if they are simulations: then the report has ``width``,
                which is large where the points miss what is true. Nothing else shows that.
        """
        effective, shape, points = [], [], []
        for one_y in _rows(y):
            _, log_w = self._points(one_y)
            effective.append(effective_points(log_w))
            shape.append(pareto_shape(log_w))
            points.append(len(log_w))
        width = None
        if theta is not None:
            conservative, naive = self.bracket(theta, y)
            # Where the density is 0 so is the posterior, whatever the points say.
            with np.errstate(invalid="ignore"):
                width = np.where(conservative == -np.inf, 0.0, naive - conservative)
        return NormalizationReport(np.array(effective), np.array(shape), np.array(points), width)


def _parameters(prior: Prior) -> int:
    """Return the number of parameters of a prior, whose draws and densities are looked at for that."""
    drawn = np.asarray(prior.sample(2, np.random.default_rng(0)))
    if drawn.ndim != 2 or len(drawn) != 2:
        raise ValueError(f"`prior.sample(n, rng)` must give shape (n, d); got {drawn.shape} for n = 2.")
    if (shape := np.shape(prior.log_prob(drawn))) != (2,):
        raise ValueError(f"`prior.log_prob(theta)` must give shape (N,) for theta (N, d); got {shape} for N = 2.")
    return drawn.shape[1]


def _stretches(cap: int) -> int:
    """Return how many stretches make ``cap`` times the points: 1, 1, 2, 4, … of them."""
    return 1 + int(np.log2(cap))


def _rows(y: ArrayLike) -> Iterator[np.ndarray]:
    """Yield the rows of y, (1, ...) each."""
    data = rows_of_data("y", y)
    return (data[n : n + 1] for n in range(len(data)))
