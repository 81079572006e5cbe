"""The last row of Table 2 with the paper's own sweep: wide affine flows on mini-SimBIG.

Of the sweep's hundred members those are stacked that finish within two hours, the fastest trained first. The same
command again trains more.
"""

from functools import partial

from experiments.record import Experiment
from experiments.simbig import PAPER, draw, run, table

__all__ = ["EXPERIMENT"]

EXPERIMENT = Experiment(partial(run, setting=PAPER), table, {"simbig_maf_ranks": draw})
