"""Runs: directories that hold the files of every stage from simulator to report, and survive a killed process."""

from drystone.runs.config import Config
from drystone.runs.run import Run

__all__ = ["Config", "Run"]
