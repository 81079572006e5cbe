"""The stages of a run. Each reads files, writes files, and does nothing if its files are up to date.

When the files of a stage were made from other settings or inputs than the current ones:

- simulations and members are replaced only with ``force``, because they may have taken days;
- a table and fits are made again, because they follow from the others;
- a table or a fit that was made elsewhere (it is not in the manifest) is replaced only with ``force``.

Files are replaced once the new ones are complete: see :mod:`drystone.runs.replacement`.

A stage that *reads* such files raises, and names the command that makes them again. ``config.toml`` is written
after these checks, so that it always holds the settings that the files were made from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tqdm.auto import tqdm

import drystone as ds
from drystone._files import remove
from drystone.runs.config import Config, Likelihoods, Train
from drystone.runs.manifest import Manifest, StageRecord, pending
from drystone.runs.normalizer import RunNormalizer
from drystone.runs.outputs import (
    by_name,
    load_likelihoods,
    load_members_if_any,
    load_simulations,
    load_split,
    refuse_stale,
)
from drystone.runs.replacement import Replacement
from drystone.runs.run import Run
from drystone.runs.task import bounds_of, load_task, parameters_of, prior_is_data, prior_of, with_prior
from drystone.stacking.checks import check_provided, check_tractable
from drystone.stacking.stack import fitted_rows
from drystone.tabulation.parts import read_table

if TYPE_CHECKING:
    from drystone import Ensemble, Form, Score, Simulations, Stacking, Sweep, Table
    from drystone._parallel import Executor

__all__ = ["simulate", "stack", "tabulate", "train"]


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
        refuse_stale(manifest, "simulate", current, "the simulations")
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
    workers: int | None = None,
    client: Executor | None = None,
    force: bool = False,
    trust: bool = False,
) -> Ensemble:
    """Train the missing members or likelihoods."""
    if target == "likelihood":
        config = config.changed("likelihoods")
    kind = _Kind.of(target, config)
    manifest, section, stage = Manifest(run), kind.section, kind.stage
    simulations = load_simulations(run, config, manifest)
    current = kind.record(manifest, config)
    replacement = Replacement(manifest, stage, current)
    if not (force or replacement.unfinished):
        refuse_stale(manifest, stage, current, f"the {kind.directory}")
    bounds = bounds_of(config, simulations, trust)
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
    workers: int = 1,
    client: Executor | None = None,
    force: bool = False,
    trust: bool = False,
) -> Table:
    """Evaluate every member on the stacking and the test rows."""
    manifest, section = Manifest(run), config.tabulate
    simulations = load_simulations(run, config, manifest)
    ensemble = load_members_if_any(run, config, manifest)
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
        members = by_name(ensemble)
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
    client: Executor | None = None,
    force: bool = False,
) -> dict[str, Stacking]:
    """Fit the forms by the scores of ``objectives``, or read the fits that are up to date.

    At most ``memory`` bytes of the table are read at once. A fit to fewer rows than that allows is made again; one
    to more is kept.
    """
    manifest = Manifest(run)
    validation, _ = load_split(run, config, memory, manifest)
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
        current = replace(current, rows=(fitted_rows(validation, form, score),))
        # The settings of the other fits become those of config.toml when these are made.
        settings = run.config.with_fit(name, config.fits[name])
        replacement = Replacement(manifest, stage, current)
        again = force or replacement.ready or _allows_more_rows(current, manifest.get(stage))
        if not again and manifest.done(stage, current):
            replacement.give_up()
            settings.write(run.config_file)
            fits[name] = ds.Stacking.load(path)
            continue
        with run.timed(stage):
            # Fitted anew if an earlier process was killed: only the exchange of files is continued.
            directory = replacement.directory(anew=not replacement.ready)
            fit = ds.stack(validation, form, score, nonfinite=config.fits[name].nonfinite, client=client)
            if prior_is_data(config):  # so that its file is all that new data need
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


def _allows_more_rows(current: StageRecord, recorded: StageRecord | None) -> bool:
    """Return whether a fit could be made to more rows than it was."""
    return recorded is not None and bool(recorded.rows) and current.rows[0] > recorded.rows[0]


def _refuse_made_elsewhere(manifest: Manifest, stage: str, path: Path, force: bool) -> None:
    # With a pending record it was made here, by a process that was killed before it could write more.
    known = manifest.get(stage) or manifest.get(pending(stage))
    if path.exists() and known is None and not force:
        raise ValueError(f"{path} was made elsewhere and is not overwritten; --force replaces it.")
