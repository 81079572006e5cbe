"""Simulations from a prior and a simulator."""

from drystone.simulation.simulate import simulate
from drystone.simulation.simulations import Simulations

__all__ = ["Simulations", "simulate"]
