"""The report of a run, or of a table, out of what has been judged."""

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
    from drystone.runs.evaluation import Judged

__all__ = ["report_of_run", "report_of_table"]

# The advice rests on refits; they may take so many seconds.
ADVICE_SECONDS = 10.0
# Test rows whose posteriors are drawn.
SHOWN = 2


def report_of_run(run: Run, config: Config, judged: Judged, command: str) -> Path:
    """Write ``report.html`` of a run, with its members and posteriors of two test rows, exact ones if known."""
    ensemble = _ensemble(run, judged)
    return write(
        run.report,
        validation=judged.validation,
        test=judged.test,
        fits=judged.comparison.fits,
        comparison=judged.comparison,
        exact=judged.exact,
        advice=_advice(judged),
        members=None if ensemble is None else ensemble.frame,
        observations=None if ensemble is None else _observations(judged, ensemble, config),
        title=f"Stacking report: {config.simulate.task or run.path.resolve().name}",
        command=command,
    )


def report_of_table(path: Path, judged: Judged, command: str) -> Path:
    """Write the report of a table, whose members are not at hand."""
    return write(
        path,
        validation=judged.validation,
        test=judged.test,
        fits=judged.comparison.fits,
        comparison=judged.comparison,
        advice=_advice(judged),
        command=command,
    )


def _ensemble(run: Run, judged: Judged) -> ds.Ensemble | None:
    """The run's members, if they are those of its table: that may come from elsewhere."""
    if not any(run.members.glob("*.json")):
        return None
    ensemble = ds.Ensemble.load(run.members)
    return ensemble if set(judged.test.names) <= set(ensemble.names) else None


def _advice(judged: Judged) -> Advice | Sequence[str]:
    """What to do next, by the first fit."""
    first = next(iter(judged.comparison.fits.values()))
    try:
        return ds.advise(first, judged.validation, seconds=ADVICE_SECONDS)
    except (StackingError, ValueError):  # a form or a score whose refits say nothing
        return ()


def _observations(judged: Judged, ensemble: ds.Ensemble, config: Config) -> Sequence[Observation] | None:
    """Draws at the first test rows: more of them than the table holds, and exact ones where the task has them."""
    from drystone.runs import stages

    if judged.test.y is None:
        return None
    frame = judged.comparison.frame
    best = frame.loc[frame["method"] == "best", "member"].iloc[0]
    task = stages.task(config) if config.simulate.task and judged.exact is not None else None
    members = dict(zip(ensemble.names, ensemble, strict=True))
    return [
        observe(
            f"test simulation {row}",
            judged.test.y[row],
            members,
            judged.comparison.fits,
            best=best,
            truth=judged.test.theta[row],
            task=task,
        )
        for row in range(min(SHOWN, judged.test.N))
    ]
