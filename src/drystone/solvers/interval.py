r"""Interval aggregation × interval score, exactly.

The interval score is (2/α)[ρ_{α/2}(θ − l) + ρ_{1−α/2}(θ − u)] with the pinball loss ρ: two independent linear
quantile regressions for each parameter, which the interior-point method solves with a certificate. No smoothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar, cast

import numpy as np
import torch

from drystone.errors import IntractableError
from drystone.forms import IntervalAggregation
from drystone.forms.interval import CONSTRAINTS
from drystone.forms.view import as_tensors
from drystone.scores import IntervalScore
from drystone.scores.score import unit
from drystone.solvers.choice import BEST, FOLDS, UNIFORM, Candidate, choose, kept
from drystone.solvers.quantile_regression import Regression, quantile_regression
from drystone.solvers.solver import Solution, Solver, Status, tolerance
from drystone.table import Table, blocks
from drystone.table.inputs import each_level
from drystone.table.statistics import level_key

__all__ = ["InteriorPoint"]

# How far back towards doing nothing fitted ends are tried.
SHARES = (0.75, 0.5, 0.25)
# How near its optimum a candidate is fitted: far below the noise of the rows that it is judged on.
ROUGHLY = 1e-4


@dataclass(frozen=True, repr=False)
class InteriorPoint(Solver[IntervalAggregation, IntervalScore]):
    """Quantile regression of the truth on the members' ends, one for each end, parameter and level.

    Args:
        steps: at most so many interior-point steps each.
        folds: of the cross-validation behind ``weights="auto"``.

    Example:
        >>> import drystone as ds
        >>> form, solver = ds.IntervalAggregation(weights="free"), ds.solvers.InteriorPoint(steps=50)
        >>> fit = ds.stack(ds.toy.table(200, seed=1), form, ds.IntervalScore(), solver=solver)
        >>> fit.status.name, fit.gap < 1e-6
        ('CERTIFIED', True)
    """

    solves: ClassVar = ((IntervalAggregation, IntervalScore),)
    certifies: ClassVar = True
    steps: int = 100
    folds: int = FOLDS

    def minimize(
        self, table: Table, form: IntervalAggregation, score: IntervalScore, tol: float, seed: int
    ) -> Solution:
        """Return the optimal ends, and the conformal margin if the form has one."""
        if each_level(form.alpha) != each_level(score.alpha):
            raise IntractableError(
                f"the form's alpha {form.alpha} and the score's alpha {score.alpha} must be the same levels."
            )
        fitted_on, calibrated_on = table, None
        if form.conformal:
            fitted_on, calibrated_on = _conformal_split(table, form, seed)
        fit = self._choose if form.weights == "auto" else self._fit
        solution = fit(fitted_on, form, score, tol, seed)
        form = cast(IntervalAggregation, solution.form)
        params, notes = solution.params, [solution.note] if solution.note else []
        crossed = _crossed(form, params, fitted_on)
        if crossed:
            notes.append(f"lower and upper ends crossed, and were exchanged, in {crossed:.2%} of the intervals.")
        if crossed or calibrated_on is not None:
            # What is certified is the loss of the ends as they were, on the rows that they were fitted to.
            status = Status.CONVERGED if solution.status is Status.CERTIFIED else solution.status
            solution = replace(solution, gap=None, status=status)
        if calibrated_on is not None:
            params = {**params, "margin": _margin(form, params, calibrated_on)}
            if table.S is not None:
                params["margin_draws"] = np.array(table.S)
            notes.append(f"conformal margin from {calibrated_on.N} rows that the weights have not seen.")
        return replace(solution, params=params, note=" ".join(notes))

    def _fit(
        self, table: Table, form: IntervalAggregation, score: IntervalScore, tol: float, seed: int
    ) -> Solution:
        """Return all regressions: params, and the sum of their duality gaps in units of the score."""
        scale, alphas = unit(score.scale, table.d).numpy(), each_level(form.alpha)
        groups = [list(range(table.d))] if form.shared else [[j] for j in range(table.d)]
        weights = np.zeros((2, len(alphas), table.d, table.K))
        intercepts = np.zeros((2, len(alphas), table.d))
        gap, steps, at_limit = 0.0, 0, False
        for (i, alpha), end, group in product(enumerate(alphas), (0, 1), groups):
            tau = alpha / 2 if end == 0 else 1 - alpha / 2
            regression = self._regress(table, form, tau, group, scale, tol)
            weights[end, i, group] = regression.coefficients[: table.K]
            if form.intercept:
                intercepts[end, i, group] = regression.coefficients[table.K :] * scale[group]
            # A regression averages over its group; the score, 2/α times it, over all parameters and levels.
            gap += 2 / alpha * regression.gap * len(group) / table.d / len(alphas)
            steps += regression.iterations
            at_limit |= regression.iterations >= self.steps
        found = {"lower": weights[0], "upper": weights[1]}
        found |= {"lower_intercept": intercepts[0], "upper_intercept": intercepts[1]}
        if isinstance(form.alpha, int | float):
            found = {name: value[0] for name, value in found.items()}
        view = form.combine(as_tensors(found), table)
        allowed = tolerance(tol, score, float(score(view)))
        status = Status.of(gap, allowed, certified=True, at_limit=at_limit)
        return Solution(found, gap, gap, status, steps, form=form)

    def _regress(
        self, table: Table, form: IntervalAggregation, tau: float, group: list[int], scale: np.ndarray, tol: float
    ) -> Regression:
        """Return one end of the intervals of a group of parameters, their rows one below the other."""
        ends = table.quantile(tau)[:, :, group] / scale[group]
        X = ends.transpose(2, 1, 0).reshape(-1, table.K)
        theta = (table.theta[:, group] / scale[group]).T.ravel()
        if form.intercept:
            X = np.hstack([X, np.repeat(np.eye(len(group)), table.N, 0)])
        a = np.tile(table.row_weights / len(group), len(group))
        # The ridge is stated for parameters of unit spread; the regression is in units of theta.
        ridge = form.ridge * float(np.sqrt(a @ (theta - a @ theta) ** 2))
        intercepts = len(group) if form.intercept else 0
        return quantile_regression(X, theta, tau, a, form.weights, ridge, intercepts, tol / 10, self.steps)

    def _choose(
        self, table: Table, form: IntervalAggregation, score: IntervalScore, tol: float, seed: int
    ) -> Solution:
        """Return the variant that does best on rows left out, fitted to all rows."""
        table, variants = _ends(table, form), _variants(form)

        def candidates(rows: Table) -> dict[str, Candidate]:
            ways = _do_nothing(rows, form, score)
            fits = {
                variant: self._fit(rows, variant, score, max(tol, ROUGHLY), seed).params
                for variant in {variant.form: None for variant in variants.values()}
            }
            return ways | {
                name: Candidate(variant.form, variant.between(ways, fits[variant.form]))
                for name, variant in variants.items()
            }

        choice = choose(table, candidates, score, self.folds, seed)
        ways = _do_nothing(table, form, score)
        if choice.little:
            return kept(choice, ways[choice.name])
        variant = variants[choice.name]
        fit = replace(self._fit(table, variant.form, score, tol, seed), note=choice.note, choice=choice.name)
        if variant.share == 0:
            return fit
        # Between the optimum and doing nothing: by what held-out rows say, so it has no certificate.
        params = variant.between(ways, fit.params)
        status = Status.HELD_OUT if fit.converged else fit.status
        return replace(fit, params=params, gap=None, stationarity=None, status=status)


@dataclass(frozen=True)
class Variant:
    """Ends of a form, or these a share of the way back to a way of doing nothing."""

    form: IntervalAggregation
    towards: str = UNIFORM
    share: float = 0.0

    def between(self, ways: Mapping[str, Candidate], params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return (1 − share) times the fitted parameters and share times those of doing nothing."""
        nothing = ways[self.towards].params
        return {name: (1 - self.share) * array + self.share * nothing[name] for name, array in params.items()}


