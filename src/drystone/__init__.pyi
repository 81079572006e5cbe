from .errors import ConvergenceWarning, IntractableError, StackingError

__version__: str
__all__ = [
    "ConvergenceWarning",
    "IntractableError",
    "StackingError",
]
