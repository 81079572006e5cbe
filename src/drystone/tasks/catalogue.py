"""The tasks by name."""

from __future__ import annotations

from collections.abc import Callable

from drystone._messages import unknown
from drystone.tasks.gaussian import Gaussian
from drystone.tasks.gaussian_mixture import GaussianMixture
from drystone.tasks.lotka_volterra import LotkaVolterra
from drystone.tasks.sir import SIR
from drystone.tasks.slcp import SLCP
from drystone.tasks.task import Task
from drystone.tasks.two_moons import TwoMoons

__all__ = ["get", "names"]

_TASKS: dict[str, Callable[[], Task]] = {
    task.name: task for task in (Gaussian, GaussianMixture, LotkaVolterra, SIR, SLCP, TwoMoons)
}


def names() -> tuple[str, ...]:
    """Return the names of all tasks, in alphabetical order.

    Example:
        >>> import drystone as ds
        >>> ds.tasks.names()
        ('gaussian', 'gaussian_mixture', 'lotka_volterra', 'sir', 'slcp', 'two_moons')
    """
    return tuple(sorted(_TASKS))


def get(name: str) -> Task:
    """Return the task called ``name``, with its default settings.

    Example:
        >>> get("slcp")
        <Task slcp: 5 parameters, 8 data values>
    """
    if name not in _TASKS:
        raise ValueError(unknown("task", name, _TASKS))
    return _TASKS[name]()
