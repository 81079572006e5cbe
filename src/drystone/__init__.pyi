from . import tasks
from .errors import ConvergenceWarning, IntractableError, StackingError
from .simulate import simulate
from .simulations import Simulations
from .tasks import Task

__version__: str
__all__ = [
    "ConvergenceWarning",
    "IntractableError",
    "Simulations",
    "StackingError",
    "Task",
    "simulate",
    "tasks",
]
