"""The stages of a run. Each reads files, writes files, and does nothing if its files are up to date.

A stage returns its result. A result passed on to a later stage is not read, and not checked, again.

When the files of a stage were made from other settings or inputs than the current ones:

- simulations and members are replaced only with ``force``, because they may have taken days;
- a table and fits are made again, because they follow from the others;
- a table or a fit that was made elsewhere (it is not in the manifest) is replaced only with ``force``.

Files are replaced once the new ones are complete: see :mod:`drystone.runs.replacement`.

A stage that *reads* such files raises, and names the command that makes them again. ``config.toml`` is written
after these checks, so that it always holds the settings that the files were made from.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from tqdm.auto import tqdm

import drystone as ds
from drystone._files import remove
from drystone._resume import check_same
from drystone.errors import StaleError
from drystone.forms.points import PointForm
from drystone.runs.config import Config, Likelihoods, Train
from drystone.runs.manifest import Manifest, StageRecord, pending
from drystone.runs.normalizer import RunNormalizer
from drystone.runs.replacement import Replacement
from drystone.runs.run import Run
from drystone.stacking.checks import check_provided, check_tractable
from drystone.tabulation.parts import read_table

if TYPE_CHECKING:
    from drystone import Ensemble, Form, Score, Simulations, Stacking, Sweep, Table, Task
    from drystone._parallel import Executor

__all__ = [
    "load_fits",
    "load_likelihoods",
    "load_members",
    "load_simulations",
    "load_split",
    "load_stacked_members",
    "load_task",
    "parameters_of",
    "prior_of",
    "simulate",
    "stack",
    "tabulate",
    "train",
    "with_prior",
]


# ── stages ───────────────────────────────────────────────────────────────────────────────────────────────────


def simulate(
    run: Run,
    config: Config,
    *,
    workers: int = 1,
    client: Executor | None = None,
    force: bool = False,
    trust: bool = False,
) -> Simulations:
    """Run the simulator; continue where a killed process stopped."""
    manifest, task = Manifest(run), load_task(config, trust)
    current = manifest.of_simulate(config)
    replacement = Replacement(manifest, "simulate", current)
    if not (force or replacement.unfinished):
        _refuse_stale(manifest, "simulate", current, "the simulations")
    directory = replacement.directory(anew=force)
    if directory == run.path:
        config.write(run.config_file)
    if directory == run.path and not replacement.ready and manifest.done("simulate", current):
        remove(run.path / "simulations.blocks")  # which an earlier process may have failed to do
        return ds.Simulations.load(run.path)
    with run.timed("simulate"):
        if directory == run.path:
            manifest.note("simulate", current)
        n = current.settings["the number of simulations"]
        seed = config.simulate.seed
        simulations = ds.simulate(task, n=n, seed=seed, workers=workers, client=client, directory=directory)
        if directory != run.path:
            replacement.install(config, run.path / "simulations.blocks")
        manifest.finish("simulate", current, run.simulations)
        replacement.finish()
    return simulations


def train(
    run: Run,
    config: Config,
    *,
    target: Literal["posterior", "likelihood"] = "posterior",
    simulations: Simulations | None = None,
    workers: int | None = None,
    client: Executor | None = None,
    force: bool = False,
    trust: bool = False,
) -> Ensemble:
    """Train the missing members or likelihoods, on ``simulations`` or on those of the run."""
    if target == "likelihood":
        config = config.changed("likelihoods")
    kind = _Kind.of(target, config)
    manifest, section, stage = Manifest(run), kind.section, kind.stage
    if simulations is None:
        simulations = _load_simulations(manifest, config)
    current = kind.record(manifest, config)
    replacement = Replacement(manifest, stage, current)
    if not (force or replacement.unfinished):
        _refuse_stale(manifest, stage, current, f"the {kind.directory}")
    bounds = _bounds(config, simulations, trust)
    directory = replacement.directory(anew=force)
    if directory == run.path:
        run.check_inside(run.path / kind.directory)
        config.write(run.config_file)
    rows = simulations.row < config.simulate.train
    with run.timed(stage):
        # Members may be missing, but those that exist stay valid.
        if directory == run.path and (replacement.ready or not manifest.done(stage, current)):
            manifest.note(stage, current)
        ensemble = ds.train(
            simulations.theta[rows],
            simulations.y[rows],
            target=target,
            members=section.members,
            family="maf" if section.family == "maf" else "nsf" if section.family == "nsf" else None,
            sweep=kind.sweep,
            prior=bounds,
            epochs=section.epochs,
            patience=section.patience,
            lr_drops=kind.lr_drops,
            validation=section.validation,
            log_y=section.log_y,
            seed=section.seed,
            workers=workers,
            client=client,
            directory=directory / kind.directory,
        )
        if directory != run.path:
            replacement.install(config)
            ensemble = ds.Ensemble.load(run.path / kind.directory)
        manifest.note(stage, replace(current, outputs=manifest.member_checksums(kind.directory)))
        replacement.finish()
    return ensemble


@dataclass(frozen=True)
class _Kind:
    """What is trained: the name of its stage and of its directory, its settings, its sweep and drops.

    Sweep and drops are None for the defaults.
    """

    stage: str
    directory: str
    section: Train | Likelihoods
    sweep: Sweep | None
    lr_drops: int | None

    @classmethod
    def of(cls, target: str, config: Config) -> _Kind:
        if target == "likelihood":
            return cls("likelihoods", "likelihoods", config.likelihoods or Likelihoods(), None, None)
        sweep = ds.Sweep.paper() if config.train.sweep == "paper" else None
        return cls("train", "members", config.train, sweep, config.train.lr_drops)

    def record(self, manifest: Manifest, config: Config) -> StageRecord:
        return manifest.of_train(config) if self.stage == "train" else manifest.of_likelihoods(config)


def tabulate(
    run: Run,
    config: Config,
    *,
    simulations: Simulations | None = None,
    ensemble: Ensemble | None = None,
    workers: int = 1,
    client: Executor | None = None,
    force: bool = False,
    trust: bool = False,
) -> Table:
    """Evaluate every member (of ``ensemble``, or of the run) on the stacking and the test rows."""
    manifest, section = Manifest(run), config.tabulate
    if simulations is None:
        simulations = _load_simulations(manifest, config)
    if ensemble is None:
        ensemble = _load_members_if_any(manifest, config)
    likelihoods = load_likelihoods(run, config) if any(run.likelihoods.glob("*.json")) else None
    current = manifest.of_tabulate(config)
    _refuse_made_elsewhere(manifest, "tabulate", run.table, force)
    parameters = parameters_of(config, simulations, trust)
    replacement, record = Replacement(manifest, "tabulate", current), manifest.get("tabulate")
    if record is None:  # then parts, if there are any, are of something else
        stale = any((run.path / name).exists() for name in ("table.zarr", "table.parts", "table.json"))
    else:
        stale = bool(record.differences(current))
    directory = replacement.directory(anew=force or (stale and not replacement.unfinished))
    if directory == run.path:
        config.write(run.config_file)
    if directory == run.path and not replacement.ready and manifest.done("tabulate", current):
        remove(run.path / "table.parts")
        return read_table(run.table)
    rows = simulations.row >= config.simulate.train
    for_stacking = int((simulations.row[rows] < config.simulate.train + config.simulate.stack).sum())
    prior = prior_of(config, trust) if likelihoods is not None or section.points else None
    with run.timed("tabulate"):
        if directory == run.path:
            manifest.note("tabulate", current)
        members = _by_name(ensemble)
        if likelihoods is not None:
            first = simulations.theta[rows][:for_stacking], simulations.y[rows][:for_stacking]
            normalizer = RunNormalizer.fit(ensemble, *first, seed=section.seed)
            normalizer.save(directory / run.normalizer.name)
            members |= normalizer.members(ensemble, likelihoods, prior)
        table = ds.tabulate(
            members,
            simulations.theta[rows],
            simulations.y[rows],
            draws=section.draws,
            keep_draws=section.keep_draws,
            levels=section.levels,
            seed=section.seed,
            workers=workers,
            client=client,
            directory=directory,
            parameters=parameters,
            points=section.points,
            prior=prior if section.points else None,
        )
        if directory != run.path:
            replacement.install(config, run.path / "table.parts")
            table = read_table(run.table)
        counts = (for_stacking, int(rows.sum()) - for_stacking)
        manifest.finish("tabulate", replace(current, rows=counts), run.table)
        replacement.finish()
    return table


def stack(
    run: Run,
    config: Config,
    objectives: Mapping[str, tuple[Form, Score]],
    *,
    memory: int,
    table: Table | None = None,
    client: Executor | None = None,
    force: bool = False,
) -> dict[str, Stacking]:
    """Fit the forms by the scores of ``objectives``, or read the fits that are up to date.

    Without ``table`` the run's table is used, of which at most ``memory`` bytes are read at once.
    """
    manifest = Manifest(run)
    validation, _ = _load_split(manifest, config, memory, table)
    for name, (form, score) in objectives.items():
        check_tractable(form, score)
        check_provided(validation, form, score)
        _refuse_made_elsewhere(manifest, f"fits/{name}", run.fit(name), force)
    run.check_inside(run.path / "fits")
    if not run.config_file.exists():
        config.write(run.config_file)
    fits = {}
    for name, (form, score) in tqdm(objectives.items(), unit=" fits", disable=None, leave=False):
        current, path, stage = manifest.of_fit(config, name), run.fit(name), f"fits/{name}"
        # The settings of the other fits become those of config.toml when these are made.
        settings = run.config.with_fit(name, config.fits[name])
        replacement = Replacement(manifest, stage, current)
        if not (force or replacement.ready) and manifest.done(stage, current):
            replacement.give_up()
            settings.write(run.config_file)
            fits[name] = ds.Stacking.load(path)
            continue
        with run.timed(stage):
            # Fitted anew if an earlier process was killed: only the exchange of files is continued.
            directory = replacement.directory(anew=not replacement.ready)
            fit = ds.stack(validation, form, score, nonfinite=config.fits[name].nonfinite, client=client)
            if _prior_is_data(config):  # so that its file is all that new data need
                fit = with_prior(fit, config)
            fit.save(directory / path.relative_to(run.path))
            if directory == run.path:
                settings.write(run.config_file)
            else:
                replacement.install(settings)
            manifest.finish(stage, current, path)
            replacement.finish()
        fits[name] = replace(fit, seconds=math.nan)  # as when read from its file: only the log holds times
    return fits


# ── reading the outputs of stages ────────────────────────────────────────────────────────────────────────────


def load_task(config: Config, trust: bool = False) -> Task:
    """Return the task of the configuration: a built-in one by name, or ``module:object``.

    Args:
        config: The configuration.
        trust: Whether code may be imported: the user has typed the task's name, or says that it is trusted.
    """
    name = config.simulate.task
    if ":" not in name:
        if not name:
            raise ValueError(
                f"no task: give one with --task, either module:object or one of {', '.join(ds.tasks.names())}."
            )
        return ds.tasks.get(name)
    if not trust:
        raise ValueError(
            f"the task {name!r} of config.toml is code, which is not run unless you say so: add --trust if you "
            "trust this directory."
        )
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:  # `python -m` has the working directory there, the `drystone` command has not
        sys.path.append(os.getcwd())
    try:
        imported = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the task {name!r} cannot be imported: {error}.") from error
    instance = imported() if isinstance(imported, type) else imported
    if not isinstance(instance, ds.Task):
        raise TypeError(f"{name!r} must be a drystone.Task or a subclass; got {imported!r}.")
    return instance


def load_simulations(run: Run, config: Config) -> Simulations:
    """Read the simulations; raise if they are unfinished, damaged or too few."""
    return _load_simulations(Manifest(run), config)


def load_members(run: Run, config: Config) -> Ensemble:
    """Read all members in ``members/``."""
    return _load_members(Manifest(run), config)


def load_stacked_members(run: Run, config: Config, trust: bool = False) -> dict[str, Any]:
    """Read the members of the table by name: the posteriors, and the likelihoods as they were normalized."""
    ensemble = _load_members_if_any(Manifest(run), config)
    members = _by_name(ensemble)
    if any(run.likelihoods.glob("*.json")):
        if not run.normalizer.exists():
            raise FileNotFoundError(_missing(run, run.normalizer, "tabulate"))
        normalizer = RunNormalizer.load(run.normalizer)
        members |= normalizer.members(ensemble, load_likelihoods(run, config), prior_of(config, trust))
    return members


def load_likelihoods(run: Run, config: Config) -> Ensemble:
    """Read all likelihoods in ``likelihoods/``."""
    manifest, command = Manifest(run), "train --target likelihood"
    if not any(run.likelihoods.glob("*.json")):
        raise FileNotFoundError(_missing(run, run.likelihoods, command))
    _check(manifest, "likelihoods", manifest.of_likelihoods(config), "the likelihoods", command)
    return ds.Ensemble.load(run.likelihoods)


def load_split(
    run: Run, config: Config, memory: int | None = None, table: Table | None = None
) -> tuple[Table, Table]:
    """Return the stacking rows and the test rows of ``table``, or of the run's table.

    With ``memory`` (bytes to read at once) the run's table stays on disk.
    """
    return _load_split(Manifest(run), config, memory, table)


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


def with_prior(fit: Stacking, config: Config, trust: bool = False) -> Stacking:
    """Return the fit with the prior of the run, if its form needs one at new data and has none."""
    form = fit.form
    if not isinstance(form, PointForm) or form.prior is not None or not form.needs_prior:
        return fit
    return replace(fit, form=replace(form, prior=prior_of(config, trust)))


# ── private ──────────────────────────────────────────────────────────────────────────────────────────────────


def _bounds(config: Config, simulations: Simulations, trust: bool) -> object:
    """Return the bounds of the parameters: of the configuration, the simulations, the task's prior, or None.

    The simulations of version 0.1 have none; nor have those that were made elsewhere, without a task.
    """
    lower, upper = config.train.lower, config.train.upper
    if lower or upper:
        return lower, upper
    if simulations.support is not None:
        return simulations.support
    return load_task(config, trust).prior if config.simulate.task else None


def prior_of(config: Config, trust: bool) -> object:
    """Return p(θ): the task's, or the uniform distribution between the bounds of the configuration."""
    if config.simulate.task:
        return load_task(config, trust).prior
    lower, upper = config.train.lower, config.train.upper
    if not (lower and upper and np.isfinite((lower, upper)).all()):
        raise ValueError(
            "likelihoods and products need the prior: simulate from a task, or give the finite bounds of a "
            "uniform prior as `lower` and `upper` of [train] in config.toml."
        )
    return lower, upper


