"""The fits of a run judged on its test rows and, where the task knows it, against the exact posterior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

import drystone as ds
from drystone.comparison import Distance, distance, distances, methods
from drystone.report.verdict import verdict
from drystone.runs import stages
from drystone.runs.config import Config
from drystone.runs.run import Run

if TYPE_CHECKING:
    from drystone import Comparison, Table

__all__ = ["Judged", "judge"]


@dataclass(frozen=True, eq=False)
class Judged:
    """What there is to say of the fits of a run.

    Attributes:
        validation: the rows they were fitted to.
        test: the rows they are judged on.
        comparison: against the best member and uniform weights.
        exact: log p(θ_n | y_n) of the exact posterior on the test rows, (N,), or None.
        gaps: how far each method that has a density is from it.
    """

    validation: Table
    test: Table
    comparison: Comparison
    exact: np.ndarray | None = None
    gaps: Mapping[str, Distance] = field(default_factory=dict)

    @property
    def exact_mean(self) -> float | None:
        """Mean log density of the exact posterior: no method can beat it."""
        return None if self.exact is None else float(self.test.row_weights @ self.exact)

    @property
    def verdict(self) -> str:
        """What the first fit comes to, in a sentence."""
        name, fit = next(iter(self.comparison.fits.items()))
        best = str(self.comparison.frame["member"].iloc[0])
        exact = distances(self.exact, fit, best, self.test)
        return verdict(self.comparison, name, self.test, exact).headline.replace("\u00a0", " ")


def judge(run: Run, config: Config, *, exact: bool = False) -> Judged:
    """Compare the fits of a run; with ``exact`` the task's exact posterior is worked out on the test rows."""
    validation, test = stages.split(run, config)
    comparison = ds.compare(validation, test, stages.fits(run, config))
    if not exact:
        return Judged(validation, test, comparison)
    truth = stages.task(config).log_posterior(test.theta, np.asarray(test.y, float))
    return Judged(validation, test, comparison, truth, _gaps(truth, comparison, test))


def _gaps(truth: np.ndarray, comparison: Comparison, test: Table) -> dict[str, Distance]:
    """The distance of each method that has a density, the best member first."""
    frame = comparison.frame
    chosen = frame.loc[(frame["metric"] == "log density") & (frame["method"] == "best"), "member"]
    if chosen.empty:
        return {}
    log_q = {"best": test.log_q[test.names.index(chosen.iloc[0])]}
    with torch.no_grad():
        log_q |= {name: q.log_q().numpy() for name, q in methods(test, comparison.fits, {"log_q"}).items()}
    return {name: distance(truth, q, test.row_weights) for name, q in log_q.items()}
