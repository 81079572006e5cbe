"""The stages of a run. Each reads files, writes files, and does nothing if that has been done already.

What a stage does when its files were made from something else than is there now:

- simulations and members are never replaced unless ``force`` says so, for they may have taken days;
- a table and fits are made again, for they follow from the others;
- a table or a fit that was made elsewhere (it is not in the manifest) is kept unless ``force`` says otherwise.

A stage that *reads* such files refuses, and says which command makes them anew. ``config.toml`` is written only
once a stage has not refused, so that it always says what the files were made from.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

import drystone as ds
from drystone._files import digest
from drystone.errors import StaleError
from drystone.runs import inputs, manifest
from drystone.runs.config import Config
from drystone.runs.manifest import Record
from drystone.runs.run import Run
from drystone.stacking.checks import check_provided, check_tractable

if TYPE_CHECKING:
    from drystone import Ensemble, Form, Score, Simulations, Stacking, Table, Task
    from drystone._parallel import Executor

__all__ = [
    "fits",
    "members",
    "simulate",
    "simulations",
    "split",
    "stack",
    "tabulate",
    "task",
    "train",
]


# ── stages ───────────────────────────────────────────────────────────────────────────────────────────────────


def simulate(
    run: Run, config: Config, *, workers: int = 1, client: Executor | None = None, force: bool = False
) -> Simulations:
    """Run the simulator; continues where a killed process stopped."""
    now, simulator = inputs.of_simulate(config), task(config)
    if force:
        _discard(run, "simulate", run.simulations, run.path / "simulations.blocks")
    _refuse_stale(run, "simulate", now, "the simulations")
    config.write(run.config_file)
    if not _done(run, "simulate", now):
        with run.timed("simulate"):
            manifest.note(run.path, "simulate", now)
            n = now.settings["the number of simulations"]
            seed = config.simulate.seed
            ds.simulate(simulator, n=n, seed=seed, workers=workers, client=client, directory=run.path)
            _finish(run, "simulate", now, run.simulations)
    return ds.Simulations.load(run.path)


def train(
    run: Run, config: Config, *, workers: int | None = None, client: Executor | None = None, force: bool = False
) -> Ensemble:
    """Train the members that are missing."""
    drawn = simulations(run, config)
    if force:
        _discard(run, "train", run.members)
    now, asked = inputs.of_train(run, config), config.train
    _refuse_stale(run, "train", now, "the members")
    config.write(run.config_file)
    rows = drawn.row < config.simulate.train
    with run.timed("train"):
        if not _done(run, "train", now):  # there may be more to train, but what there is stays valid
            manifest.note(run.path, "train", now)
        ensemble = ds.train(
            drawn.theta[rows],
            drawn.y[rows],
            members=asked.members,
            family="maf" if asked.family == "maf" else "nsf",
            sweep=ds.Sweep.paper() if asked.sweep == "paper" else ds.Sweep(),
            prior=_bounds(config),
            epochs=asked.epochs,
            patience=asked.patience,
            validation=asked.validation,
            log_y=asked.log_y,
            seed=asked.seed,
            workers=workers,
            client=client,
            directory=run.members,
        )
        manifest.note(run.path, "train", replace(now, outputs=inputs.member_checksums(run)))
    return ensemble


def tabulate(
    run: Run, config: Config, *, workers: int = 1, client: Executor | None = None, force: bool = False
) -> Table:
    """Ask every member about the stacking and the test rows."""
    drawn, ensemble = simulations(run, config), members(run, config)
    now, asked = inputs.of_tabulate(run, config), config.tabulate
    _refuse_foreign(run, "tabulate", run.table, force)
    config.write(run.config_file)
    if force or not _done(run, "tabulate", now):
        if force or _differs(run, "tabulate", now):
            _discard(run, "tabulate", run.table, run.path / "table.parts", run.path / "table.json")
        rows = drawn.row >= config.simulate.train
        for_stacking = int((drawn.row[rows] < config.simulate.train + config.simulate.stack).sum())
        with run.timed("tabulate"):
            manifest.note(run.path, "tabulate", now)
            ds.tabulate(
                ensemble,
                drawn.theta[rows],
                drawn.y[rows],
                draws=asked.draws,
                keep_draws=asked.keep_draws,
                levels=asked.levels,
                seed=asked.seed,
                workers=workers,
                client=client,
                directory=run.path,
                parameters=task(config).parameters if config.simulate.task else None,
            )
            counts = (for_stacking, int(rows.sum()) - for_stacking)
            _finish(run, "tabulate", replace(now, rows=counts), run.table)
    return ds.Table.open(run.table)


def stack(
    run: Run,
    config: Config,
    asked: Mapping[str, tuple[Form, Score]],
    *,
    memory: int,
    client: Executor | None = None,
    force: bool = False,
) -> dict[str, Stacking]:
    """Fit some of the configuration's fits, whose forms and scores the caller has made out of its words.

    No more than ``memory`` bytes of the table are read at once.
    """
    validation, _ = split(run, config, memory)
    for name, (form, score) in asked.items():
        check_tractable(form, score)
        check_provided(validation, form, score)
        _refuse_foreign(run, f"fits/{name}", run.fit(name), force)
    config.write(run.config_file)
    found = {}
    for name, (form, score) in tqdm(asked.items(), unit=" fits", disable=None, leave=False):
        now, path, stage = inputs.of_fit(run, config, name), run.fit(name), f"fits/{name}"
        if force or not _done(run, stage, now):
            with run.timed(stage):
                manifest.note(run.path, stage, now)
                nonfinite = config.fits[name].nonfinite
                fit = ds.stack(validation, form, score, nonfinite=nonfinite, client=client)
                fit.save(path)
                _finish(run, stage, now, path)
        found[name] = ds.Stacking.load(path)
    return found


# ── reading what stages wrote ────────────────────────────────────────────────────────────────────────────────


def task(config: Config) -> Task:
    """The task of the configuration: one of ours by name, or ``module:object``."""
    name = config.simulate.task
    if ":" not in name:
        if not name:
            raise ValueError(f"no task: give one with --task, of {', '.join(ds.tasks.names())}, or module:object.")
        return ds.tasks.get(name)
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:  # as `python -m` has it, which the `drystone` command has not
        sys.path.append(os.getcwd())
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the task {name!r} cannot be imported: {error}.") from error
    made = found() if isinstance(found, type) else found
    if not isinstance(made, ds.Task):
        raise TypeError(f"{name!r} must be a drystone.Task or a subclass; got {found!r}.")
    return made


def simulations(run: Run, config: Config) -> Simulations:
    """the simulations, which must be finished, undamaged and enough."""
    if not run.simulations.exists():
        raise FileNotFoundError(_missing(run, run.simulations, "simulate"))
    _check(run, "simulate", inputs.of_simulate(config), "the simulations", "simulate")
    drawn = ds.Simulations.load(run.path)
    config.simulate.check_enough(int(drawn.row[-1]) + 1, run.simulations)
    return drawn


def members(run: Run, config: Config) -> Ensemble:
    """the members: all that are in ``members/``."""
    if not any(run.members.glob("*.json")):
        raise FileNotFoundError(_missing(run, run.members, "train"))
    _check(run, "train", inputs.of_train(run, config), "the members", "train")
    return ds.Ensemble.load(run.members)


def split(run: Run, config: Config, memory: int | None = None) -> tuple[Table, Table]:
    """the table's stacking rows and its test rows; with ``memory`` (bytes to read at once) they stay on disk."""
    if not run.table.exists():
        raise FileNotFoundError(_missing(run, run.table, "tabulate"))
    record = _check(run, "tabulate", inputs.of_tabulate(run, config), "the table", "tabulate")
    table = ds.Table.load(run.table) if memory is None else ds.Table.open(run.table, memory)
    asked = config.simulate
    first, rest = record.rows if record else (asked.stack, asked.test)
    if first + rest != table.N:  # made elsewhere, and nobody has said which rows are which
        return table.split(0.5, seed=0)
    return table.select(rows=slice(0, first)), table.select(rows=slice(first, None))


