"""The ensembles of the paper's two tables: fifty affine flows of its own sweep, and fifty spline flows of ours."""

from __future__ import annotations

from drystone.experiments.ensembles import Setting
from drystone.sweep import Sweep

__all__ = ["affine", "spline"]


def affine(task: str) -> Setting:
    """Return the paper's sweep of masked affine flows; fifty epochs, as in its figures."""
    return Setting(task, "maf", Sweep.paper(), epochs=50)


def spline(task: str) -> Setting:
    """Return our sweep of small spline flows, trained until they stop improving."""
    return Setting(task, "nsf", Sweep())
