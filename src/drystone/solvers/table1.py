"""Table 1: which (form, score) cells exist, and which solver fills each.

``python -m drystone.solvers.table1`` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass

from drystone.errors import IntractableError
from drystone.forms import (
    FORMS,
    Form,
    IntervalAggregation,
    LikelihoodMixture,
    LocalMixture,
    Product,
    SampleAggregation,
    SimplexForm,
)
from drystone.scores import SCORES, Score
from drystone.solvers.gating import Gating
from drystone.solvers.interval import InteriorPoint
from drystone.solvers.lbfgs import LBFGS
from drystone.solvers.least_squares import LeastSquares
from drystone.solvers.log_score import SQP
from drystone.solvers.minimax import Minimax
from drystone.solvers.product import LikelihoodSQP, ProductNewton
from drystone.solvers.projected_gradient import ProjectedGradient
from drystone.solvers.quadratic import QuadraticProgram
from drystone.solvers.rank import ConvexConcave
from drystone.solvers.solver import Solver

__all__ = ["EXACT", "GENERIC", "Cell", "cells", "markdown", "pick"]

# The solver made for each pair …
EXACT: dict[tuple[type[Form], type[Score]], Solver] = {
    pair: solver
    for solver in (
        SQP(),
        ConvexConcave(),
        QuadraticProgram(),
        LeastSquares(),
        InteriorPoint(),
        ProductNewton(),
        LikelihoodSQP(),
    )
    for pair in solver.solves
}
# … and each form's own for all other scores and for sums.
GENERIC: dict[type[Form], Solver] = {
    SimplexForm: ProjectedGradient(),
    LocalMixture: Gating(),
    SampleAggregation: LBFGS(),
    IntervalAggregation: InteriorPoint(),
    Product: ProductNewton(),
    LikelihoodMixture: LikelihoodSQP(),
}


def pick(form: Form, score: Score) -> Solver:
    """Return the solver for a form and a score.

    It is the form's own (``default_solver``, of a form that is not one of Drystone's), else the exact one of the
    pair, else the generic one of the form. A sum with an adversarial term is a game against a critic, whatever
    else is in it.

    Example:
        >>> from drystone.forms import Mixture
        >>> from drystone.scores import LogScore, RankCvM
        >>> pick(Mixture(), LogScore()), pick(Mixture(), LogScore() + RankCvM())
        (SQP(), ProjectedGradient())
    """
    own = form.default_solver()
    if own is not None:
        return own
    terms = [term for _, term in score.terms]
    if len(terms) == 1 and (type(form), type(terms[0])) in EXACT:
        return EXACT[type(form), type(terms[0])]
    if any(term.adversarial for term in terms):
        return Minimax()
    for cls in type(form).__mro__:
        if cls in GENERIC:
            return GENERIC[cls]
    raise IntractableError(
        f"no solver is known for {type(form).__name__}: return one from its `default_solver`, or pass `solver=`."
    )


@dataclass(frozen=True)
class Cell:
    """One cell: the solver's name, whether its result is certified, or why the cell is blank.

    Attributes:
        solver: its name, or empty.
        certified: whether the default form's result always carries a certificate.
        certified_variants: whether the variants do that the default form chooses among by cross-validation.
        why_blank: a sentence, or empty.
    """

    solver: str = ""
    certified: bool = False
    certified_variants: bool = False
    why_blank: str = ""


def cells() -> dict[tuple[type[Form], type[Score]], Cell]:
    """Return all cells, from what forms give, what scores need, and which solver is registered."""
    return {(form, score): _cell(form(), score()) for form in FORMS for score in SCORES}


def _cell(form: Form, score: Score) -> Cell:
    missing = sorted(score.needs - form.gives)
    if missing:
        return Cell(why_blank=f"{type(form).__name__} has no {', '.join(missing)}")
    solver = pick(form, score)
    why = solver.unsupported_reason(form, score)
    if why:
        return Cell(why_blank=why)
    certified = (type(form), type(score)) in EXACT and solver.certifies
    return Cell(type(solver).__name__, certified and not form.chooses, certified and form.chooses)


def markdown() -> str:
    """Return the table in Markdown, with links to the files."""
    table = cells()
    lines = ["| | " + " | ".join(_link("scores", score) for score in SCORES) + " |"]
    lines.append("|---" * (len(SCORES) + 1) + "|")
    for form in FORMS:
        row = [table[form, score] for score in SCORES]
        lines.append(f"| {_link('forms', form)} | " + " | ".join(map(_shown, row)) + " |")
    return "\n".join(lines)


def _shown(cell: Cell) -> str:
    if cell.certified_variants:
        return f"{cell.solver} (✓)"
    return f"**{cell.solver}** ✓" if cell.certified else cell.solver or "–"


def _link(folder: str, cls: type) -> str:
    return f"[`{cls.__name__}`](src/drystone/{folder}/{cls.__module__.rpartition('.')[2]}.py)"


if __name__ == "__main__":
    print(markdown())