def _variants(form: IntervalAggregation) -> dict[str, Variant]:
    """Return what ``weights="auto"`` chooses among, besides doing nothing, by name; simpler ones first.

    The constraint counts first: what free weights lose, they may lose at one row in a hundred, and then the rows
    left out hardly show it.
    """
    variants = {}
    for weights, share, intercept in product(reversed(CONSTRAINTS), (*SHARES, 0.0), (False, True)):
        fitted = replace(form, weights=weights, intercept=intercept)
        name = f"{weights} weights {'with' if intercept else 'without'} intercept"
        if share == 0:
            variants[name] = Variant(fitted)
        for towards in (UNIFORM, BEST) if share else ():
            variants[f"{name}, {share:.0%} of the way to {towards}"] = Variant(fitted, towards, share)
    return variants


def _ends(table: Table, form: IntervalAggregation) -> Table:
    """Return the table with nothing but the ends, so that they are read off the draws once."""
    levels = [level for alpha in each_level(form.alpha) for level in (alpha / 2, 1 - alpha / 2)]
    for level in levels:
        table.quantile(level)  # says what is missing
    return blocks.with_statistics(table, [level_key(level) for level in levels])


def _do_nothing(table: Table, form: IntervalAggregation, score: IntervalScore) -> dict[str, Candidate]:
    """Return the average of all members' ends, and the ends of the best member."""
    levels = () if isinstance(form.alpha, int | float) else (len(each_level(form.alpha)),)
    convex = replace(form, weights="convex", intercept=False)

    def weighted(weights: np.ndarray) -> Candidate:
        ends, none = np.tile(weights, (*levels, table.d, 1)), np.zeros((*levels, table.d))
        params = {"lower": ends, "upper": ends, "lower_intercept": none, "upper_intercept": none}
        return Candidate(convex, params)

    members = [weighted(vertex) for vertex in np.eye(table.K)]
    losses = [float(score(member.form.combine(as_tensors(member.params), table))) for member in members]
    return {UNIFORM: weighted(np.full(table.K, 1 / table.K)), BEST: members[int(np.argmin(losses))]}


