"""What to do next: which members matter, how steady the weights are, whether more of anything would help."""

from drystone.advice.bootstrap import WeightBootstrap, bootstrap
from drystone.advice.gain import GainCurve, gain_curve

__all__ = ["GainCurve", "WeightBootstrap", "bootstrap", "gain_curve"]
