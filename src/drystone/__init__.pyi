from . import adapters, diagnostics, flows, forms, plots, report, scores, solvers, tasks, toy
from .advice import Advice, advise
from .compare import Comparison, compare
from .ensemble import Ensemble
from .errors import ConvergenceWarning, IntractableError, SamplingError, StackingError
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
from .simulate import simulate
from .simulations import Simulations
from .stack import stack
from .stacking import Stacking
from .sweep import Configuration, Sweep
from .table import Table
from .tabulate import tabulate
from .tasks import Task
from .train import train
from .tune import Tuned, tune

__version__: str
__all__ = [
    "Advice",
    "Comparison",
    "Configuration",
    "ConvergenceWarning",
    "EnergyScore",
    "Ensemble",
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
    "SamplingError",
    "Score",
    "Simulations",
    "StackedPosterior",
    "Stacking",
    "StackingError",
    "Sweep",
    "Table",
    "Task",
    "Tuned",
    "adapters",
    "advise",
    "compare",
    "diagnostics",
    "flows",
    "forms",
    "plots",
    "report",
    "scores",
    "simulate",
    "solvers",
    "stack",
    "tabulate",
    "tasks",
    "toy",
    "train",
    "tune",
]
