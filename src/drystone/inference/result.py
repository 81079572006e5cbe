"""The result of a call: one posterior, how good it is, and what it was made of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import as_numpy
from drystone._messages import counted, html_list
from drystone.advice import Advice, advise
from drystone.comparison import Comparison
from drystone.diagnostics import PosteriorAt
from drystone.diagnostics.reference import FEWEST_ROWS
from drystone.errors import StackingError
from drystone.estimate import Estimate, mean_over_rows
from drystone.inference.inputs import one_row
from drystone.posterior import StackedPosterior
from drystone.report import Observation, write
from drystone.report.posteriors import observe_rows
from drystone.stacking import Stacking
from drystone.table import Table
from drystone.tasks import Task

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Inference", "reference_rows"]

# Processor time of the advice.
ADVICE_SECONDS = 10.0


@dataclass(frozen=True, eq=False)
class Inference:
    """One posterior out of simulations, and how good it is.

    Attributes:
        posterior: the stacked posterior of the refitted members: ``posterior.sample((1000,), x=y_o)``.
        fit: the stacking, on the rows that stopped the training.
        members: all members by name; those with weight trained again on all rows, likelihoods normalized.
        simulations: (theta, y) that members were trained and stacked on.
        prior: p(θ).
        comparison: the stack against the best member and uniform weights: on ``test``, with the refitted members;
            without a test, cross-fitted on the rows that the weights were fitted to, with the members before.
        table: the members before refitting, on the rows that stopped the training and fitted the weights.
        test: the members after refitting, on the test rows; None without a test. It has shared points if the stack
            is a product.
        frame: a row per member: kind, hyperparameters and course of the training.
        notes: what the user should know.
        crossed: the fit with weights by cross-fitting, for the rows of ``table``.
        held_out: the members before refitting.

    Example:
        >>> import drystone as ds
        >>> (theta, y), prior = ds.toy.simulate(400, seed=1), ds.tasks.Normal([0.0], [10**0.5])
        >>> test, settings = ds.toy.simulate(100, seed=2), {"members": 1, "target": "posterior", "epochs": 1}
        >>> result = ds.infer(theta, y, prior=prior, test=test, workers=1, **settings)
        >>> list(result.members), result.comparison.rows, result.frame["kind"].tolist()
        (['nsf-000'], 100, ['posterior'])
        >>> print(result.notes[0])
        Stacked as a mixture: ...
    """

    posterior: StackedPosterior
    fit: Stacking
    members: Mapping[str, Any] = field(repr=False)
    simulations: tuple[np.ndarray, np.ndarray] = field(repr=False)
    prior: object = field(repr=False)
    comparison: Comparison
    table: Table = field(repr=False)
    test: Table | None = field(repr=False)
    frame: pd.DataFrame = field(repr=False)
    notes: tuple[str, ...]
    crossed: Stacking = field(repr=False)
    held_out: Mapping[str, Any] = field(repr=False)

    @property
    def measured(self) -> Table:
        """The rows that ``comparison`` is of: the test rows, or those that the weights were fitted to."""
        return self.table if self.test is None else self.test

    @cached_property
    def advice(self) -> Advice:
        """Which members matter, whether more members or simulations would help, and what is at fault."""
        return advise(self.fit, self.table, seconds=ADVICE_SECONDS)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        at: ArrayLike | PosteriorAt | None = None,
        simulator: Any = None,
        exact: ArrayLike | None = None,
        task: Task | None = None,
        title: str = "Inference",
        command: str = "",
    ) -> Path:
        """Write a report: what was stacked, how good it is, and posteriors at two rows and at an observation.

        Args:
            path: The HTML file.
            at: An observation, or what ``posterior.at(y_o)`` gave: the page then begins with whether the posterior
                can be believed there. Its reference are the rows of ``measured``.
            simulator: To simulate data from the posterior at the observation: a task, or a function
                ``(theta, rng) -> y``; None for ``task``.
            exact: Log density of the exact posterior at the rows of ``measured``, (N,), if it is known.
            task: Gives exact draws beside the others, if it has them.
            title: Title of the page.
            command: The command line to print with the versions.
        """
        return write(
            path,
            validation=self.table,
            test=self.measured,
            fits=self.comparison.fits,
            comparison=self.comparison,
            members=self.frame,
            at=None if at is None else self._at(at, task if simulator is None else simulator),
            observations=self._observations(self.measured, task),
            exact=exact,
            advice=self._sentences(),
            title=title,
            command=command,
        )

    def gap(self, exact: ArrayLike) -> Estimate:
        """Return how far the posterior is from an exact one at the test rows, E KL in nats, with standard error.

        Args:
            exact: Log density of the exact posterior at the test rows, (N,).
        """
        if self.test is None:
            raise ValueError("there are no test rows: ds.infer(..., test=(theta, y)).")
        log_q = self.fit.apply(self.test).log_q
        return mean_over_rows(np.asarray(as_numpy(exact), float) - log_q, self.test.row_weights)

    def _sentences(self) -> list[str]:
        """Return the notes, which readers should see, before the advice."""
        try:
            return [*self.notes, *str(self.advice).splitlines()]
        except (StackingError, ValueError):  # a form that cannot be refitted
            return list(self.notes)

    def _at(self, at: ArrayLike | PosteriorAt, simulator: Any) -> PosteriorAt:
        """Return the posterior at the observation, held against the rows that everything is measured on."""
        if isinstance(at, PosteriorAt):
            return at
        # All members: the evidences of likelihoods without weight are compared, too. Without a test those before,
        # so that none was trained on the rows, which fitted the weights.
        members = self.held_out if self.test is None else self.members
        posterior = self.fit.posterior(members, reference=reference_rows(self.measured))
        return posterior.at(one_row("at", at, np.asarray(self.measured.y)), simulator=simulator)

    def _observations(self, measured: Table, task: Task | None) -> list[Observation]:
        """Return draws at the first rows, of members that these were held out of."""
        members = self.held_out if self.test is None else self.members
        return observe_rows(
            measured,
            members,
            {"stacked": self.fit},
            best=self.comparison.best,
            task=task,
            what="held-out simulation" if self.test is None else "test simulation",
        )

    def __repr__(self) -> str:
        return f"Inference({self.posterior!r}, {counted(self.table.K, 'member')}, {self.table.N} stacking rows)"

    def _repr_html_(self) -> str:
        return self.fit._repr_html_() + self.comparison._repr_html_() + html_list("Notes", self.notes)


def reference_rows(rows: Table | None) -> Table | None:
    """Return rows to hold an observation against, if there are enough."""
    return None if rows is None or rows.N < FEWEST_ROWS else rows
