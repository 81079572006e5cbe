"""mini-SimBIG: a small galaxy-clustering forward model with 14 parameters and 3,677 summaries."""

from experiments.minisimbig.task import FIDUCIAL, MiniSimBIG

__all__ = ["FIDUCIAL", "MiniSimBIG"]
