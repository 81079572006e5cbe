"""The posterior of an inference that was written to a directory, without computing anything again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from drystone._files import read_json
from drystone.inference.one_call import (
    FIT,
    LIKELIHOODS_IN,
    MEMBERS_IN,
    NORMALIZER,
    RECORD,
    REFITTED_IN,
    members_by_name,
    no_worse,
    split_rows,
)
from drystone.posterior import StackedPosterior
from drystone.runs.normalizer import RunNormalizer
from drystone.stacking import Stacking
from drystone.training import Ensemble

__all__ = ["stored_posterior"]


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
    for name in (RECORD, NORMALIZER, FIT):
        if not (home / name).exists():
            raise FileNotFoundError(
                f"{home} has no finished inference: {name} is missing. Call infer there first."
            )
    fit = Stacking.load(home / FIT)
    rows = split_rows(len(theta), read_json(home / RECORD)["seed"])[1]
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


def _ensemble(directory: Path) -> Ensemble[Any] | None:
    """Return the members in a directory, or None if there are none."""
    return Ensemble.load(directory) if any(directory.glob("*.json")) else None
