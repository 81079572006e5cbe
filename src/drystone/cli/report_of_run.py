"""The report of a run, or of a table, from the evaluation of its fits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import drystone as ds
from drystone.errors import StackingError
from drystone.report import Observation, observe, write

if TYPE_CHECKING:
    from drystone.advice import Advice
    from drystone.runs import Config, Run
    from drystone.runs.evaluation import Evaluation

__all__ = ["report_of_run", "report_of_table"]

# The most seconds for the refits that the advice rests on.
ADVICE_SECONDS = 10.0
# Test rows whose posteriors are drawn.
SHOWN_ROWS = 2


def report_of_run(run: Run, config: Config, evaluation: Evaluation, command: str) -> Path:
    """Write ``report.html`` of a run, with its members and posteriors at two test rows, exact ones if known."""
    ensemble = _ensemble(run, evaluation)
    return write(
        run.report,
        validation=evaluation.validation,
        test=evaluation.test,
        fits=evaluation.comparison.fits,
        comparison=evaluation.comparison,
        exact=evaluation.exact,
        advice=_advice(evaluation),
        members=None if ensemble is None else ensemble.frame,
        observations=None if ensemble is None else _observations(evaluation, ensemble, config),
        title=f"Stacking report: {config.simulate.task or run.path.resolve().name}",
        command=command,
    )


def report_of_table(path: Path, evaluation: Evaluation, command: str) -> Path:
    """Write the report of a table, which comes without its members."""
    return write(
        path,
        validation=evaluation.validation,
        test=evaluation.test,
        fits=evaluation.comparison.fits,
        comparison=evaluation.comparison,
        advice=_advice(evaluation),
        command=command,
    )


def _ensemble(run: Run, evaluation: Evaluation) -> ds.Ensemble | None:
    """Return the run's members, or None if its table was made elsewhere from other members."""
    if not any(run.members.glob("*.json")):
        return None
    ensemble = ds.Ensemble.load(run.members)
    return ensemble if set(evaluation.test.names) <= set(ensemble.names) else None


def _advice(evaluation: Evaluation) -> Advice | Sequence[str]:
    """Return the advice on the first fit."""
    first = next(iter(evaluation.comparison.fits.values()))
    try:
        return ds.advise(first, evaluation.validation, seconds=ADVICE_SECONDS)
    except (StackingError, ValueError):  # a form or a score that cannot be refitted
        return ()


def _observations(evaluation: Evaluation, ensemble: ds.Ensemble, config: Config) -> Sequence[Observation] | None:
    """Draw at the first test rows: more draws than the table holds, and exact ones where the task has them."""
    from drystone.runs import stages

    if evaluation.test.y is None:
        return None
    # The exact posterior was computed, so that the task's code has been imported, if it has any.
    task = stages.load_task(config, trust=True) if config.simulate.task and evaluation.exact is not None else None
    members = dict(zip(ensemble.names, ensemble, strict=True))
    return [
        observe(
            f"test simulation {row}",
            evaluation.test.y[row],
            members,
            evaluation.comparison.fits,
            best=evaluation.comparison.best,
            truth=evaluation.test.theta[row],
            task=task,
        )
        for row in range(min(SHOWN_ROWS, evaluation.test.N))
    ]
