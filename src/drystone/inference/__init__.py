"""From simulations to one posterior, and on to a better one at your observation."""

from drystone.inference.infer import infer
from drystone.inference.refine import Refinement, refine
from drystone.inference.result import Inference

__all__ = ["Inference", "Refinement", "infer", "refine"]