def _prior_is_data(config: Config) -> bool:
    """Return whether the prior is known without running code: of a built-in task, or as bounds."""
    task = config.simulate.task
    return ":" not in task if task else bool(config.train.lower and config.train.upper)


def _by_name(ensemble: Ensemble | None) -> dict[str, Any]:
    return {} if ensemble is None else dict(zip(ensemble.names, ensemble, strict=True))


def _load_members_if_any(manifest: Manifest, config: Config) -> Ensemble | None:
    """Return the posteriors; None in a run of likelihoods alone."""
    run = manifest.run
    alone = any(run.likelihoods.glob("*.json")) and not any(run.members.glob("*.json"))
    return None if alone else _load_members(manifest, config)


def parameters_of(config: Config, simulations: Simulations, trust: bool) -> Sequence[str] | None:
    """Return the names of the parameters: of the simulations, the task, or None."""
    if simulations.parameters:
        return simulations.parameters
    return load_task(config, trust).parameters if config.simulate.task else None


def _load_simulations(manifest: Manifest, config: Config) -> Simulations:
    run = manifest.run
    if not run.simulations.exists():
        raise FileNotFoundError(_missing(run, run.simulations, "simulate"))
    _check(manifest, "simulate", manifest.of_simulate(config), "the simulations", "simulate")
    simulations = ds.Simulations.load(run.path)
    config.simulate.check_enough(int(simulations.row[-1]) + 1, run.simulations)
    return simulations


