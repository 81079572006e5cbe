"""Simulators with exact posteriors, from which the distance of any method is measured in nats."""

from drystone.simulation.prior import LogNormal, Normal, Prior, Uniform
from drystone.simulation.support import Support
from drystone.tasks.catalogue import get, names
from drystone.tasks.gaussian import Gaussian
from drystone.tasks.gaussian_mixture import GaussianMixture
from drystone.tasks.lotka_volterra import LotkaVolterra
from drystone.tasks.sir import SIR
from drystone.tasks.slcp import SLCP
from drystone.tasks.task import Ceiling, Task
from drystone.tasks.two_moons import TwoMoons

__all__ = [
    "SIR",
    "SLCP",
    "Ceiling",
    "Gaussian",
    "GaussianMixture",
    "LogNormal",
    "LotkaVolterra",
    "Normal",
    "Prior",
    "Support",
    "Task",
    "TwoMoons",
    "Uniform",
    "get",
    "names",
]
