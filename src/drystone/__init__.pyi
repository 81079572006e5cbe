from . import forms, scores, solvers, toy
from .compare import Comparison, compare
from .errors import ConvergenceWarning, IntractableError, StackingError
from .forms import Form, IntervalAggregation, LocalMixture, Mixture, SampleAggregation
from .posterior import StackedPosterior
from .scores import (
    EnergyScore,
    IntervalScore,
    JensenShannon,
    LogScore,
    MeanScore,
    MomentScore,
    RankCvM,
    RankMoments,
    RowScore,
    Score,
)
from .stack import Stacking, stack
from .table import Table
from .tune import Tuned, tune

__version__: str
__all__ = [
    "Comparison",
    "ConvergenceWarning",
    "EnergyScore",
    "Form",
    "IntervalAggregation",
    "IntervalScore",
    "IntractableError",
    "JensenShannon",
    "LocalMixture",
    "LogScore",
    "MeanScore",
    "Mixture",
    "MomentScore",
    "RankCvM",
    "RankMoments",
    "RowScore",
    "SampleAggregation",
    "Score",
    "StackedPosterior",
    "Stacking",
    "StackingError",
    "Table",
    "Tuned",
    "compare",
    "forms",
    "scores",
    "solvers",
    "stack",
    "toy",
    "tune",
]
