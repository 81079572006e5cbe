"""Forms times scores: fit a stack, and the result."""

from drystone.stacking.result import Stacking
from drystone.stacking.stack import stack

__all__ = ["Stacking", "stack"]
