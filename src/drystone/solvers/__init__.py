"""How the weights are found: one file an algorithm, and the rule that picks one."""

from drystone.forms import Form
from drystone.scores import Score, Sum
from drystone.solvers.convex_concave import ConvexConcave
from drystone.solvers.gradient import Gradient
from drystone.solvers.quadratic import QuadraticProgram
from drystone.solvers.solver import Solution, Solver
from drystone.solvers.sqp import SQP, Multiplicative

__all__ = [
    "EXACT",
    "SQP",
    "ConvexConcave",
    "Gradient",
    "Multiplicative",
    "QuadraticProgram",
    "Solution",
    "Solver",
    "pick",
]

# The solver made for each pair; every other pair is the gradient solver's.
EXACT: dict[tuple[type[Form], type[Score]], Solver] = {
    pair: solver for solver in (SQP(), ConvexConcave(), QuadraticProgram()) for pair in solver.solves
}


def pick(form: Form, score: Score) -> Solver:
    """The exact solver registered for this form and score, else the gradient solver.

    Example:
        >>> from drystone.forms import Mixture
        >>> from drystone.scores import LogScore, RankCvM
        >>> pick(Mixture(), LogScore()), pick(Mixture(), LogScore() + RankCvM())
        (SQP(), Gradient())
    """
    if isinstance(score, Sum) and len(score) == 1:
        ((_, score),) = score
    return EXACT.get((type(form), type(score)), Gradient())
