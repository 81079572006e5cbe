"""How the weights are found: one file an algorithm, and the rule that picks one."""

from drystone.forms import Form, IntervalAggregation, LocalMixture, Mixture, SampleAggregation
from drystone.scores import JensenShannon, Score
from drystone.solvers.gating import Gating
from drystone.solvers.interval import InteriorPoint
from drystone.solvers.lbfgs import Descent
from drystone.solvers.least_squares import LeastSquares
from drystone.solvers.log_score import SQP, Multiplicative
from drystone.solvers.minimax import Minimax
from drystone.solvers.projected_gradient import Gradient
from drystone.solvers.quadratic import QuadraticProgram
from drystone.solvers.rank import ConvexConcave
from drystone.solvers.solver import Solution, Solver

__all__ = [
    "EXACT",
    "GENERIC",
    "SQP",
    "ConvexConcave",
    "Descent",
    "Gating",
    "Gradient",
    "InteriorPoint",
    "LeastSquares",
    "Minimax",
    "Multiplicative",
    "QuadraticProgram",
    "Solution",
    "Solver",
    "pick",
]

# The solver made for each pair …
EXACT: dict[tuple[type[Form], type[Score]], Solver] = {
    pair: solver
    for solver in (SQP(), ConvexConcave(), QuadraticProgram(), LeastSquares(), InteriorPoint())
    for pair in solver.solves
}
# … and each form's own for all other scores and for sums.
GENERIC: dict[type[Form], Solver] = {
    Mixture: Gradient(),
    LocalMixture: Gating(),
    SampleAggregation: Descent(),
    IntervalAggregation: InteriorPoint(),
}


def pick(form: Form, score: Score) -> Solver:
    """The exact solver registered for this form and score, else the form's generic one.

    A sum with a Jensen–Shannon term is a game against a critic, whatever else is in it.

    Example:
        >>> from drystone.forms import Mixture
        >>> from drystone.scores import LogScore, RankCvM
        >>> pick(Mixture(), LogScore()), pick(Mixture(), LogScore() + RankCvM())
        (SQP(), Gradient())
    """
    terms = [term for _, term in score.terms]
    if len(terms) == 1 and (type(form), type(terms[0])) in EXACT:
        return EXACT[type(form), type(terms[0])]
    if any(isinstance(term, JensenShannon) for term in terms):
        return Minimax()
    return next(GENERIC[cls] for cls in type(form).__mro__ if cls in GENERIC)
