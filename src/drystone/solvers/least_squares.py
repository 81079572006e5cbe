r"""Sample aggregation × mean score, exactly: ordinary or ridge least squares of the truth on the members' means.

.. math::
    \min_{w_0, W} \sum_n a_n \Big\|\theta_n - w_0 - \sum_k W_k \mu_{kn}\Big\|^2
        + \lambda \sum_k \|W_k - T_k\|^2

in units of the parameters' spread; λ = 0 for a given structure. ``structure="auto"`` chooses structure and λ by
cross-validation, with T all members alike (I/K each) or the best alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

import numpy as np

from drystone.forms import SampleAggregation
from drystone.forms.sample import STRUCTURES
from drystone.scores import MeanScore
from drystone.scores.score import unit
from drystone.solvers.choice import BEST, FOLDS, UNIFORM, Candidate, best_member, choose, do_little, kept
from drystone.solvers.solver import Solution, Solver, Status, tolerance
from drystone.table import Table

__all__ = ["LeastSquares"]

# λ that "auto" tries, in units of the largest eigenvalue of XᵀX: from hardly anything but T to nearly free.
RIDGES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5)


@dataclass(frozen=True, repr=False)
class LeastSquares(Solver[SampleAggregation, MeanScore]):
    """The solution of least norm, by singular values; its certificate is what the residual has left to explain.

    Args:
        folds: of the cross-validation behind ``structure="auto"``.

    Example:
        >>> import drystone as ds
        >>> form, solver = ds.SampleAggregation("scalar"), ds.solvers.LeastSquares()
        >>> fit = ds.stack(ds.toy.table(200, seed=1), form, ds.MeanScore(), solver=solver)
        >>> fit.status.name, fit.gap < 1e-8
        ('CERTIFIED', True)
    """

    solves: ClassVar = ((SampleAggregation, MeanScore),)
    certifies: ClassVar = True
    folds: int = FOLDS

    def minimize(self, table: Table, form: SampleAggregation, score: MeanScore, tol: float, seed: int) -> Solution:
        """Return the optimal offset and matrices."""
        if form.structure == "auto":
            return self._choose(table, form, score, tol, seed)
        free = {"scalar": table.K / table.d, "diagonal": table.K, "full": table.K * table.d}[form.structure]
        few = f"N = {table.N} rows for {free:.0f} coefficients per parameter: likely to overfit."
        solution = Regressions(table, form.structure, score, np.zeros(table.K)).solution(0.0, tol)
        return replace(solution, note=few if 5 * free > table.N else "")

    def _choose(self, table: Table, form: SampleAggregation, score: MeanScore, tol: float, seed: int) -> Solution:
        """Return the structure and the ridge that do best on rows left out, or a mixture."""
        variants = {  # simpler ones first
            f"{structure} matrices, ridge {ridge:g} towards {target}": (structure, target, ridge)
            for ridge, structure, target in product(RIDGES, STRUCTURES, (UNIFORM, BEST))
        } | {f"{structure} matrices": (structure, UNIFORM, 0.0) for structure in STRUCTURES}

        def candidates(rows: Table) -> dict[str, Candidate]:
            ways = do_little(rows, score, seed)
            regressions = {
                (structure, target): Regressions(rows, structure, score, ways[target].params["weights"])
                for structure, target in product(STRUCTURES, (UNIFORM, BEST))
            }
            return ways | {
                name: Candidate(form, regressions[structure, target].solution(ridge, tol).params)
                for name, (structure, target, ridge) in variants.items()
            }

        choice = choose(table, candidates, score, self.folds, seed)
        if choice.little:
            return kept(choice, do_little(table, score, seed)[choice.name])
        structure, target, ridge = variants[choice.name]
        weights = best_member(table, score) if target == BEST else np.full(table.K, 1 / table.K)
        solution = Regressions(table, structure, score, weights).solution(ridge, tol)
        variant = replace(form, structure=structure)
        return replace(solution, note=choice.note, choice=choice.name, form=variant)


class Regressions:
    """Least squares of a structure on the rows of a table, for any ridge.

    Args:
        table: with means.
        structure: "scalar", "diagonal" or "full".
        score: what is minimized.
        target: weights t (K,) of T_k = t_k I.
    """

    def __init__(self, table: Table, structure: str, score: MeanScore, target: np.ndarray) -> None:
        self.structure, self.score, self.target = structure, score, target
        K, N, d = self.shape = table.K, table.N, table.d
        a, root = table.row_weights, np.sqrt(table.row_weights)[:, None]
        # Centred, the intercept drops out; in units of the parameters' spread, nothing depends on units.
        self.centre, self.means = a @ table.theta, np.einsum("n,knj->kj", a, table.mean)
        self.spread = np.sqrt(a @ (table.theta - self.centre) ** 2)
        self.spread[self.spread == 0] = 1.0
        self.theta = (table.theta - self.centre) / self.spread * root
        mean = (table.mean - self.means[:, None]) / self.spread * root
        self.relative = self.spread / unit(score.scale, d).numpy()  # the spread in units of the score
        left = self.theta - np.tensordot(target, mean, 1)
        if structure == "scalar":
            X = (mean * self.relative).transpose(1, 2, 0).reshape(N * d, K)
            self.parts = [Part(X, (left * self.relative).reshape(-1, 1))]
        elif structure == "full":
            self.parts = [Part(mean.transpose(1, 0, 2).reshape(N, -1), left)]
        else:
            self.parts = [Part(mean[:, :, j].T, left[:, j : j + 1]) for j in range(d)]

    def solution(self, ridge: float, tol: float) -> Solution:
        """Return the optimum; ``ridge`` is in units of the largest eigenvalue of XᵀX."""
        K, _, d = self.shape
        solved = [part.solve(ridge) for part in self.parts]
        if self.structure == "scalar":
            (beta, gap) = solved[0]
            V, total = beta[:, 0, None, None] * np.eye(d), float(gap[0])
        elif self.structure == "full":
            (beta, gap) = solved[0]
            V, total = beta.reshape(K, d, d).transpose(0, 2, 1), float(gap @ self.relative**2)
        else:
            V = np.stack([beta[:, 0] for beta, _ in solved], -1)[:, :, None] * np.eye(d)
            total = float(np.concatenate([gap for _, gap in solved]) @ self.relative**2)
        matrix = (V + self.target[:, None, None] * np.eye(d)) * self.spread[:, None] / self.spread
        offset = self.centre - np.einsum("kij,kj->i", matrix, self.means)
        allowed = tolerance(tol, self.score, float((self.theta**2 * self.relative**2).sum()))
        status = Status.of(total, allowed, certified=True, at_limit=False)
        return Solution({"offset": offset, "matrix": matrix}, total, total, status, 1)


class Part:
    """One design X (rows, p) for some responses Y (rows, q), solved for any ridge from its singular values."""

    def __init__(self, X: np.ndarray, Y: np.ndarray) -> None:
        self.X, self.Y = X, Y
        self.U, self.sigma, self.Vt = np.linalg.svd(X, full_matrices=False)
        self.largest = float(self.sigma.max(initial=0.0))

    def solve(self, ridge: float) -> tuple[np.ndarray, np.ndarray]:
        """Return β of least norm, (p, q), and bounds on how far the objectives are above their optima, (q,)."""
        seen = self.sigma > 1e-12 * self.largest
        penalty, sigma = ridge * self.largest**2, self.sigma[seen]
        beta = self.Vt[seen].T @ ((sigma / (sigma**2 + penalty))[:, None] * (self.U[:, seen].T @ self.Y))
        residual = self.Y - self.X @ beta
        if penalty > 0:  # ‖Xᵀr − λβ‖²/λ, of a function with curvature 2λ or more
            return beta, ((self.X.T @ residual - penalty * beta) ** 2).sum(0) / penalty
        # What of the residual is in the span of X: also in directions left out as noise, but not in those
        # that rounding made up between duplicates.
        rounding = max(self.X.shape) * np.finfo(float).eps * self.largest
        explainable = self.U[:, seen | (self.sigma > rounding)]
        return beta, ((explainable.T @ residual) ** 2).sum(0)
