r"""Mixture × mean or energy score, exactly: both are convex quadratics in the weights.

.. math::
    \text{mean:}\quad \sum_n a_n \Big\|\theta_n - \sum_k w_k \mu_{kn}\Big\|^2, \qquad
    \text{energy:}\quad \sum_k w_k A_k - \tfrac12 \sum_{jk} w_j w_k B_{jk}
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from drystone.forms import Mixture, distances
from drystone.scores import EnergyScore, MeanScore, Score
from drystone.scores.score import unit
from drystone.solvers.simplex.newton import STEPS, Barrier, Quadratic, newton_simplex
from drystone.solvers.simplex.qp import simplex_qp
from drystone.solvers.solver import Solution, Solver, Status, tolerance, unit_of_loss
from drystone.table import Table, blocks

__all__ = ["NOISE", "QuadraticProgram", "energy_noise", "minimise_quadratic"]


# A loss below this share of the best member's is 0 but for rounding.
ROUNDING = 1e-4


@dataclass(frozen=True, repr=False)
class QuadraticProgram(Solver[Mixture, MeanScore | EnergyScore]):
    """One active-set quadratic program on the simplex, with its certificate.

    Example:
        >>> import drystone as ds
        >>> fit = ds.stack(ds.toy.table(200, seed=1), score=ds.EnergyScore(), solver=ds.solvers.QuadraticProgram())
        >>> fit.status.name, fit.gap < 1e-8
        ('CERTIFIED', True)
    """

    solves: ClassVar = ((Mixture, MeanScore), (Mixture, EnergyScore))
    certifies: ClassVar = True
    streams: ClassVar = True

    def minimize(
        self, table: Table, form: Mixture, score: MeanScore | EnergyScore, tol: float, seed: int
    ) -> Solution:
        """Return the optimal weights."""
        estimated = _mean(table, score) if isinstance(score, MeanScore) else _energy(table, score)
        quadratic, noise = _convexified(estimated)
        c, alone = form.pseudocount(table), estimated.least_vertex
        if c > 0:
            c *= unit_of_loss(score, estimated.value(np.full(table.K, 1 / table.K)))
        solution = minimise_quadratic(quadratic, c, tolerance(tol, score, alone))
        # What counts is the loss that was reached, which may lie far below that of any member alone: down to 0.
        reached = max(abs(estimated.value(solution.params["weights"])), ROUNDING * abs(alone))
        if (solution.gap or 0.0) > tolerance(tol, score, reached):
            start = solution.params["weights"]
            solution = minimise_quadratic(quadratic, c, tolerance(tol, score, reached), start)
        if noise == 0:
            return solution
        if c == 0:
            solution = replace(solution, params={"weights": _no_worse(estimated, solution.params["weights"])})
        # The convexified problem lies above the estimated one by at most noise/2 on the simplex.
        assert solution.gap is not None
        status = Status.NOISE_FLOOR if solution.converged else solution.status
        return replace(solution, gap=solution.gap + noise / 2, status=status, note=NOISE.format(noise / 2))


# Members that say nearly the same differ by the noise of their draws alone.
NOISE = (
    "the gap includes {:.1g} for the noise of the draws, by which the distances between members fail to be those "
    "of distributions; more draws lower it."
)


def energy_noise(table: Table, score: Score) -> float:
    """Return by how much the noise of the draws may make a Frank–Wolfe gap too small, of a sum with energy terms.

    Between any two sets of weights, ‖v − w‖² ≤ 2, the curvature −noise lowers the sum by at most noise.
    """
    terms = [(c, term) for c, term in score.terms if isinstance(term, EnergyScore)]
    return sum(c * _convexified(_energy(table, term))[1] for c, term in terms)


def minimise_quadratic(quadratic: Quadratic, c: float, tol: float, start: np.ndarray | None = None) -> Solution:
    """Minimize ½ wᵀQw + b·w − c Σ_k log w_k on the simplex."""
    K = len(quadratic.b)
    if start is None:
        start = np.full(K, 1 / K)
    if c > 0:
        return Solution.certified(newton_simplex(Barrier(quadratic, c), 0.9 * start + 0.1 / K, tol), tol, STEPS)
    w = simplex_qp(quadratic.Q, quadratic.b, start)
    # One exact program is enough, but for rounding: Newton's loop only checks it and, if need be, polishes.
    return Solution.certified(newton_simplex(quadratic, w, tol), tol, STEPS)


def _mean(table: Table, score: MeanScore) -> Quadratic:
    """Return Q = 2 Σ_n a_n r_n r_nᵀ of the errors r_kn = μ_kn − θ_n, for Σ_k w_k μ_kn − θ_n = Σ_k w_k r_kn.

    About the truth, so that no entry holds digits of another member, or of where the parameters lie.
    """
    (Q,) = blocks.total(table, _squares, unit(score.scale, table.d).numpy())
    return Quadratic(Q, np.zeros(table.K))


def _squares(block: Table, scale: np.ndarray) -> tuple[np.ndarray]:
    root = np.sqrt(block.row_weights)[:, None]
    error = ((block.mean - block.theta) / scale * root).reshape(block.K, -1)
    return (2 * error @ error.T,)


def _energy(table: Table, score: EnergyScore) -> Quadratic:
    """Return Q = −B, b = A."""
    scale = unit(score.scale, table.d)
    to_truth, between = distances.averages(table, score.draws, tuple(scale.tolist()))
    return Quadratic(-between.numpy(), to_truth.numpy())


def _no_worse(quadratic: Quadratic, w: np.ndarray) -> np.ndarray:
    """Return the weights, or uniform ones or a member alone, where the noise makes these better."""
    K = len(w)
    return min([w, np.full(K, 1 / K), *np.eye(K)], key=quadratic.value)


def _convexified(quadratic: Quadratic) -> tuple[Quadratic, float]:
    """Return the problem with negative curvature along the simplex removed, and how much there was.

    −B is positive semi-definite on directions that sum to zero; an estimate of it may fail to be by noise.
    """
    K = len(quadratic.b)
    along = np.eye(K) - 1 / K
    values, vectors = np.linalg.eigh(along @ quadratic.Q @ along)
    noise = max(-float(values.min()), 0.0)
    if noise <= 1e-12 * np.abs(values).max():
        return quadratic, 0.0
    negative = (vectors * np.maximum(-values, 0.0)) @ vectors.T
    return Quadratic(quadratic.Q + negative, quadratic.b), noise
