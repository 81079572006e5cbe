r"""Mixture × anything differentiable: several starts, projected gradients, then Newton on the support.

Used for scores without an exact solver, for sums, and for a user's own scores, and forms with weights on the
simplex. Derivatives are automatic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any, ClassVar

import numpy as np
import torch

from drystone.forms import Form, Mixture, SimplexForm
from drystone.scores import LogScore, Score
from drystone.solvers.log_score import SQP
from drystone.solvers.quadratic import NOISE, energy_noise
from drystone.solvers.simplex.newton import (
    Barrier,
    Minimum,
    Problem,
    drop_negligible_weights,
    frank_wolfe_gap,
    newton_simplex,
)
from drystone.solvers.simplex.row_sum import RowSum, coarse
from drystone.solvers.solver import Solution, Solver, Status, differentiable, needs_critic, tolerance, unit_of_loss
from drystone.table import Table, blocks

__all__ = ["ProjectedGradient", "differentiated", "simplex_starts", "single_member_scores", "soft_width"]

# A search on a score with kinks: the longest steps on the simplex of its rounds in turn (short ones get stuck on
# some problems, long ones waste values on others), the shortest, and how many values a round takes until gradients
# go on. A value takes time in proportion to the table, so that large ones are searched less: in all by
# VALUES_TIMES_SIZE over the size K·N·d, but by no fewer and no more than some.
LONGEST, SHORTEST, VALUES_OF_A_ROUND = (0.1, 0.25), 0.0005, 600
VALUES_TIMES_SIZE, FEWEST_VALUES, MOST_VALUES = 2e7, 300, 1800
# Gradient steps before the search, and after each round of it.
POLISH = 50
# Small tables, of few rows or draws, have many minima: half of their values go to searches from all starts, these
# random ones among them.
RANDOM_STARTS = 4


def simplex_starts(table: Table, best: int, n: int, seed: int) -> list[np.ndarray]:
    """Return ``n`` weight vectors: uniform, the ``best`` member, the log-score solution if any, random ones.

    The best member is moved a little inside, since a member at exactly 0 has no first-order effect on some scores.
    """
    K = table.K
    uniform = np.full(K, 1 / K)
    starts = [uniform, 0.99 * np.eye(K)[best] + 0.01 * uniform]
    if table.has("log_q").all() and blocks.total(table, _not_finite) == (0,):
        starts.append(SQP().solve(table, Mixture(), LogScore(), 1e-6, seed).params["weights"])
    rng = np.random.default_rng(seed)
    starts.extend(rng.dirichlet(np.ones(K)) for _ in range(n - len(starts)))
    return starts[: max(n, 1)]


def single_member_scores(table: Table, score: Score, form: SimplexForm = Mixture()) -> np.ndarray:
    """Return the score of each member alone, (K,)."""
    return blocks.total(table, _single_member_scores, score, form)[0]


def _best_alone(table: Table, score: Score, form: SimplexForm) -> int:
    """Return the member that is best alone; any, if none has a score."""
    scores = single_member_scores(table, score, form)
    return int(np.argmin(np.where(np.isnan(scores), np.inf, scores)))


def _single_member_scores(block: Table, score: Score, form: SimplexForm) -> tuple[np.ndarray]:
    whole = torch.ones(1, dtype=torch.float64)
    with torch.no_grad():
        views = (form.combine({"weights": whole}, blocks.part(block, [k])) for k in range(block.K))
        return (np.array([float(score(view)) for view in views]),)


def _not_finite(block: Table) -> tuple[int]:
    return (block.log_q.size - int(np.isfinite(block.log_q).sum()),)


def differentiated(table: Table, form: Form, score: Score, softness: torch.Tensor | float = 0.0) -> RowSum:
    """Return the score of a mixture as a function of its weights, differentiated by torch.

    In memory the gradient comes with the value where it is used: that of a score with kinks, unsoftened, is not.
    """
    used = score.smooth or bool(torch.as_tensor(softness).any())
    together = int(used and blocks.in_memory(table))
    return RowSum(table, _derivatives, together, form, score, softness)


def _derivatives(
    block: Table,
    w: np.ndarray,
    orders: range,
    members: np.ndarray,
    form: Form,
    score: Score,
    softness: torch.Tensor | float,
) -> tuple[Any, ...]:
    """Return S(w), ∇S(w), and ∇²S(w), one row per member."""
    weights = torch.as_tensor(w).requires_grad_(max(orders) > 0)
    view = form.combine({"weights": weights}, block, softness)
    # Of one member, and of a score that is searched, the value may be the same for all weights.
    must_have_gradient = max(orders) > 0 and score.smooth and len(w) > 1
    value = differentiable(score, view) if must_have_gradient else score(view)
    found: list[Any] = [float(value.detach())] if 0 in orders else []
    if max(orders) > 0:
        gradient = torch.zeros_like(weights, requires_grad=False)
        if value.requires_grad:
            (gradient,) = torch.autograd.grad(value, weights, create_graph=2 in orders)
        if 1 in orders:
            found.append(gradient.detach().numpy())
        if 2 in orders:
            found.append(_hessian(gradient, weights, members))
    return tuple(found)


def _hessian(gradient: torch.Tensor, weights: torch.Tensor, members: np.ndarray) -> np.ndarray:
    if not gradient.requires_grad:  # linear in w
        return np.zeros((len(members), len(members)))
    rows = [torch.autograd.grad(gradient[k], weights, retain_graph=True)[0] for k in members]
    H = torch.stack(rows)[:, members].numpy()
    return (H + H.T) / 2


@dataclass(frozen=True, repr=False)
class ProjectedGradient(Solver[SimplexForm, Score]):
    """Spectral projected gradient (Birgin, Martínez & Raydan 2000) from several starts, then Newton from the best.

    For a mixture and a convex score the Frank–Wolfe gap is the certificate; otherwise it only says how stationary
    the result is.

    Args:
        starts: how many; one is enough for a mixture and a convex score, and is then all that is used.
        steps: projected gradient steps per start.
        newton: at most so many Newton steps from the best.

    Example:
        >>> import drystone as ds
        >>> score, solver = ds.LogScore() + ds.EnergyScore(), ds.solvers.ProjectedGradient(starts=2)
        >>> fit = ds.stack(ds.toy.table(200, seed=1), score=score, solver=solver)
        >>> fit.status.name, fit.gap < 1e-7  # a sum of convex scores is convex
        ('CERTIFIED', True)
    """

    handles: ClassVar = (SimplexForm,)
    streams: ClassVar = True
    starts: int = 5
    steps: int = 100
    newton: int = 50

    def unsupported_reason(self, form: Form, score: Score) -> str:
        """Return why it cannot solve this pair, or an empty text."""
        return needs_critic(score) or super().unsupported_reason(form, score)

    def minimize(self, table: Table, form: SimplexForm, score: Score, tol: float, seed: int) -> Solution:
        """Return the best stationary point found."""
        exact = differentiated(table, form, score)
        problem: Problem = exact if score.smooth else differentiated(table, form, score, soft_width(table))
        c = form.pseudocount(table)
        if c > 0:
            c *= unit_of_loss(score, exact.value(np.full(table.K, 1 / table.K)))
            problem = Barrier(problem, c)
        needs = {form.requires(need) for need in score.needs}
        few = coarse(table, needs) if self.in_blocks(score) else None
        if few is None:
            best = self._approach(problem, table, form, score, c, tol, seed)
        else:
            of_few = self.minimize(few, form, score, max(tol, 1e-6), seed)
            best = Minimum(0.999 * of_few.params["weights"] + 0.001 / table.K, np.inf, of_few.iterations)
        # Relative to a loss near the one that is reached, not to that of weights nobody would choose.
        tol = tolerance(tol, score, exact.value(best.weights))
        if not score.smooth:  # curvature means nothing at kinks
            return _kinked(Barrier(exact, c) if c > 0 else exact, best, table, form, score, seed)
        minimum = newton_simplex(problem, best.weights, tol, self.newton)
        if c == 0:
            minimum = drop_negligible_weights(problem, minimum, tol)
        taken = best.iterations + minimum.iterations
        convex = _convex(form, score)
        noise = energy_noise(table, score) if convex else 0.0
        gap = minimum.gap + noise if convex else None
        at_limit = minimum.iterations >= self.newton
        status = Status.of(minimum.gap, tol, certified=convex, at_limit=at_limit)
        note = ""
        if noise > 0:
            note = NOISE.format(noise)
            status = Status.NOISE_FLOOR if status.converged else status
        return Solution({"weights": minimum.weights}, gap, minimum.gap, status, taken, note)

    def _approach(
        self, problem: Problem, table: Table, form: SimplexForm, score: Score, c: float, tol: float, seed: int
    ) -> Minimum:
        """Return the best end of projected gradients from several starts."""
        starts = simplex_starts(table, _best_alone(table, score, form), self.starts, seed)
        if c > 0:
            starts = [0.9 * start + 0.1 / table.K for start in starts]
        starts = [start for start in starts if np.isfinite(problem.value(start))]
        if not starts:
            meaning = "; ".join(term.infinite for _, term in score.terms if term.infinite)
            raise ValueError(f"{score!r} is infinite or NaN at every start: {meaning or 'it has no value'}.")
        if _convex(form, score) or not score.smooth:  # one minimum; or steps that cost too much to go several ways
            starts = [min(starts, key=problem.value)]
        steps = self.steps if score.smooth else self.steps // 4
        tol = tolerance(tol, score, min(map(problem.value, starts)))
        ends = [_projected_gradient(problem, start, tol, steps) for start in starts]
        return min(ends, key=lambda end: problem.value(end.weights))


def _convex(form: SimplexForm, score: Score) -> bool:
    """Return whether there is one minimum: scores say whether they are convex in the weights of a mixture."""
    return form.is_mixture and score.convex


def _kinked(exact: Problem, end: Minimum, table: Table, form: SimplexForm, score: Score, seed: int) -> Solution:
    """Return the result for a softened score: never worse, unsoftened, than one member or uniform weights.

    Where a score has kinks its slope jumps, so nothing can be asked of its stationarity.
    """
    vertex, uniform = np.eye(table.K)[_best_alone(table, score, form)], np.full(table.K, 1 / table.K)

    def polished(w: np.ndarray) -> np.ndarray:
        if not np.isfinite(exact.value(w)):  # a vertex, where a prior on the weights has no slope
            return w
        # Gradients of the exact score, a mean over many kinks, still tell the way; they end in a bend.
        return min((w, _projected_gradient(exact, w, 0.0, POLISH).weights), key=exact.value)

    with np.errstate(divide="ignore"):
        starts = [polished(w) for w in (end.weights, uniform, vertex)]
        rng, left = np.random.default_rng(seed), VALUES_TIMES_SIZE / (table.K * table.N * table.d)
        left = int(np.clip(left, FEWEST_VALUES, MOST_VALUES))
        if left == MOST_VALUES:
            starts.extend(rng.dirichlet(np.ones(table.K), RANDOM_STARTS))
            each = left // (2 * len(starts))
            searched = [_compass_search(exact, w, each, rng, max(LONGEST)) for w in starts]
            starts, left = [polished(w) for w, _ in searched], left - sum(taken for _, taken in searched)
        weights, rounds, in_vain = min(starts, key=exact.value), cycle(LONGEST), 0
        while left > 0 and in_vain < len(LONGEST):
            value = exact.value(weights)
            reached, taken = _compass_search(exact, weights, min(left, VALUES_OF_A_ROUND), rng, next(rounds))
            weights, left = polished(reached), left - taken
            in_vain = 0 if exact.value(weights) < value else in_vain + 1
        weights = _without_small(exact, weights)
    note = (
        "found by projected gradients on a softened score, then gradients and a search on the exact one: good, "
        "not certified, not the last digit."
    )
    return Solution({"weights": weights}, None, end.gap, Status.CONVERGED, end.iterations, note)


def _compass_search(
    problem: Problem, w: np.ndarray, most: int, rng: np.random.Generator, longest: float
) -> tuple[np.ndarray, int]:
    """Move weight from one member to another, or to one from all, while that lowers the value; then less of it.

    Returns the weights and how many values it took, at most ``most``.
    """
    value, step, left = problem.value(w), longest, most - 1
    while step >= SHORTEST and left > 0:
        lowered = False
        moves = list(_moves(w))
        for k in rng.permutation(len(moves))[:left]:
            moved = w + step * moves[k]
            candidate = np.maximum(moved, 0.0) / np.maximum(moved, 0.0).sum()
            reached, left = problem.value(candidate), left - 1
            if reached < value:
                w, value, lowered = candidate, reached, True
        step = step if lowered else step / 2
    return w, most - left


def _without_small(problem: Problem, w: np.ndarray) -> np.ndarray:
    """Return the weights without those too small to be searched, if these do not matter."""
    large, value = np.where(w < SHORTEST, 0.0, w), problem.value(w)
    if not large.any():
        return w
    large /= large.sum()
    return large if problem.value(large) <= value + 1e-5 * abs(value) else w


def _moves(w: np.ndarray) -> Iterator[np.ndarray]:
    """Yield directions from one member with weight to another, and from all to one."""
    vertices = np.eye(len(w))
    for j, to in enumerate(vertices):
        yield to - w
        yield from (to - vertices[i] for i in np.flatnonzero(w) if i != j)


def soft_width(table: Table) -> torch.Tensor:
    """Return the width over which steps are softened, (d,): a twentieth of a posterior's typical spread."""
    lower, upper = (np.median(table.quantile(level), (0, 1)) for level in _central_levels(table))
    return torch.as_tensor(np.maximum(upper - lower, 1e-300) / 20)


