"""The outputs of stages, read again; what is missing, unfinished, out of date or damaged raises.

Each error names the command that makes the output again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import drystone as ds
from drystone._resume import check_same
from drystone.errors import StaleError
from drystone.runs.config import Config
from drystone.runs.manifest import Manifest, StageRecord
from drystone.runs.normalizer import RunNormalizer
from drystone.runs.replacement import Replacement
from drystone.runs.run import INFERENCE, Run
from drystone.runs.task import prior_of

if TYPE_CHECKING:
    from drystone import Ensemble, Simulations, Stacking, Table

__all__ = [
    "by_name",
    "load_fits",
    "load_likelihoods",
    "load_members",
    "load_members_if_any",
    "load_simulations",
    "load_split",
    "load_stacked_members",
    "refuse_stale",
]


def load_simulations(run: Run, config: Config, manifest: Manifest | None = None) -> Simulations:
    """Read the simulations; raise if they are unfinished, damaged or too few."""
    manifest = Manifest(run) if manifest is None else manifest
    if not run.simulations.exists():
        raise FileNotFoundError(_missing(run, run.simulations, "simulate"))
    _check(manifest, "simulate", manifest.of_simulate(config), "the simulations", "simulate")
    simulations = ds.Simulations.load(run.path)
    config.simulate.check_enough(int(simulations.row[-1]) + 1, run.simulations)
    return simulations


def load_members(run: Run, config: Config, manifest: Manifest | None = None) -> Ensemble:
    """Read all members in ``members/``."""
    manifest = Manifest(run) if manifest is None else manifest
    if not any(run.members.glob("*.json")):
        raise FileNotFoundError(_missing(run, run.members, "train"))
    _check(manifest, "train", manifest.of_train(config), "the members", "train")
    return ds.Ensemble.load(run.members)


def load_members_if_any(run: Run, config: Config, manifest: Manifest | None = None) -> Ensemble | None:
    """Read the posteriors; None in a run of likelihoods alone."""
    alone = any(run.likelihoods.glob("*.json")) and not any(run.members.glob("*.json"))
    return None if alone else load_members(run, config, manifest)


def load_likelihoods(run: Run, config: Config) -> Ensemble:
    """Read all likelihoods in ``likelihoods/``."""
    manifest, command = Manifest(run), "train --target likelihood"
    if not any(run.likelihoods.glob("*.json")):
        raise FileNotFoundError(_missing(run, run.likelihoods, command))
    _check(manifest, "likelihoods", manifest.of_likelihoods(config), "the likelihoods", command)
    return ds.Ensemble.load(run.likelihoods)


def load_stacked_members(run: Run, config: Config, trust: bool = False) -> dict[str, Any]:
    """Read the members of the table by name: the posteriors, and the likelihoods as they were normalized.

    Raise if the table is of other members: so are the fits, which were made from it.
    """
    manifest = Manifest(run)
    _check_table(manifest, config)
    ensemble = load_members_if_any(run, config, manifest)
    members = by_name(ensemble)
    if any(run.likelihoods.glob("*.json")):
        if not run.normalizer.exists():
            raise FileNotFoundError(_missing(run, run.normalizer, "tabulate"))
        normalizer = RunNormalizer.load(run.normalizer)
        members |= normalizer.members(ensemble, load_likelihoods(run, config), prior_of(config, trust))
    return members


def load_split(
    run: Run,
    config: Config,
    memory: int | None = None,
    manifest: Manifest | None = None,
) -> tuple[Table, Table]:
    """Return the stacking and the test rows of the table; with ``memory`` (bytes at once) it stays on disk."""
    manifest = Manifest(run) if manifest is None else manifest
    if not run.table.exists():
        raise FileNotFoundError(_missing(run, run.table, "tabulate"))
    _check_table(manifest, config)
    table = ds.Table.load(run.table) if memory is None else ds.Table.open(run.table, memory)
    record, section = manifest.get("tabulate"), config.simulate
    first, rest = record.rows if record else (section.stack, section.test)
    if first + rest != table.N:  # made elsewhere with an unknown split
        return table.split(0.5, seed=0)
    return table.select(rows=slice(0, first)), table.select(rows=slice(first, None))


def load_fits(run: Run, config: Config, names: Iterable[str] | None = None) -> dict[str, Stacking]:
    """Read the fits of these names, or those of the configuration whose files exist, at least one."""
    manifest = Manifest(run)
    if names is None:
        names = [name for name in config.fits if run.fit(name).exists()] or config.fits
    loaded = {}
    for name in names:
        path = run.fit(name)
        if not path.exists():
            raise FileNotFoundError(_missing(run, path, "stack"))
        _check(manifest, f"fits/{name}", manifest.of_fit(config, name), f"the fit {name!r}", "stack")
        loaded[name] = ds.Stacking.load(path)
    return loaded


def by_name(ensemble: Ensemble | None) -> dict[str, Any]:
    """Return the members of an ensemble by name; none without one."""
    return {} if ensemble is None else {member.name: member for member in ensemble}


def refuse_stale(
    manifest: Manifest, stage: str, current: StageRecord, what: str, remedy: str = "repeat it with --force"
) -> None:
    """Raise if the outputs of a stage were made from other settings or inputs than the current ones."""
    remedy = f"To make it again {remedy}; or restore the earlier settings and inputs, or use another directory."
    check_same(manifest.get(stage), current, f"{what} in {manifest.run.path}", remedy)


def _check(manifest: Manifest, stage: str, current: StageRecord, what: str, command: str) -> None:
    """Raise if the outputs of a stage are unfinished, out of date or damaged; pass if made elsewhere."""
    record, run = manifest.get(stage), manifest.run
    if record is None:
        return
    forced = " --force" if command.startswith(("simulate", "train")) else ""
    replacement = Replacement(manifest, stage, current)
    if replacement.ready or (replacement.unfinished and record.differences(current)):
        raise StaleError(f"unfinished: {what} in {run.path}; continue with `drystone {command} {run.path}`.")
    refuse_stale(manifest, stage, current, what, f"call `drystone {command} {run.path}{forced}`")
    if record.outputs is None:
        raise StaleError(f"unfinished: {what} in {run.path}; continue with `drystone {command} {run.path}`.")
    manifest.check_outputs(stage, f"Remove it and run `drystone {command} {run.path}`.")


def _check_table(manifest: Manifest, config: Config) -> None:
    _check(manifest, "tabulate", manifest.of_tabulate(config), "the table", "tabulate")


def _missing(run: Run, path: Path, command: str) -> str:
    name, home = path.relative_to(run.path), run.path
    message = f"there is no {name} in {home}; make it with `drystone {command} {home}`."
    if not (home / INFERENCE).is_dir():
        return message
    return (
        f"{message} The run has an inference: `drystone infer {home}` with the options of before, and with --at, "
        "writes its report again; `drystone sample` draws from it; `drystone refine` goes on from it (with "
        "--theta and --y, if it was made of files)."
    )
