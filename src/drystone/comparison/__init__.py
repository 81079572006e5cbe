"""Stacks against the best single member and uniform weights, on rows that nothing was fitted to."""

from drystone.comparison.compare import compare
from drystone.comparison.methods import (
    BASELINES,
    BEST,
    UNIFORM,
    UNIFORM_ENDS,
    Fits,
    gap_to_exact,
    methods,
    name_fits,
    single,
    uniform,
)
from drystone.comparison.metric import (
    COVERAGE_ERROR,
    ENERGY_SCORE,
    INTERVAL_SCORE,
    LOG_DENSITY,
    METRICS,
    MOMENT_ERROR,
    RANK_DISTANCE,
    CoverageError,
    Metric,
)
from drystone.comparison.result import Comparison, MethodResult, MetricResult

__all__ = [
    "BASELINES",
    "BEST",
    "COVERAGE_ERROR",
    "ENERGY_SCORE",
    "INTERVAL_SCORE",
    "LOG_DENSITY",
    "METRICS",
    "MOMENT_ERROR",
    "RANK_DISTANCE",
    "UNIFORM",
    "UNIFORM_ENDS",
    "Comparison",
    "CoverageError",
    "Fits",
    "MethodResult",
    "Metric",
    "MetricResult",
    "compare",
    "gap_to_exact",
    "methods",
    "name_fits",
    "single",
    "uniform",
]
