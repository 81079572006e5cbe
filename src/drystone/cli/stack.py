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
    configuration,
    drop_option,
    force_option,
    say,
    setting,
    source_argument,
    verb,
    waiting,
    workers_option,
)
from drystone.runs.config import Fit

if TYPE_CHECKING:
    from drystone import Stacking, Table
    from drystone._parallel import Executor, WorkerPool
    from drystone.runs import Config, Run

# GiB, as Table.open has it: what takes more is worked through in blocks of rows.
MEMORY = 1.0


@verb(
    ("drystone stack moons", "all fits of config.toml: by the log score unless it says otherwise"),
    ('drystone stack moons --score "log + 10*rank"', "one more, called log-10-rank, with an eye on calibration"),
    ("drystone stack table.zarr --form local --out fit.json", "weights that depend on the data, of any table"),
    ('drystone stack "jobs/*.npz"', "K files of log densities and no networks: see ds.adapters.to_file"),
    ('drystone stack moons --form "interval(alpha=0.2)" --score "interval(alpha=0.2)"', "80 % intervals"),
)
@source_argument
@setting(Fit, "score", help='What to be good at: log, rank, energy, ... or a sum, "log + 10*rank".')
@setting(Fit, "form", help='mixture, local, sample or interval, or "mixture(concentration=1.2)".')
@click.option("--name", help="Name of the fit: fits/NAME.json of a run.  [made of the form and the score]")
@drop_option
@click.option("--out", type=click.Path(path_type=Path), help="Where to write the fit of a table.")
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
    """Find the weights: writes fits/.

    Of a run, that is; those of a table (.zarr, .nc, or one file per member) are printed, and written with --out.

    Scores: log, rank, rank_moments, js, interval, moment, mean, energy; they add and scale. Forms: mixture, local,
    sample, interval. Both take arguments: interval(alpha=0.2), local(hidden=(32, 32)).

    A run's fits see its stacking rows only; those of a table see all rows. What takes more than --memory is
    worked through in blocks of rows: here, by --workers, or on a --cluster that sees the directory.
    """
    from drystone.cli.tables import is_table

    given = {"form": form, "score": score, "nonfinite": "drop" if drop else None}
    given = {key: value for key, value in given.items() if value is not None}
    if out is not None and not is_table(source):
        raise click.UsageError("--out is for tables; the fits of a run are in its directory.")
    from drystone._parallel import worker_pool

    with cluster_client(cluster, workers) as client, worker_pool(client, workers or 1) as pool:
        if is_table(source):
            _stack_table(source, Fit(**given), out, memory, pool)
        else:
            _stack_run(source, given, name, force, memory, pool)


def _stack_table(source: Path, asked: Fit, out: Path | None, memory: float, client: WorkerPool) -> None:
    from drystone.cli import objectives

    form, score = objectives.form(asked.form), objectives.score(asked.score)
    import drystone as ds
    from drystone.cli.tables import read_table

    with waiting("stacking"):
        table = read_table(source, memory=_bytes(memory), drop=asked.nonfinite == "drop")
        fit = ds.stack(table, form, score, nonfinite=asked.nonfinite, client=client)
    if out is not None:
        fit.save(out)
    say(fit.summary() + (f"\n\nwritten to {out}" if out else ""), path=out, **_facts(fit))


def _stack_run(
    source: Path, given: Mapping[str, str], name: str | None, force: bool, memory: float, client: WorkerPool
) -> None:
    from drystone.runs import Run

    home = Run(source)
    with home.opened():
        config = configuration(home)
        described = "form" in given or "score" in given
        if name is None and described:
            asked = Fit(**given)
            name = slug(asked.form, asked.score)
            if name in config.fits and not _same(config.fits[name], asked):
                raise ValueError(
                    f"the fit {name!r} of {home.config_file} is another ({config.fits[name].form} by "
                    f"{config.fits[name].score!r}); give this one a name with --name."
                )
        if name is not None and name not in config.fits and not described:
            raise ValueError(f"there is no fit {name!r} in {home.config_file}; give its --score and --form.")
        names = list(config.fits) if name is None else [name]
        for each in names:
            config = config.with_fit(each, replace(config.fits.get(each, Fit()), **given))
        fits = fit_all(home, config, names, memory=memory, client=client, force=force)
    words = [f"{home.fit(each)}\n{fit.summary()}" for each, fit in fits.items()]
    say("\n\n".join(words), fits={each: {"path": home.fit(each), **_facts(fit)} for each, fit in fits.items()})


def fit_all(
    run: Run,
    config: Config,
    names: Iterable[str],
    *,
    memory: float = MEMORY,
    table: Table | None = None,
    client: Executor | None = None,
    force: bool = False,
) -> dict[str, Stacking]:
    """Make the fits of these names, or read those that are there; ``table`` is the run's, if it has been read."""
    from drystone.cli import objectives
    from drystone.runs import stages

    chosen = {
        name: (objectives.form(config.fits[name].form), objectives.score(config.fits[name].score))
        for name in names
    }
    return stages.stack(run, config, chosen, memory=_bytes(memory), table=table, client=client, force=force)


def _bytes(memory: float) -> int:
    return int(memory * 2**30)


def slug(form: str, score: str) -> str:
    """A name for a file: ``log + 10*rank`` of a mixture is ``log-10-rank``."""
    text = score if form == "mixture" else f"{form} {score}"
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")


def _same(one: Fit, other: Fit) -> bool:
    """Whether two fits have the same form and score, however they are written."""
    from drystone.cli.objectives import check_form, check_score

    return check_form(one.form) == check_form(other.form) and check_score(one.score) == check_score(other.score)


def _facts(fit: Stacking) -> dict[str, Any]:
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
    facts = {name: getattr(fit, name) for name in names}
    facts |= {"form": repr(fit.form), "score": repr(fit.score)}
    if "weights" in fit.params:
        facts["weights"] = dict(zip(fit.names, fit.weights.tolist(), strict=True))
    return facts
