"""Pictures: who carries weight, what is gained, whether it is calibrated, how steady it is.

Every function draws on ``ax`` (a new one if None) and returns it; nothing global is changed. Colours mean the same
in every picture: members light grey, the best of them amber, uniform weights blue, stacks red, references black.
"""

from importlib.util import find_spec

if find_spec("matplotlib") is None:
    raise ImportError("ds.plots needs matplotlib, which is not installed: pip install 'drystone[plots]'.")

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
