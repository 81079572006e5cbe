r"""Which of several fits: the one that does best on rows left out of it, unless doing nothing does as well.

Every candidate c is fitted to all but one of F parts of the rows and judged on the part left out, so that each row
has a loss :math:`\ell_{cn}` under a fit that has not seen it. With :math:`\hat c` the candidate of the least mean,
"doing nothing" (uniform weights, or the best single member) is kept where

.. math::
    \sum_n a_n (\ell_{0n} - \ell_{\hat c n}) \le \text{two standard errors of this difference}

for 0 the better one of the two: a gain that may be noise is not worth the flexibility that it takes. The better
one is uniform unless the best member is better by one standard error: which member is best is a choice as well.
Of fits within one standard error of the least, the simplest is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from drystone.estimate import mean_over_folds, mean_over_rows, split_folds
from drystone.forms import Form, Mixture
from drystone.forms.view import view_of
from drystone.scores import Score
from drystone.scores.score import row_scores
from drystone.solvers.solver import Solution, Status
from drystone.table import Table

__all__ = [
    "BEST",
    "CLEAR",
    "FOLDS",
    "UNIFORM",
    "Candidate",
    "Choice",
    "best_mixture",
    "choose",
    "do_nothing",
    "kept",
]

# The two ways of doing nothing.
UNIFORM, BEST = "uniform", "best member"
FOLDS = 5
# How many standard errors better than doing nothing a fit must be. With one, members that are alike were fitted to
# their noise one time in three: the best of dozens of candidates is flattered by its choice.
CLEAR = 2.0


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
    def nothing(self) -> bool:
        """Whether doing nothing was taken."""
        return self.name in (UNIFORM, BEST)

    @property
    def note(self) -> str:
        """The choice as a sentence."""
        if not self.folds:
            return "too few rows to choose by: uniform weights."
        least = min(self.losses, key=self.losses.__getitem__)
        others = dict.fromkeys(name for name in (UNIFORM, BEST, least) if name != self.name)
        listed = ", ".join(f"{name} {self.losses[name]:.4g}" for name in others)
        verdict = "; no fit is clearly better" if self.nothing else ""
        score = f"{self.losses[self.name]:.4g}; {listed}{verdict}"
        return f"cross-validation in {self.folds} parts took: {self.name} ({score})."


def choose(
    table: Table, candidates: Callable[[Table], Mapping[str, Candidate]], score: Score, folds: int, seed: int
) -> Choice:
    """Choose among candidates by cross-validation.

    Args:
        table: the rows to choose and to fit by.
        candidates: all of them, fitted to some rows, by name, simpler ones first; with ``UNIFORM`` and ``BEST``.
        score: what they are judged by.
        folds: parts of the rows; fewer if there are not two rows for each.
        seed: of the parts.
    """
    folds = min(folds, table.N // 2)
    if folds < 2:
        return Choice(UNIFORM, {}, 0)
    values: dict[str, list[np.ndarray]] = {}
    shares, parts = [], []
    for fitted_on, left_out in split_folds(table.N, folds, seed):
        judged_on = table.select(rows=left_out)
        parts.append(table.row_weights[left_out])
        shares.append(parts[-1].sum())
        for name, candidate in candidates(table.select(rows=fitted_on)).items():
            values.setdefault(name, []).append(_judge(candidate, judged_on, score))
    by_row = values[UNIFORM][0].ndim == 1
    a = np.concatenate(parts) if by_row else np.array(shares)
    losses = {name: np.concatenate(v) if by_row else np.array(v) for name, v in values.items()}
    means = {name: _finite(float(a @ loss)) for name, loss in losses.items()}
    least = min(means, key=means.__getitem__)

    def clearly_better(name: str, than: str, errors: float) -> bool:
        if not np.isfinite(means[than]):
            return bool(np.isfinite(means[name]))
        gain = (mean_over_rows if by_row else mean_over_folds)(losses[than] - losses[name], a)
        return gain.value > errors * gain.se

    nothing = BEST if clearly_better(BEST, UNIFORM, 1.0) else UNIFORM
    as_good = (name for name in means if name == least or not clearly_better(least, name, 1.0))
    better = (name for name in as_good if clearly_better(name, nothing, CLEAR))
    return Choice(next(better, nothing), means, folds)


def _judge(candidate: Candidate, table: Table, score: Score) -> np.ndarray:
    """Return the loss of each row, (N,); the mean of all, (), of a score that is not a mean over rows."""
    with torch.no_grad():
        view = view_of(candidate.form, candidate.params, table)
        rows = row_scores(score, view)
        return np.array(float(score(view))) if rows is None else rows.numpy()


def _finite(loss: float) -> float:
    return np.inf if np.isnan(loss) else loss


def best_mixture(table: Table, score: Score) -> np.ndarray:
    """Return the weights (K,) of the member that has the least score alone."""
    vertices = np.eye(table.K)
    with torch.no_grad():
        losses = [_finite(float(score(view_of(Mixture(), {"weights": w}, table)))) for w in vertices]
    return vertices[int(np.argmin(losses))]


def do_nothing(table: Table, score: Score) -> dict[str, Candidate]:
    """Return uniform weights and the best member, as mixtures."""
    uniform = np.full(table.K, 1 / table.K)
    return {
        UNIFORM: Candidate(Mixture(), {"weights": uniform}),
        BEST: Candidate(Mixture(), {"weights": best_mixture(table, score)}),
    }


def kept(choice: Choice, candidate: Candidate) -> Solution:
    """Return the solution of a choice that needs no more fitting."""
    return Solution(
        candidate.params, None, None, Status.HELD_OUT, 0, choice.note, candidate.form, choice=choice.name
    )
