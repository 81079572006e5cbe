from . import flows
from .ensemble import Ensemble
from .errors import ConvergenceWarning, IntractableError, StackingError
from .sweep import Configuration, Sweep
from .train import train

__version__: str
__all__ = [
    "Configuration",
    "ConvergenceWarning",
    "Ensemble",
    "IntractableError",
    "StackingError",
    "Sweep",
    "flows",
    "train",
]
