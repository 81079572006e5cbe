r"""Interval aggregation × interval score, exactly.

The interval score is (2/α)[ρ_{α/2}(θ − l) + ρ_{1−α/2}(θ − u)] with the pinball loss ρ: two independent linear
quantile regressions for each parameter, which the interior-point method solves with a certificate. No smoothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

import numpy as np
import torch

from drystone.errors import IntractableError
from drystone.estimate import split_folds
from drystone.forms import IntervalAggregation
from drystone.forms.interval import CONSTRAINTS
from drystone.forms.view import as_tensors
from drystone.scores import IntervalScore
from drystone.scores.score import unit
from drystone.solvers.quantile_regression import Regression, quantile_regression
from drystone.solvers.solver import Solution, Solver, Status, tolerance
from drystone.table import Table
from drystone.table.inputs import each_level

__all__ = ["InteriorPoint"]


@dataclass(frozen=True, repr=False)
class InteriorPoint(Solver[IntervalAggregation, IntervalScore]):
    """Quantile regression of the truth on the members' ends, one for each end, parameter and level.

    Args:
        steps: at most so many interior-point steps each.
        folds: of the cross-validation behind ``weights="auto"``.
    """

    solves: ClassVar = ((IntervalAggregation, IntervalScore),)
    certifies: ClassVar = True
    steps: int = 100
    folds: int = 5

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
        notes = []
        if form.weights == "auto":
            form, note = self._choose(fitted_on, form, score, tol, seed)
            notes.append(note)
        solution = self._fit(fitted_on, form, score, tol)
        params = solution.params
        crossed = _crossed(form, params, fitted_on)
        if crossed:
            notes.append(f"lower and upper ends crossed, and were exchanged, in {crossed:.2%} of the intervals.")
        if calibrated_on is not None:
            params = {**params, "margin": _margin(form, params, calibrated_on)}
            if table.S is not None:
                params["margin_draws"] = np.array(table.S)
            notes.append(f"conformal margin from {calibrated_on.N} rows that the weights have not seen.")
        return replace(solution, params=params, note=" ".join(notes), form=form)

    def _fit(self, table: Table, form: IntervalAggregation, score: IntervalScore, tol: float) -> Solution:
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
        return Solution(found, gap, gap, Status.of(gap, allowed, certified=True, at_limit=at_limit), steps)

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
        ridge = form.ridge * float((table.theta[:, group] / scale[group]).std())
        intercepts = len(group) if form.intercept else 0
        return quantile_regression(X, theta, tau, a, form.weights, ridge, intercepts, tol / 10, self.steps)

    def _choose(
        self, table: Table, form: IntervalAggregation, score: IntervalScore, tol: float, seed: int
    ) -> tuple[IntervalAggregation, str]:
        """Return the variant with the least cross-validated score."""
        variants = [
            replace(form, weights=weights, intercept=intercept)
            for weights, intercept in product(CONSTRAINTS, (False, True))
        ]
        losses = {variant: 0.0 for variant in variants}
        for fit_rows, test_rows in split_folds(table.N, self.folds, seed):
            fitted_on, tested_on = table.select(rows=fit_rows), table.select(rows=test_rows)
            for variant in variants:
                params = self._fit(fitted_on, variant, score, max(tol, 1e-6)).params
                view = variant.combine(as_tensors(params), tested_on)
                losses[variant] += float(score(view)) * table.row_weights[test_rows].sum()
        best = min(variants, key=lambda variant: losses[variant])
        with_intercept = "with" if best.intercept else "without"
        note = f"cross-validation took {best.weights} weights {with_intercept} intercept"
        return best, f"{note} (score {losses[best]:.4g}; free without: {losses[variants[0]]:.4g})."


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
