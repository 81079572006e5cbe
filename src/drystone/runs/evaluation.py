"""The fits of a run compared on its test rows and, where the task has one, with the exact posterior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

import drystone as ds
from drystone.comparison import gap_to_exact
from drystone.estimate import Estimate
from drystone.report.verdict import verdict
from drystone.runs import outputs
from drystone.runs.config import Config
from drystone.runs.run import Run
from drystone.runs.task import load_task

if TYPE_CHECKING:
    from drystone import Comparison, Table

__all__ = ["Evaluation", "evaluate"]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The results of a run's fits on its test rows.

    Attributes:
        validation: the rows that the weights were fitted to.
        test: the rows that the fits are compared on.
        comparison: the fits compared with the best member and with uniform weights.
        exact: log p(θ_n | y_n) of the exact posterior on the test rows, (N,), or None.
        gaps: distance from the exact posterior of each method that has a density, in nats.
    """

    validation: Table
    test: Table
    comparison: Comparison
    exact: np.ndarray | None = None
    gaps: Mapping[str, Estimate] = field(default_factory=dict)

    @property
    def exact_mean(self) -> float | None:
        """Mean log density of the exact posterior, an upper bound in expectation for every method."""
        return None if self.exact is None else float(self.test.row_weights @ self.exact)

    @property
    def verdict(self) -> str:
        """The verdict on the first fit, in one sentence."""
        name = next(iter(self.comparison.fits))
        return verdict(self.comparison, name, self.test, self.gaps).headline.replace("\u00a0", " ")


def evaluate(run: Run, config: Config, *, exact: bool = False, trust: bool = False) -> Evaluation:
    """Compare the fits of a run; with ``exact`` the task's exact posterior is computed on the test rows.

    A task that is code is imported only with ``trust``.
    """
    validation, test = outputs.load_split(run, config)
    comparison = ds.compare(validation, test, outputs.load_fits(run, config))
    if not exact:
        return Evaluation(validation, test, comparison)
    log_p = load_task(config, trust).log_posterior(test.theta, np.asarray(test.y, float))
    gaps = gap_to_exact(log_p, test, comparison.fits, comparison.best)
    return Evaluation(validation, test, comparison, log_p, gaps)
