"""The last row of Table 2 with the paper's own sweep: a hundred wide affine flows on mini-SimBIG."""

from functools import partial

from experiments.record import Experiment
from experiments.simbig import PAPER, draw, run, table

__all__ = ["EXPERIMENT"]

EXPERIMENT = Experiment(partial(run, setting=PAPER), table, {"simbig_maf_ranks": draw})