def _central_levels(table: Table) -> tuple[float, float]:
    """Return levels about one standard deviation either side, or the nearest that are tabulated."""
    if table.has("draws").all():
        return 0.16, 0.84
    levels = np.array(table.levels)
    return levels[np.abs(levels - 0.16).argmin()], levels[np.abs(levels - 0.84).argmin()]


def _projected_gradient(problem: Problem, w: np.ndarray, tol: float, most: int) -> Minimum:
    """Step towards the projection of w − λ∇f, λ the inverse curvature along the last step (Barzilai–Borwein)."""
    value, gradient = problem.value(w), problem.gradient(w)
    # Non-monotone: a step may end above the last value, but below the highest of the last ten.
    first = 1.0 / (np.ptp(gradient) or 1.0)  # steps are in its units, so that those of the score do not matter
    recent, length = [value], first
    best = (value, w, gradient)
    while len(recent) <= most:
        if frank_wolfe_gap(w, gradient) <= tol:
            break
        direction = project_on_simplex(w - length * (gradient - gradient.mean())) - w
        slope, size = gradient @ direction, 1.0
        while size > 1e-10:
            candidate = np.maximum(w + size * direction, 0.0)
            candidate /= candidate.sum()
            reached = problem.value(candidate)
            if reached <= max(recent[-10:]) + 1e-4 * size * slope:
                break
            size /= 2
        else:
            break
        new_gradient = problem.gradient(candidate)
        moved, turned = candidate - w, new_gradient - gradient
        curvature = moved @ turned
        length = moved @ moved / curvature if curvature > 0 else 1e3 * length
        length = np.clip(length, 1e-10 * first, 1e10 * first)
        w, gradient = candidate, new_gradient
        recent.append(reached)
        if reached < best[0]:
            best = (reached, w, gradient)
        if len(recent) > 20 and min(recent[-20:]) > min(recent[:-20]) - 1e-9 * abs(best[0]):
            break  # stuck at a kink
    _, w, gradient = best
    return Minimum(w, frank_wolfe_gap(w, gradient), len(recent) - 1)


def project_on_simplex(v: np.ndarray) -> np.ndarray:
    """Return argmin ‖x − v‖ over the simplex: x = max(v − τ, 0) with τ such that it sums to one.

    Example:
        >>> project_on_simplex(np.array([0.9, 0.5, -1.0]))
        array([0.7, 0.3, 0. ])
    """
    v = v - v.max()  # which changes nothing but rounding: 1 must count beside the largest entry
    descending = np.sort(v)[::-1]
    thresholds = (np.cumsum(descending) - 1) / np.arange(1, len(v) + 1)
    tau = thresholds[np.flatnonzero(descending > thresholds)[-1]]
    x = np.maximum(v - tau, 0.0)
    return x / x.sum()
