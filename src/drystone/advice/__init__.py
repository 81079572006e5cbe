"""Advice on a stacking: which members matter, how stable the weights are, whether more of anything would help."""

from drystone.advice.advise import advise
from drystone.advice.bootstrap import WeightBootstrap
from drystone.advice.further import Further
from drystone.advice.gain import GainCurve
from drystone.advice.learning import LearningCurve
from drystone.advice.redundancy import DropOne
from drystone.advice.result import Advice

__all__ = ["Advice", "DropOne", "Further", "GainCurve", "LearningCurve", "WeightBootstrap", "advise"]