def _crossed(form: IntervalAggregation, params: dict[str, np.ndarray], table: Table) -> float:
    """Return the share of intervals whose lower end lies above the upper one."""
    view = form.combine(as_tensors(params), table)
    ends = torch.stack([view.raw(alpha) for alpha in each_level(form.alpha)])
    return float((ends[..., 0] > ends[..., 1]).double().mean())


def _conformal_split(table: Table, form: IntervalAggregation, seed: int) -> tuple[Table, Table]:
    """Return rows to fit the weights on, and a third of the rows to calibrate on."""
    if table.weighted:
        raise ValueError("`conformal` needs rows of equal weight; the table has `row_weights`.")
    fitted_on, calibrated_on = table.split(2 / 3, seed)
    fewest = int(np.ceil(1 / min(each_level(form.alpha)) - 1))
    if fewest > calibrated_on.N:
        raise ValueError(
            f"`conformal` at alpha = {min(each_level(form.alpha))} needs {fewest} rows to calibrate on; "
            f"a third of the table is {calibrated_on.N}. Give at least {3 * fewest + 1} rows."
        )
    return fitted_on, calibrated_on


def _margin(form: IntervalAggregation, params: dict[str, np.ndarray], table: Table) -> np.ndarray:
    """Return the ⌈(1 − α)(n + 1)⌉-th smallest of max(l − θ, θ − u) (Romano, Patterson & Candès 2019)."""
    view = form.combine(as_tensors(params), table)
    margins = []
    for alpha in each_level(form.alpha):
        ends = view.interval(alpha).numpy()
        outside = np.sort(np.maximum(ends[..., 0] - table.theta, table.theta - ends[..., 1]), 0)
        # Rounded first: (1 − 0.1)·(n + 1) must not be pushed above a whole number by its last bit.
        margins.append(outside[int(np.ceil(round((1 - alpha) * (table.N + 1), 9))) - 1])
    return margins[0] if isinstance(form.alpha, int | float) else np.stack(margins)
