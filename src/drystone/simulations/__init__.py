"""Simulations (θ, y): the result, the block in which they are made, the directory in which they are kept."""

from drystone.simulations.result import Simulations

__all__ = ["Simulations"]
