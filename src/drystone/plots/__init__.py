"""Pictures: the weights, what is gained, whether it is calibrated, how steady it is.

Every function draws on ``ax`` (a new one if None) and returns it; nothing global is changed. Colors mean the same
in every picture and in the report: members grey, the best of them orange, uniform weights blue, references black,
the first fit red and each further fit a color or a dash of its own.
"""

from drystone._messages import require

require("matplotlib", "plots", "ds.plots")

from drystone.plots.calibration import coverage, rank_ecdf, rank_histogram, tarp
from drystone.plots.palette import COLOURS
from drystone.plots.posterior import pairs
from drystone.plots.stacks import comparison, gain_curve, weight_stability, weights

__all__ = [
    "COLOURS",
    "comparison",
    "coverage",
    "gain_curve",
    "pairs",
    "rank_ecdf",
    "rank_histogram",
    "tarp",
    "weight_stability",
    "weights",
]
