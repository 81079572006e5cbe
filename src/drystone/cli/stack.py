"""`drystone stack`: the weights."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drystone.cli.verb import configuration, force_option, say, verb, waiting

if TYPE_CHECKING:
    from drystone import Stacking
    from drystone.runs import Config, Run
    from drystone.runs.config import Fit


@verb(
    ("drystone stack moons", "all fits of config.toml: by the log score unless it says otherwise"),
    ('drystone stack moons --score "log + 0.1*rank"', "one more, called log-0.1-rank, with an eye on calibration"),
    ("drystone stack table.zarr --form local --out fit.json", "weights that depend on the data, of any table"),
    ('drystone stack "jobs/*.npz"', "K files of log densities and no networks: see ds.adapters.to_file"),
    ('drystone stack moons --form "interval(alpha=0.2)" --score "interval(alpha=0.2)"', "80 % intervals"),
)
@click.argument("source", metavar="RUN|TABLE", type=click.Path(path_type=Path))
@click.option("--score", help='What to be good at: log, rank, energy, ... or a sum, "log + 0.1*rank".  [log]')
@click.option("--form", help='How to combine: mixture, local, sample, interval; "mixture(concentration=1.2)".')
@click.option("--name", help="Name of the fit: fits/NAME.json of a run.  [made of the form and the score]")
@click.option(
    "--drop", is_flag=True, help="Leave out members that are not finite or cannot be read, and say which."
)
@click.option("--out", type=click.Path(path_type=Path), help="Where to write the fit of a table.")
@force_option
def stack(
    source: Path,
    score: str | None,
    form: str | None,
    name: str | None,
    drop: bool,
    out: Path | None,
    force: bool,
) -> None:
    """Find the weights: writes fits/.

    Of a run, that is; those of a table (.zarr, .nc, or a file a member) are printed, and written with --out.

    Scores: log, rank, rank_moments, js, interval, moment, mean, energy; they add and scale. Forms: mixture, local,
    sample, interval. Both take arguments: interval(alpha=0.2), local(hidden=(32, 32)).

    A run's fits see its stacking rows only; those of a table see all rows.
    """
    from drystone.cli.tables import is_table
    from drystone.runs.config import Fit

    given = score is not None or form is not None
    asked = Fit(form or "mixture", score or "log", "drop" if drop else "raise")
    if is_table(source):
        _stack_table(source, asked, out)
        return
    if out is not None:
        raise click.UsageError("--out is for tables; the fits of a run are in its directory.")
    _stack_run(source, asked if given or drop else None, name, force)


def _stack_table(source: Path, asked: Fit, out: Path | None) -> None:
    from drystone.cli import objectives

    form, score = objectives.form(asked.form), objectives.score(asked.score)
    import drystone as ds
    from drystone.cli.tables import read_table

    with waiting("stacking"):
        fit = ds.stack(read_table(source, drop=asked.nonfinite == "drop"), form, score, nonfinite=asked.nonfinite)
    if out is not None:
        fit.save(out)
    say(fit.summary() + (f"\n\nwritten to {out}" if out else ""), path=out, **_facts(fit))


def _stack_run(source: Path, asked: Fit | None, name: str | None, force: bool) -> None:
    from drystone.runs import Run

    home = Run(source)
    with home.opened():
        config = configuration(home)
        if asked is not None:
            name = name or slug(asked.form, asked.score)
            config = config.with_fit(name, asked)
        if name and name not in config.fits:
            raise ValueError(f"there is no fit {name!r} in {home.config_file}; give its --score and --form.")
        fits = fit_all(home, config, [name] if name else config.fits, force)
    words = [f"{home.fit(each)}\n{fit.summary()}" for each, fit in fits.items()]
    say("\n\n".join(words), fits={each: {"path": home.fit(each), **_facts(fit)} for each, fit in fits.items()})


def fit_all(run: Run, config: Config, names: Iterable[str], force: bool = False) -> dict[str, Stacking]:
    """Make the fits of these names, or read those that are there."""
    from drystone.cli import objectives
    from drystone.runs import stages

    asked = {name: config.fits[name] for name in names}
    made = {name: (objectives.form(fit.form), objectives.score(fit.score)) for name, fit in asked.items()}
    return stages.stack(run, config, made, force=force)


def slug(form: str, score: str) -> str:
    """A name for a file: ``log + 0.1*rank`` of a mixture is ``log-0.1-rank``."""
    text = score if form == "mixture" else f"{form} {score}"
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")


def _facts(fit: Stacking) -> dict[str, Any]:
    names = ("loss", "terms", "gap", "stationarity", "converged", "iterations", "solver", "dropped", "notes")
    facts = {name: getattr(fit, name) for name in names}
    facts |= {"form": repr(fit.form), "score": repr(fit.score)}
    if "weights" in fit.params:
        facts["weights"] = dict(zip(fit.names, fit.weights.tolist(), strict=True))
    return facts
