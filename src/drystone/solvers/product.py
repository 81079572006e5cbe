r"""Product × log score, exactly, given the points: Newton's method on a log-sum-exp.

.. math::
    f(w) = \sum_n a_n \Big[ \log \sum_m e^{b_{nm} + w \cdot G_{nm}} - (b_{n1} + w \cdot G_{n1}) \Big] + \dots,

    b = \log p - \log r, \quad G_k = \log q_k - \log p

(of likelihoods :math:`G_k = \log q_k(y \mid \theta)`; without the prior :math:`b = -\log r, \; G_k = \log q_k`,
and Σw = 1).
Convex: with the weights π_nm of the points, ∇f = Σ a_n (E_π G − G_n1) and ∇²f = Σ a_n Cov_π G.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from drystone._messages import count_and_first_few, first_few
from drystone.forms import Form, LikelihoodMixture, Mixture, PointForm, Product
from drystone.forms.points import PointView, are_likelihoods, stretches
from drystone.forms.product import log_ratio
from drystone.likelihood.weights import log_sum
from drystone.scores import LogScore, Score
from drystone.solvers.log_score import SQP
from drystone.solvers.nonnegative import newton_nonnegative
from drystone.solvers.simplex.newton import drop_negligible_weights, newton_simplex
from drystone.solvers.simplex.row_sum import RowSum
from drystone.solvers.solver import Solution, Solver, Status
from drystone.table import Table, blocks

__all__ = ["LikelihoodSQP", "ProductNewton"]

# A density of 0 at a point other than the truth, in nats below the member's highest at that row. The product there
# is 0 as soon as the member has a weight to speak of.
ZERO = 1000.0
# A point is beyond the prior's reach if log p − log r is so many nats below the row's highest. Where a member's
# tails are heavier than the prior's, log q_k − log p has no upper limit there.
BEYOND_PRIOR = 50.0
# Effective points below which the normalization of a row is poor.
TOO_FEW = 10
# Most numbers of G that are held from one step to the next: half a gigabyte.
CACHED = 2**26

Stretch = tuple[np.ndarray, np.ndarray, slice]


class _OnlyLogScore(Solver[PointForm, LogScore]):
    """A solver of a form that is fitted by the log score alone."""

    certifies: ClassVar = True
    streams: ClassVar = True

    def unsupported_reason(self, form: Form, score: Score) -> str:
        """Return why it cannot solve this pair, or an empty text."""
        if not super().unsupported_reason(form, score):
            return ""
        (solved, _) = self.solves[0]
        if not isinstance(form, solved):
            return f"it is made for {solved.__name__}"
        return f"{solved.__name__} is fitted by LogScore alone; fit.evaluate(table, score) evaluates others"


@dataclass(frozen=True, repr=False)
class ProductNewton(_OnlyLogScore):
    """Newton steps on the weights, each with a quadratic program for those that stay at 0.

    Args:
        steps: at most so many Newton steps.

    Example:
        >>> import drystone as ds
        >>> theta, y = ds.toy.simulate(50, seed=1)
        >>> table = ds.tabulate(ds.toy.MEMBERS, theta, y, draws=0, points=100)
        >>> fit = ds.stack(table, ds.Product(simplex=True), solver=ds.solvers.ProductNewton(steps=50))
        >>> fit.status.name, fit.iterations < 50
        ('CERTIFIED', True)
    """

    solves: ClassVar = ((Product, LogScore),)
    steps: int = 200

    def minimize(self, table: Table, form: PointForm, score: LogScore, tol: float, seed: int) -> Solution:
        """Return the optimal weights at the points, and their certificate."""
        assert isinstance(form, Product)
        own = blocks.with_own_cache(table)  # what is computed below goes with the fit
        impossible, constant = _unusable(own, form.prior_share)
        usable = np.flatnonzero(~impossible & (~constant | form.simplex))
        note = ""
        if impossible.any():
            names = first_few([table.names[k] for k in np.flatnonzero(impossible)])
            note = f"without weight, because their density is 0 at the truth of a row: {names}. "
        if impossible.all():
            raise ValueError(f"no member can be in a product: {note}")
        if not len(usable):
            note += "No member says anything of θ within the prior: the product is the prior. "
            weights = np.zeros(table.K)
            note += monte_carlo_error(table, form, weights)
            return Solution({"weights": weights}, 0.0, 0.0, Status.CERTIFIED, 0, note)
        part = table.select(members=usable) if len(usable) < table.K else own
        problem = RowSum(part, _derivatives, 1, form.prior_share)
        start = np.full(part.K, 1 / part.K)
        if form.simplex:
            minimum = drop_negligible_weights(problem, newton_simplex(problem, start, tol, self.steps), tol)
        else:
            minimum = newton_nonnegative(problem, start, tol, self.steps)
        weights = np.zeros(table.K)
        weights[usable] = minimum.weights
        solution = Solution.certified(minimum, tol, self.steps)
        if not np.isfinite(minimum.gap):
            note += "The optimum may be at infinity: more rows or points would hold it. "
        note += monte_carlo_error(table, form, weights)
        return replace(solution, params={"weights": weights}, note=note)


@dataclass(frozen=True, repr=False)
class LikelihoodSQP(_OnlyLogScore):
    """Weights of the best mixture of densities of y, by :class:`SQP` on log q_k(y_n | θ_n).

    Example:
        >>> import drystone as ds, scipy.stats
        >>> theta, y = ds.toy.simulate(10, seed=1)
        >>> def noise(sd): return ds.adapters.from_likelihood(
        ...     lambda theta, y: scipy.stats.norm.logpdf(y, 0.9 * theta, sd)[:, 0], normalized_in_y=True)
        >>> members = ds.normalize([noise(0.5), noise(1.5)], prior=ds.tasks.Normal([0.0], [3.2]), error=0.5)
        >>> table = ds.tabulate(members, theta, y, draws=0, points=100)
        >>> ds.stack(table, ds.LikelihoodMixture(), solver=ds.solvers.LikelihoodSQP()).status.name
        'CERTIFIED'
    """

    solves: ClassVar = ((LikelihoodMixture, LogScore),)

    def minimize(self, table: Table, form: PointForm, score: LogScore, tol: float, seed: int) -> Solution:
        """Return the optimal weights, and their certificate as a mixture of densities of y."""
        log_f = np.concatenate(list(blocks.each(table, _own)), 1)
        if (empty := np.flatnonzero((log_f == -np.inf).all(0))).size:
            raise ValueError(f"no likelihood explains y at rows {count_and_first_few(empty)} of {table.N}.")
        of_data = Table(np.zeros((table.N, 1)), log_q=log_f, row_weights=table.row_weights, names=table.names)
        solution = SQP().minimize(of_data, Mixture(), score, tol, seed)
        note = "the certificate is of the mixture of densities of y; " + monte_carlo_error(
            table, form, solution.params["weights"]
        )
        return replace(solution, note=note)


def monte_carlo_error(table: Table, form: PointForm, weights: np.ndarray) -> str:
    """Return how well the rows are normalized at these weights, in words.

    The error of log Ẑ at a row is that of a mean of weights, 1/ESS − 1/M; the estimate with the row's own point
    and the one without it bracket the truth on average.
    """
    rows = np.concatenate(list(blocks.each(table, _normalization, form, weights)), 1)
    effective, width, a = rows
    M = int(table.select(rows=[0]).log_r.shape[1]) - 1
    variance = np.maximum(1 / effective - 1 / (M + 1), 0.0)
    error = np.sqrt((a**2 * variance).sum())
    missed = np.flatnonzero(~np.isfinite(width))
    # The row's own point may weigh less than the others on average: then the two are in the other order.
    bound = max(a @ np.where(np.isfinite(width), width, 0.0), 0.0)
    poor = int((effective < TOO_FEW).sum())
    words = (
        f"Normalized at {M} points per row: the loss has a Monte Carlo standard error of {error:.1g} and errs "
        f"high, by at most {bound:.1g} on average; effective points {np.median(effective):.0f} (median), below "
        f"{TOO_FEW} at {poor} of {len(a)} rows."
    )
    if missed.size:
        words += f" No point but its own explains {count_and_first_few(missed)} of the rows."
    return words


def _normalization(block: Table, form: PointForm, weights: np.ndarray) -> np.ndarray:
    """Return effective points, log Ẑ⁺ − log Ẑ without the row's own point, and row weights, (3, N)."""
    log_w = PointView(form, weights, block).log_weights[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        total, others = log_sum(log_w.T), log_sum(log_w.T[1:])
        effective = 1 / (np.exp(log_w - total[:, None]) ** 2).sum(1)
        M = log_w.shape[1]
        width = (total - np.log(M)) - (others - np.log(M - 1))
    return np.stack([effective, width, block.row_weights])


def _own(block: Table) -> np.ndarray:
    """Return log q_k(y_n | θ_n), (K, N)."""
    return block.log_f[:, :, 0]


def _unusable(table: Table, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Return which members have density 0 at the truth of a row, and which say nothing of θ, (K,) of bool each.

    Rows whose truth has prior density 0 are an error that names them.
    """
    impossible, varies, outside, before = np.zeros(table.K, bool), np.zeros(table.K, bool), [], 0
    for of_block, of_members, rows, n in blocks.each(table, _unusable_in_block, share):
        impossible, varies = impossible | of_block, varies | of_members
        outside.extend(rows + before)
        before += n
    if outside:
        raise ValueError(
            f"the prior is 0 at the true parameters of rows {count_and_first_few(outside)} of {table.N}: it is "
            "not the prior of these simulations."
        )
    return impossible, ~varies


def _unusable_in_block(block: Table, share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    impossible, varies, outside = np.zeros(block.K, bool), np.zeros(block.K, bool), np.empty(0, int)
    for G, b, _ in _stretches(block, share):
        spread = np.ptp(np.where(_within_prior(b), G, G[:, :, :1]), axis=2)
        varies |= (spread > 1e-10).any(1)
        impossible |= (G[:, :, 0] == -np.inf).any(1)
    if block.log_prior is not None:
        outside = np.flatnonzero(block.log_prior[:, 0] == -np.inf)
    return impossible, varies, outside, block.N


def _within_prior(b: np.ndarray) -> np.ndarray:
    """Return which points (n, M) the prior reaches, given b = log p − log r there."""
    return b >= b.max(1, keepdims=True) - BEYOND_PRIOR


def _stretches(block: Table, share: float) -> Iterable[Stretch]:
    """Return G (K, n, M) and b (n, M) of stretches of rows that fit into memory, and where these are."""
    if not blocks.in_memory(block) or block.K * block.log_r.size > CACHED:
        return _computed(block, share)
    return blocks.cached(block, _all_computed, share)


def _all_computed(block: Table, share: float) -> list[Stretch]:
    return list(_computed(block, share))


def _computed(block: Table, share: float) -> Iterator[Stretch]:
    likelihood = are_likelihoods(block)
    for values, part in stretches(block):
        if share:
            values = replace(values, log_z=values.log_evidence(likelihood))
        G = np.stack([log_ratio(k, values, likelihood, share) for k in range(block.K)])
        b = -values.log_r
        if values.log_prior is not None:
            with np.errstate(invalid="ignore"):  # r may be 0 where the prior is
                b = np.where(values.log_prior == -np.inf, -np.inf, values.log_prior - values.log_r)
        highest = np.where(_within_prior(b), G, -np.inf).max(2, keepdims=True)
        lowest = np.where(np.isfinite(highest), highest, G.max(2, keepdims=True)) - ZERO
        # The truth keeps its density, however low: else a member that is far from it would seem to cost nothing.
        np.maximum(G[:, :, 1:], lowest, out=G[:, :, 1:])
        yield G, b, part


def _derivatives(block: Table, w: np.ndarray, orders: range, members: np.ndarray, share: float) -> tuple[Any, ...]:
    """Return f, ∇f and ∇²f at ``members``, of which ``orders`` are asked for."""
    value, gradient, hessian = 0.0, np.zeros(block.K), np.zeros((len(members), len(members)))
    for G, b, part in _stretches(block, share):
        a = block.row_weights[part]
        z = b + np.tensordot(w, G, 1)
        own, highest = z[:, 0].copy(), z.max(1)
        pi = np.exp(np.subtract(z, highest[:, None], out=z), out=z)
        total = pi.sum(1)
        log_z = highest + np.log(total)
        value += float(a @ (log_z - own - block.log_r[part][:, 0] - np.log(z.shape[1])))
        if orders.stop <= 1:
            continue
        pi /= total[:, None]
        mean = np.einsum("knm,nm->kn", G, pi)
        gradient += (mean - G[:, :, 0]) @ a
        if 2 in orders:
            centered = (G[members] - mean[members][:, :, None]) * np.sqrt(a[:, None] * pi)
            flat = centered.reshape(len(members), -1)
            hessian += flat @ flat.T
    return tuple((value, gradient, hessian)[order] for order in orders)