def fits(run: Run, config: Config, names: Iterable[str] | None = None) -> dict[str, Stacking]:
    """the fits of these names, or those of the configuration that have been made, of which there must be one."""
    if names is None:
        names = [name for name in config.fits if run.fit(name).exists()] or config.fits
    found = {}
    for name in names:
        path = run.fit(name)
        if not path.exists():
            raise FileNotFoundError(_missing(run, path, "stack"))
        _check(run, f"fits/{name}", inputs.of_fit(run, config, name), f"the fit {name!r}", "stack")
        found[name] = ds.Stacking.load(path)
    return found


# ── private ──────────────────────────────────────────────────────────────────────────────────────────────────


def _bounds(config: Config) -> object:
    """Where the parameters can lie: as configured, or as the task knows; None if nobody does."""
    lower, upper = config.train.lower, config.train.upper
    if lower or upper:
        return lower, upper
    return task(config).prior if config.simulate.task else None


def _done(run: Run, stage: str, now: Record) -> bool:
    """Whether a stage is finished, of the same inputs, and undamaged."""
    record = manifest.read(run.path).get(stage)
    if record is None or record.outputs is None or manifest.differences(record, now):
        return False
    manifest.check_outputs(run.path, record, "Remove it to have it made again.")
    return all((run.path / name).exists() for name in record.outputs)