def _load_members(manifest: Manifest, config: Config) -> Ensemble:
    run = manifest.run
    if not any(run.members.glob("*.json")):
        raise FileNotFoundError(_missing(run, run.members, "train"))
    _check(manifest, "train", manifest.of_train(config), "the members", "train")
    return ds.Ensemble.load(run.members)


def _load_split(
    manifest: Manifest, config: Config, memory: int | None, table: Table | None
) -> tuple[Table, Table]:
    run = manifest.run
    if table is None:
        if not run.table.exists():
            raise FileNotFoundError(_missing(run, run.table, "tabulate"))
        _check(manifest, "tabulate", manifest.of_tabulate(config), "the table", "tabulate")
        table = ds.Table.load(run.table) if memory is None else ds.Table.open(run.table, memory)
    record, section = manifest.get("tabulate"), config.simulate
    first, rest = record.rows if record else (section.stack, section.test)
    if first + rest != table.N:  # made elsewhere with an unknown split
        return table.split(0.5, seed=0)
    return table.select(rows=slice(0, first)), table.select(rows=slice(first, None))


def _check(manifest: Manifest, stage: str, current: StageRecord, what: str, command: str) -> None:
    """Raise if the outputs of a stage are unfinished, out of date or damaged; pass if made elsewhere."""
    record, run = manifest.get(stage), manifest.run
    if record is None:
        return
    forced = " --force" if command.startswith(("simulate", "train")) else ""
    replacement = Replacement(manifest, stage, current)
    if replacement.ready or (replacement.unfinished and record.differences(current)):
        raise StaleError(f"unfinished: {what} in {run.path}; continue with `drystone {command} {run.path}`.")
    _refuse_stale(manifest, stage, current, what, f"call `drystone {command} {run.path}{forced}`")
    if record.outputs is None:
        raise StaleError(f"unfinished: {what} in {run.path}; continue with `drystone {command} {run.path}`.")
    manifest.check_outputs(stage, f"Remove it and run `drystone {command} {run.path}`.")


def _refuse_stale(
    manifest: Manifest, stage: str, current: StageRecord, what: str, remedy: str = "repeat it with --force"
) -> None:
    remedy = f"To make it again {remedy}; or restore the earlier settings and inputs, or use another directory."
    check_same(manifest.get(stage), current, f"{what} in {manifest.run.path}", remedy)


def _refuse_made_elsewhere(manifest: Manifest, stage: str, path: Path, force: bool) -> None:
    # With a pending record it was made here, by a process that was killed before it could write more.
    known = manifest.get(stage) or manifest.get(pending(stage))
    if path.exists() and known is None and not force:
        raise ValueError(f"{path} was made elsewhere and is not overwritten; --force replaces it.")


def _missing(run: Run, path: Path, command: str) -> str:
    return f"there is no {path.relative_to(run.path)} in {run.path}; make it with `drystone {command} {run.path}`."
