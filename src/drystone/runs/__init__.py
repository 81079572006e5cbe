"""Runs: directories in which every stage from simulator to report keeps its files, and which survive a kill."""

from drystone.runs.config import Config
from drystone.runs.run import Run

__all__ = ["Config", "Run"]
