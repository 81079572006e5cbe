"""Train ensembles of neural posteriors and likelihoods."""

from drystone._messages import require

for _module in ("numba", "safetensors", "threadpoolctl"):
    require(_module, "train", "training")

from drystone.training.distill import distill
from drystone.training.ensemble import Ensemble
from drystone.training.sweep import Configuration, Sweep
from drystone.training.train import train

__all__ = ["Configuration", "Ensemble", "Sweep", "distill", "train"]
