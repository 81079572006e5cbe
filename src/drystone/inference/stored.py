"""The posterior of an inference that was written to a directory, without computing anything again."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from drystone._arrays import rows_of_data
from drystone._resume import Record, check_same, read_record
from drystone.errors import DamagedError
from drystone.inference.one_call import (
    LIKELIHOODS_IN,
    MEMBERS_IN,
    RECORD,
    REFITTED_IN,
    inputs_of,
    members_by_name,
    no_worse,
    split_rows,
)
from drystone.inference.results import FIT, NORMALIZER, settle
from drystone.posterior import StackedPosterior
from drystone.runs.normalizer import RunNormalizer
from drystone.stacking import Stacking
from drystone.training import Ensemble
from drystone.training.inputs import simulations

__all__ = ["stored_posterior"]

# Settings in the record of an inference.
SETTINGS = {"seed", "log_y", "epochs", "target"}


def stored_posterior(
    directory: str | os.PathLike[str], theta: np.ndarray, y: np.ndarray, prior: object
) -> tuple[Stacking, StackedPosterior]:
    """Return fit and posterior of ``ds.infer(theta, y, prior=prior, directory=directory)``, which has finished.

    Args:
        directory: with the files of the inference.
        theta: the simulations that it was made of, (N, d).
        y: their data.
        prior: p(θ).
    """
    home = Path(directory)
    settle(home)
    for name in (RECORD, NORMALIZER, FIT):
        if not (home / name).exists():
            raise FileNotFoundError(
                f"{home} has no finished inference: {name} is missing. Call infer there first."
            )
    fit = Stacking.load(home / FIT)
    theta, y = simulations(theta, rows_of_data("y", y), structured=False)
    inputs = inputs_of(theta, y, prior)
    record = recorded(home / RECORD, inputs)
    remedy = "Pass the simulations and the prior that it was made of."
    check_same(record, Record(record.settings, inputs), f"the inference in {home}", remedy)
    rows = split_rows(len(theta), record.settings["seed"])[1]
    refitted = _ensemble(home / REFITTED_IN)

    def after(first: Ensemble[Any] | None) -> Ensemble[Any] | None:
        """Return the members after refitting, as the inference chose them."""
        names = [] if first is None or refitted is None else [n for n in first.names if n in refitted.names]
        if first is None or refitted is None or not names:
            return None
        return no_worse(first, Ensemble([refitted[refitted.names.index(n)] for n in names]), theta[rows], y[rows])

    posteriors, likelihoods = (after(_ensemble(home / name)) for name in (MEMBERS_IN, LIKELIHOODS_IN))
    members = members_by_name(posteriors, likelihoods, RunNormalizer.load(home / NORMALIZER), prior)
    return fit, fit.posterior(members)


def recorded(path: Path, inputs: Collection[str]) -> Record:
    """Return what an inference was made of, of which these names are inputs."""
    record = read_record(path, inputs)
    unknown = record.settings.keys() ^ SETTINGS or [name for name in inputs if record.inputs[name] is None]
    if unknown or not isinstance(record.settings["seed"], int) or record.settings["seed"] < 0:
        raise DamagedError(f"{path} is damaged: it must hold {', '.join((*sorted(SETTINGS), *inputs))}.")
    return record


def _ensemble(directory: Path) -> Ensemble[Any] | None:
    """Return the members in a directory, or None if there are none."""
    return Ensemble.load(directory) if any(directory.glob("*.json")) else None