def _differs(run: Run, stage: str, now: Record) -> bool:
    """Whether what there is of a stage was made from something else, or nobody knows from what."""
    record = manifest.read(run.path).get(stage)
    return record is None or bool(manifest.differences(record, now))


def _finish(run: Run, stage: str, now: Record, output: Path) -> None:
    name = output.relative_to(run.path).as_posix()
    manifest.note(run.path, stage, replace(now, outputs={name: digest(output)}))


def _check(run: Run, stage: str, now: Record, what: str, verb: str) -> Record | None:
    """Raise if what a stage wrote is unfinished, out of date or damaged; None if it was made elsewhere."""
    record = manifest.read(run.path).get(stage)
    if record is None:
        return None
    forced = " --force" if verb in ("simulate", "train") else ""
    _refuse_stale(run, stage, now, what, f"call `drystone {verb} {run.path}{forced}`")
    if record.outputs is None:
        raise StaleError(f"unfinished: {what} in {run.path}; continue with `drystone {verb} {run.path}`.")
    manifest.check_outputs(run.path, record, f"Remove it and run `drystone {verb} {run.path}`.")
    return record


def _refuse_stale(run: Run, stage: str, now: Record, what: str, remedy: str = "repeat it with --force") -> None:
    record = manifest.read(run.path).get(stage)
    changes = manifest.differences(record, now) if record else []
    if changes:
        raise StaleError(
            f"out of date: {what} in {run.path} ({'; '.join(changes)}). To make it again {remedy}; or put back "
            "what was, or use another directory."
        )


def _refuse_foreign(run: Run, stage: str, path: Path, force: bool) -> None:
    if path.exists() and stage not in manifest.read(run.path) and not force:
        raise ValueError(f"{path} was made elsewhere and is kept as it is; --force replaces it.")


def _discard(run: Run, stage: str, *paths: Path) -> None:
    """Remove what a stage wrote, and last its record: a process killed here does not leave files of nobody."""
    for path in paths:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    manifest.forget(run.path, stage)


def _missing(run: Run, path: Path, verb: str) -> str:
    return f"there is no {path.relative_to(run.path)} in {run.path}; make it with `drystone {verb} {run.path}`."
