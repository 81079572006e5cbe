"""Train ensembles of neural posteriors."""

from drystone.training.ensemble import Ensemble
from drystone.training.sweep import Configuration, Sweep
from drystone.training.train import train

__all__ = ["Configuration", "Ensemble", "Sweep", "train"]
