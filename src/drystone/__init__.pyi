from . import forms, scores, solvers, toy
from .compare import Comparison, compare
from .errors import ConvergenceWarning, IntractableError, StackingError
from .forms import Mixture
from .posterior import StackedPosterior
from .scores import EnergyScore, LogScore, MeanScore, MomentScore, RankCvM, RankMoments, RowScore, Score
from .stack import Stacking, stack
from .table import Table

__version__: str
__all__ = [
    "Comparison",
    "ConvergenceWarning",
    "EnergyScore",
    "IntractableError",
    "LogScore",
    "MeanScore",
    "Mixture",
    "MomentScore",
    "RankCvM",
    "RankMoments",
    "RowScore",
    "Score",
    "StackedPosterior",
    "Stacking",
    "StackingError",
    "Table",
    "compare",
    "forms",
    "scores",
    "solvers",
    "stack",
    "toy",
]
