"""Algorithms that fit the parameters of a form, one file each, and the table that picks one."""

from drystone.solvers.gating import Gating
from drystone.solvers.interval import InteriorPoint
from drystone.solvers.lbfgs import LBFGS
from drystone.solvers.least_squares import LeastSquares
from drystone.solvers.log_score import SQP, Multiplicative
from drystone.solvers.minimax import Minimax
from drystone.solvers.product import LikelihoodSQP, ProductNewton
from drystone.solvers.projected_gradient import ProjectedGradient
from drystone.solvers.quadratic import QuadraticProgram
from drystone.solvers.rank import ConvexConcave
from drystone.solvers.solver import Solution, Solver, Status

__all__ = [
    "LBFGS",
    "SQP",
    "ConvexConcave",
    "Gating",
    "InteriorPoint",
    "LeastSquares",
    "LikelihoodSQP",
    "Minimax",
    "Multiplicative",
    "ProductNewton",
    "ProjectedGradient",
    "QuadraticProgram",
    "Solution",
    "Solver",
    "Status",
]
