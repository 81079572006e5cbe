"""The posterior of an inference that was written to a directory, without computing anything again."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from drystone._arrays import rows_of_data
from drystone._resume import Record, check_same, read_record
from drystone.errors import DamagedError, StaleError
from drystone.inference.disk import (
    FIT,
    LIKELIHOODS_IN,
    MEMBERS_IN,
    NORMALIZER,
    RECORD,
    REFITTED_IN,
    STACKING,
    TEST,
    settle,
)
from drystone.inference.inputs import inputs_of
from drystone.inference.members import Networks, no_worse, used_members
from drystone.posterior import StackedPosterior
from drystone.runs.normalizer import RunNormalizer
from drystone.simulation.prior import as_prior
from drystone.stacking import Stacking
from drystone.table import Table
from drystone.training import Ensemble
from drystone.training.inputs import simulations

__all__ = ["stored_posterior", "stored_tables"]

# Settings and inputs in the record of an inference.
SETTINGS, INPUTS = {"seed", "log_y", "epochs", "target"}, ("theta", "y", "prior")


def stored_posterior(
    directory: str | os.PathLike[str], prior: object, made_of: tuple[np.ndarray, np.ndarray] | None = None
) -> tuple[Stacking, StackedPosterior]:
    """Return fit and posterior of ``ds.infer(theta, y, prior=prior, directory=directory)``, which has finished.

    Args:
        directory: with the files of the inference.
        prior: p(θ).
        made_of: the simulations (theta, y), if it is to be checked that it was made of them and of this prior.
    """
    home = Path(directory)
    settle(home)
    for name in (RECORD, NORMALIZER, FIT):
        if not (home / name).exists():
            raise FileNotFoundError(
                f"{home} has no finished inference: {name} is missing. Call infer there first."
            )
    fit = Stacking.load(home / FIT)
    record = recorded(home / RECORD, INPUTS)
    if made_of is not None:
        theta, y = simulations(made_of[0], rows_of_data("y", made_of[1]), structured=False)
        current = Record(record.settings, inputs_of(theta, y, prior))
        remedy = "Pass the simulations and the prior that it was made of."
        check_same(record, current, f"the inference in {home}", remedy)
    table, _ = stored_tables(home)
    _check_prior(home, table, prior)
    normalizer, rows = RunNormalizer.load(home / NORMALIZER), (table.theta, np.asarray(table.y))
    # The directories may also hold members of earlier calls.
    tabulated, used = {*table.names, *table.left_out}, used_members(fit, normalizer, table)
    refitted = _ensemble(home / REFITTED_IN, used)

    def after(first: Ensemble[Any] | None) -> Ensemble[Any] | None:
        """Return the members after refitting, as the inference chose them."""
        names = [] if first is None or refitted is None else [n for n in first.names if n in refitted.names]
        if first is None or refitted is None or not names:
            return None
        return no_worse(first, Ensemble([refitted[name] for name in names]), *rows)

    networks = Networks(_ensemble(home / MEMBERS_IN, tabulated), _ensemble(home / LIKELIHOODS_IN, tabulated))
    members = networks.members(normalizer, prior)
    members |= Networks(after(networks.posteriors), after(networks.likelihoods)).members(normalizer, prior)
    return fit, fit.posterior(members)


def stored_tables(directory: str | os.PathLike[str]) -> tuple[Table, Table]:
    """Return the rows that the weights were fitted to, and those that everything is measured on."""
    paths = [Path(directory) / name / "table.zarr" for name in (STACKING, TEST)]
    tables = [Table.load(path) for path in paths if path.exists()]
    if not tables:
        raise FileNotFoundError(f"there is no finished inference: {paths[0]} is missing. Call infer there first.")
    return tables[0], tables[-1]


def _check_prior(home: Path, table: Table, prior: object) -> None:
    """Raise if the prior at the rows is not that of the inference; the first shared point of a row is θ."""
    log_prior = table.log_prior if "points" in table.gives else None
    if log_prior is not None and not np.allclose(as_prior(prior).log_prob(table.theta), log_prior[:, 0]):
        raise StaleError(
            f"the inference in {home} was made with another prior than the one of now. Restore the bounds or the "
            "task, or infer again in another directory."
        )


def recorded(path: Path, inputs: Collection[str]) -> Record:
    """Return what an inference was made of, of which these names are inputs."""
    record = read_record(path, inputs)
    unknown = record.settings.keys() ^ SETTINGS or [name for name in inputs if record.inputs[name] is None]
    if unknown or not isinstance(record.settings["seed"], int) or record.settings["seed"] < 0:
        raise DamagedError(f"{path} is damaged: it must hold {', '.join((*sorted(SETTINGS), *inputs))}.")
    return record


def _ensemble(directory: Path, names: Collection[str]) -> Ensemble[Any] | None:
    """Return the members of these names in a directory, or None if there are none."""
    found = Ensemble.load(directory) if any(directory.glob("*.json")) else ()
    chosen = [member for member in found if member.name in names]
    return Ensemble(chosen) if chosen else None
