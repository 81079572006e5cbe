"""From simulations to one posterior, and on to a better one at your observation."""

from drystone.inference.one_call import MEMBERS, Inference, infer
from drystone.inference.refinement import Refinement, refine

__all__ = ["MEMBERS", "Inference", "Refinement", "infer", "refine"]
