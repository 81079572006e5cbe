"""The report of a run, or of a table, from the evaluation of its fits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import drystone as ds
from drystone.errors import StackingError
from drystone.report import Observation, write
from drystone.report.posteriors import observe_rows

if TYPE_CHECKING:
    import pandas as pd

    from drystone.advice import Advice
    from drystone.diagnostics import PosteriorAt
    from drystone.runs import Config, Run
    from drystone.runs.evaluation import Evaluation

__all__ = ["report_of_run", "report_of_table"]

# The most seconds for the refits that the advice rests on.
ADVICE_SECONDS = 10.0


def report_of_run(
    run: Run,
    config: Config,
    evaluation: Evaluation,
    command: str,
    trust: bool = False,
    at: Path | None = None,
) -> Path:
    """Write ``report.html`` of a run, with its members and posteriors at two test rows, exact ones if known.

    A task that is code, whose prior likelihoods need, is imported only with ``trust``. ``at`` is the file of the
    user's own observation.
    """
    members, frame = _members(run, config, evaluation, trust)
    return write(
        run.report,
        validation=evaluation.validation,
        test=evaluation.test,
        fits=evaluation.comparison.fits,
        comparison=evaluation.comparison,
        exact=evaluation.exact,
        advice=_advice(evaluation),
        members=frame,
        at=None if at is None else _at(at, evaluation, members, config, trust),
        observations=None if members is None else _observations(evaluation, members, config, trust),
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


def _members(
    run: Run, config: Config, evaluation: Evaluation, trust: bool
) -> tuple[dict[str, Any] | None, pd.DataFrame | None]:
    """Return the run's members and their hyperparameters, or None if its table was made from other members."""
    import pandas as pd

    from drystone.runs import outputs

    ensembles = {
        kind: ds.Ensemble.load(directory)
        for kind, directory in (("posterior", run.members), ("likelihood", run.likelihoods))
        if any(directory.glob("*.json"))
    }
    if not set(evaluation.test.names) <= {name for ensemble in ensembles.values() for name in ensemble.names}:
        return None, None
    if "likelihood" not in ensembles:
        posteriors = ensembles["posterior"]
        return dict(zip(posteriors.names, posteriors, strict=True)), posteriors.frame
    frame = pd.concat([ensemble.frame.assign(kind=kind) for kind, ensemble in ensembles.items()])
    return outputs.load_stacked_members(run, config, trust), frame


def _at(
    path: Path, evaluation: Evaluation, members: dict[str, Any] | None, config: Config, trust: bool
) -> PosteriorAt:
    """Return the posterior of the first fit at the observation in a file, held against the test rows."""
    from drystone.runs.imported import read_npy
    from drystone.runs.task import load_task, with_prior

    if members is None:
        raise ValueError("--at needs the members of the table, which the run does not have.")
    fit = with_prior(next(iter(evaluation.comparison.fits.values())), config, trust)
    # A task that is code simulates only if that is trusted.
    known = bool(config.simulate.task) and (trust or ":" not in config.simulate.task)
    simulator = load_task(config, trust) if known else None
    return fit.posterior(members, reference=evaluation.test).at(read_npy(path), simulator=simulator)


def _advice(evaluation: Evaluation) -> Advice | Sequence[str]:
    """Return the advice on the first fit."""
    first = next(iter(evaluation.comparison.fits.values()))
    try:
        return ds.advise(first, evaluation.validation, seconds=ADVICE_SECONDS)
    except (StackingError, ValueError):  # a form or a score that cannot be refitted
        return ()


def _observations(
    evaluation: Evaluation, members: dict[str, Any], config: Config, trust: bool
) -> Sequence[Observation] | None:
    """Draw at the first test rows: more draws than the table holds, and exact ones where the task has them."""
    from drystone.runs.task import load_task, with_prior

    if evaluation.test.y is None:
        return None
    # The exact posterior was computed, so that the task's code has been imported, if it has any.
    task = load_task(config, trust=True) if config.simulate.task and evaluation.exact is not None else None
    fits = {name: with_prior(fit, config, trust) for name, fit in evaluation.comparison.fits.items()}
    return observe_rows(evaluation.test, members, fits, best=evaluation.comparison.best, task=task)
