"""`drystone stack`: the weights."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drystone.cli.command import (
    cluster_client,
    cluster_option,
    command,
    configuration,
    drop_option,
    force_option,
    print_result,
    setting,
    source_argument,
    waiting,
    workers_option,
)
from drystone.runs.config import Fit

if TYPE_CHECKING:
    from drystone import Stacking
    from drystone._parallel import Executor, WorkerPool
    from drystone.runs import Config, Run

# GiB, the default of Table.open: a table that takes more is read in blocks of rows.
MEMORY = 1.0


@command(
    ("drystone stack moons", "all fits of config.toml, by default one with the log score"),
    ('drystone stack moons --score "log + 10*rank"', "one more fit, log-10-rank, that also rewards calibration"),
    ("drystone stack table.zarr --form local --out fit.json", "weights that depend on the data, for any table"),
    ('drystone stack "jobs/*.npz"', "K files of log densities without networks: see ds.adapters.to_file"),
    ('drystone stack moons --form "interval(alpha=0.2)" --score "interval(alpha=0.2)"', "80 % intervals"),
)
@source_argument
@setting(Fit, "score", help='Score to minimize: log, rank, energy, ... or a sum, "log + 10*rank".')
@setting(Fit, "form", help='mixture, local, sample, interval or product, or "mixture(concentration=1.2)".')
@click.option("--name", help="Name of the fit: fits/NAME.json of a run.  [from the form and the score]")
@drop_option
@click.option("--out", type=click.Path(path_type=Path), help="File of the fit of a table.")
@click.option(
    "--memory",
    type=click.FloatRange(0, min_open=True),
    default=MEMORY,
    help=f"GiB of a table that may be read at once.  [{MEMORY:g}]",
)
@workers_option
@cluster_option
@force_option
def stack(
    source: Path,
    score: str | None,
    form: str | None,
    name: str | None,
    drop: bool,
    out: Path | None,
    memory: float,
    workers: int | None,
    cluster: str | None,
    force: bool,
) -> None:
    """Fit the weights: writes fits/.

    The fits of a run are written to its directory. The fit of a table (.zarr, .nc, or one file per member) is
    printed, and written with --out.

    Scores: log, rank, rank_moments, js, interval, moment, mean, energy; they add and scale. Forms: mixture, local,
    sample, interval, product, likelihood_mixture. Both take arguments: interval(alpha=0.2),
    local(hidden=(32, 32)).

    A run's fits use its stacking rows only; the fit of a table uses all rows. A table larger than --memory is read
    in blocks of rows: in this process, by --workers, or on a --cluster that sees the directory.
    """
    from drystone.cli.tables import is_table

    options = {"form": form, "score": score, "nonfinite": "drop" if drop else None}
    options = {key: value for key, value in options.items() if value is not None}
    if out is not None and not is_table(source):
        raise click.UsageError("--out is for tables; the fits of a run are written to its directory.")
    if is_table(source) and (name is not None or force):
        raise click.UsageError(
            "--name and --force are for runs; the fit of a table is always made, and written to the file of --out."
        )
    from drystone._parallel import worker_pool

    with cluster_client(cluster, workers) as client, worker_pool(client, workers or 1) as pool:
        if is_table(source):
            _stack_table(source, Fit(**options), out, memory, pool)
        else:
            _stack_run(source, options, name, force, memory, pool)


def _stack_table(source: Path, settings: Fit, out: Path | None, memory: float, client: WorkerPool) -> None:
    from drystone.cli import objectives

    form, score = objectives.form(settings.form), objectives.score(settings.score)
    import drystone as ds
    from drystone.cli.tables import read_table

    with waiting("stacking"):
        table = read_table(source, memory=_bytes(memory), drop=settings.nonfinite == "drop")
        fit = ds.stack(table, form, score, nonfinite=settings.nonfinite, client=client)
    if out is not None:
        fit.save(out)
    print_result(fit.summary() + (f"\n\nwritten to {out}" if out else ""), path=out, **_values(fit))


def _stack_run(
    source: Path, options: Mapping[str, str], name: str | None, force: bool, memory: float, client: WorkerPool
) -> None:
    from drystone.runs import Run

    run = Run(source)
    with run.opened():
        config = configuration(run)
        described = "form" in options or "score" in options
        if name is None and described:
            settings = Fit(**options)
            name = slug(settings.form, settings.score)
            if name in config.fits and not _same(config.fits[name], settings):
                raise ValueError(
                    f"the fit {name!r} of {run.config_file} has another form or score "
                    f"({config.fits[name].form} by {config.fits[name].score!r}); name this one with --name."
                )
        if name is not None and name not in config.fits and not described:
            raise ValueError(f"there is no fit {name!r} in {run.config_file}; give its --score and --form.")
        names = list(config.fits) if name is None else [name]
        for each in names:
            config = config.with_fit(each, replace(config.fits.get(each, Fit()), **options))
        fits = fit_all(run, config, names, memory=memory, client=client, force=force)
    text = "\n\n".join(f"{run.fit(each)}\n{fit.summary()}" for each, fit in fits.items())
    print_result(text, fits={each: {"path": run.fit(each), **_values(fit)} for each, fit in fits.items()})


def fit_all(
    run: Run,
    config: Config,
    names: Iterable[str],
    *,
    memory: float = MEMORY,
    client: Executor | None = None,
    force: bool = False,
) -> dict[str, Stacking]:
    """Make the fits of these names, or read those that exist."""
    from drystone.cli import objectives
    from drystone.runs import stages

    chosen_objectives = {
        name: (objectives.form(config.fits[name].form), objectives.score(config.fits[name].score))
        for name in names
    }
    return stages.stack(run, config, chosen_objectives, memory=_bytes(memory), client=client, force=force)


def _bytes(memory: float) -> int:
    return int(memory * 2**30)


def slug(form: str, score: str) -> str:
    """Return a file name for a fit: ``log + 10*rank`` of a mixture is ``log-10-rank``."""
    text = score if form == "mixture" else f"{form} {score}"
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")


def _same(one: Fit, other: Fit) -> bool:
    """Return whether two fits have the same form and score, however they are written."""
    from drystone.cli.objectives import check_form, check_score

    return check_form(one.form) == check_form(other.form) and check_score(one.score) == check_score(other.score)


def _values(fit: Stacking) -> dict[str, Any]:
    """Return the values of a fit that `--json` prints."""
    names = (
        "loss",
        "terms",
        "gap",
        "stationarity",
        "converged",
        "status",
        "iterations",
        "solver",
        "dropped",
        "notes",
    )
    values = {name: getattr(fit, name) for name in names}
    values |= {"form": repr(fit.form), "score": repr(fit.score)}
    if "weights" in fit.params:
        values["weights"] = dict(zip(fit.names, fit.weights.tolist(), strict=True))
    return values
