from . import adapters, diagnostics, flows, forms, plots, report, scores, solvers, tasks, toy
from .advice import Advice, advise
from .comparison import Comparison, Metric, compare
from .errors import (
    ConvergenceWarning,
    DamagedError,
    IntractableError,
    LockedError,
    SamplingError,
    StackingError,
    StaleError,
)
from .forms import Form, IntervalAggregation, LikelihoodMixture, LocalMixture, Mixture, Product, SampleAggregation
from .inference import Inference, Refinement, infer, refine
from .likelihood import normalize
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
from .simulation import Simulations, simulate
from .stacking import Stacking, stack
from .stacking.tune import Tuned, tune
from .table import Table
from .tabulation import tabulate
from .tasks import Task
from .training import Configuration, Ensemble, Sweep, distill, train

__version__: str
__all__ = [
    "Advice",
    "Comparison",
    "Configuration",
    "ConvergenceWarning",
    "DamagedError",
    "EnergyScore",
    "Ensemble",
    "Form",
    "Inference",
    "IntervalAggregation",
    "IntervalScore",
    "IntractableError",
    "JensenShannon",
    "LikelihoodMixture",
    "LocalMixture",
    "LockedError",
    "LogScore",
    "MeanScore",
    "Metric",
    "Mixture",
    "MomentScore",
    "Product",
    "RankCvM",
    "RankMoments",
    "Refinement",
    "RowScore",
    "SampleAggregation",
    "SamplingError",
    "Score",
    "Simulations",
    "StackedPosterior",
    "Stacking",
    "StackingError",
    "StaleError",
    "Sweep",
    "Table",
    "Task",
    "Tuned",
    "adapters",
    "advise",
    "compare",
    "diagnostics",
    "distill",
    "flows",
    "forms",
    "infer",
    "normalize",
    "plots",
    "refine",
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
