r"""Which of several fits: the one that does best on rows left out of it, unless doing little does as well.

Every candidate c is fitted to all but one of F parts of the rows and looked at on the part left out, so that each
row has a posterior of c that has not seen it. The score of all rows under these is c's loss :math:`\ell_c`, also
where the score is no mean over rows, as a rank distance is not: a part by itself would have the noise of few rows.
Doing little is uniform weights; or the best single member, if that is better by one standard error (which member
is best is a choice as well); or, for forms that can do more, a fitted mixture, if that is better than both. It is
kept unless the candidate of the least loss, or a simpler one within one standard error of it, has

.. math::
    \ell_{\text{little}} - \ell_c > \text{two standard errors of this difference}:

a gain that may be noise is not worth the flexibility that it takes. Three, where the score is no mean over rows: a
fit makes up for what its rows deviate by chance, and over all parts these deviations cancel, which flatters it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from drystone.estimate import Estimate, half_sample_error, half_samples, mean_over_rows, split_folds
from drystone.forms import Form, Mixture
from drystone.forms.view import JoinedView, View, view_of
from drystone.scores import Score
from drystone.scores.score import row_scores
from drystone.solvers.projected_gradient import ProjectedGradient
from drystone.solvers.quadratic import QuadraticProgram
from drystone.solvers.rank import ConvexConcave
from drystone.solvers.solver import Solution, Solver, Status
from drystone.table import Table, blocks

__all__ = [
    "BEST",
    "CLEAR",
    "FOLDS",
    "MIXTURE",
    "UNIFORM",
    "Candidate",
    "Choice",
    "best_member",
    "choose",
    "do_little",
    "kept",
]

# The ways of doing little.
UNIFORM, BEST, MIXTURE = "uniform", "best member", "mixture"
LITTLE = (UNIFORM, BEST, MIXTURE)
FOLDS = 5
# How many standard errors better than doing little a fit must be. With one, members that are alike were fitted to
# their noise one time in three: the best of dozens of candidates is flattered by its choice.
CLEAR = 2.0
# The same, where the score is no mean over rows.
CLEAR_OF_ALL_ROWS = 3.0
# Halves of the rows behind the standard error of a score that is not a mean over rows.
HALVES = 100
# What fits the mixture, the first that can.
MIXTURE_SOLVERS: tuple[Solver, ...] = (QuadraticProgram(), ConvexConcave(), ProjectedGradient())
# How near its optimum the mixture is fitted: far below the noise of the rows that it is judged on.
ROUGHLY = 1e-6


@dataclass(frozen=True)
class Candidate:
    """A form with its parameters."""

    form: Form
    params: dict[str, np.ndarray]


@dataclass(frozen=True)
class Choice:
    """The candidate that is taken, and the losses of all on rows left out.

    Attributes:
        name: of the candidate.
        losses: means over the rows left out, by name.
        folds: how many parts the rows were divided into; 0 if there were too few rows to choose by.
    """

    name: str
    losses: Mapping[str, float]
    folds: int

    @property
    def little(self) -> bool:
        """Whether one of the ways of doing little was taken."""
        return self.name in LITTLE

    @property
    def note(self) -> str:
        """The choice as a sentence."""
        if not self.folds:
            return "too few rows to choose by: uniform weights."
        least = min(self.losses, key=self.losses.__getitem__)
        others = dict.fromkeys(name for name in (*LITTLE, least) if name != self.name and name in self.losses)
        listed = ", ".join(f"{name} {self.losses[name]:.4g}" for name in others)
        verdict = "; no other fit is clearly better" if self.little else ""
        score = f"{self.losses[self.name]:.4g}; {listed}{verdict}"
        return f"cross-validation in {self.folds} parts took: {self.name} ({score})."


def choose(
    table: Table, candidates: Callable[[Table], Mapping[str, Candidate]], score: Score, folds: int, seed: int
) -> Choice:
    """Choose among candidates by cross-validation.

    Args:
        table: the rows to choose and to fit by.
        candidates: all of them, fitted to some rows, by name, simpler ones first; with ways of doing
            little.
        score: what they are judged by.
        folds: parts of the rows; fewer if there are not two rows for each.
        seed: of the parts.
    """
    folds = min(folds, table.N // 2)
    if folds < 2:
        return Choice(UNIFORM, {}, 0)
    parts: dict[str, list[View]] = {}
    order = []
    for fitted_on, left_out in split_folds(table.N, folds, seed):
        order.append(left_out)
        judged_on = blocks.part(table, rows=left_out)
        for name, candidate in candidates(blocks.part(table, rows=fitted_on)).items():
            parts.setdefault(name, []).append(view_of(candidate.form, candidate.params, judged_on))
    rows = table.select(rows=np.concatenate(order))
    with torch.no_grad():
        losses = {name: _Loss.of(score, JoinedView(rows, views), seed) for name, views in parts.items()}
    means = {name: loss.value for name, loss in losses.items()}
    least = min(means, key=means.__getitem__)

    def clearly_better(name: str, than: str, errors: float) -> bool:
        if not np.isfinite(means[than]):
            return bool(np.isfinite(means[name]))
        gain = losses[name].gain_over(losses[than])
        return gain.value > errors * gain.se

    little = BEST if clearly_better(BEST, UNIFORM, 1.0) else UNIFORM
    if means.get(MIXTURE, np.inf) < means[little]:
        little = MIXTURE
    clear = CLEAR_OF_ALL_ROWS if losses[little].row_weights is None else CLEAR
    as_good = (name for name in means if name == least or not clearly_better(least, name, 1.0))
    better = (name for name in as_good if name not in LITTLE and clearly_better(name, little, clear))
    return Choice(next(better, little), means, folds)


@dataclass(frozen=True)
class _Loss:
    """The score of a candidate on rows left out.

    Attributes:
        value: of all rows.
        spread: of each row, (N,); of a score that is no mean over rows, of halves of them, (2B,).
        row_weights: a_n, (N,), of a mean over rows; else None.
    """

    value: float
    spread: np.ndarray
    row_weights: np.ndarray | None = None

    @classmethod
    def of(cls, score: Score, view: View, seed: int) -> _Loss:
        """Return the score of a posterior, with what its standard error is computed from."""
        a, rows = view.row_weights.numpy(), row_scores(score, view)
        if rows is not None:
            return cls(_finite(float(a @ rows.numpy())), rows.numpy(), a)
        return cls(_finite(float(score(view))), score.on_samples(view, half_samples(a, HALVES, seed)))

    def gain_over(self, other: _Loss) -> Estimate:
        """Return how much less this is than ``other``, with the standard error of the paired difference."""
        difference = other.spread - self.spread
        if self.row_weights is not None:
            return mean_over_rows(difference, self.row_weights)
        gain = other.value - self.value
        return Estimate(gain, half_sample_error(gain, difference))


def _finite(loss: float) -> float:
    return np.inf if np.isnan(loss) else loss


def best_member(table: Table, score: Score) -> np.ndarray:
    """Return the weights (K,) of the member that has the least score alone."""
    vertices = np.eye(table.K)
    with torch.no_grad():
        losses = [_finite(float(score(view_of(Mixture(), {"weights": w}, table)))) for w in vertices]
    return vertices[int(np.argmin(losses))]


def do_little(table: Table, score: Score, seed: int) -> dict[str, Candidate]:
    """Return uniform weights, the best member, and the mixture that is best, as mixtures."""
    weights = {
        UNIFORM: np.full(table.K, 1 / table.K),
        BEST: best_member(table, score),
        MIXTURE: _fitted_mixture(table, score, seed),
    }
    return {name: Candidate(Mixture(), {"weights": w}) for name, w in weights.items()}


def _fitted_mixture(table: Table, score: Score, seed: int) -> np.ndarray:
    """Return the weights (K,) of the mixture that is fitted to members that are not hopeless."""
    solver = next(solver for solver in MIXTURE_SOLVERS if not solver.unsupported_reason(Mixture(), score))
    hopeless = Mixture().hopeless_members(table)
    members = ~hopeless if not hopeless.all() else np.ones(table.K, bool)
    weights = np.zeros(table.K)
    chosen = table if members.all() else table.select(members=members)
    weights[members] = solver.solve(chosen, Mixture(), score, ROUGHLY, seed).params["weights"]
    return weights


def kept(choice: Choice, candidate: Candidate) -> Solution:
    """Return the solution of a choice that needs no more fitting."""
    return Solution(
        candidate.params, None, None, Status.HELD_OUT, 0, choice.note, candidate.form, choice=choice.name
    )
