"""What all verbs have in common: `--json`, `--debug`, examples in the help, and how they speak."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from drystone.runs import Config, Run

__all__ = [
    "DEBUG",
    "JSON",
    "cluster_client",
    "cluster_option",
    "configuration",
    "drop_option",
    "force_option",
    "run_argument",
    "say",
    "setting",
    "source_argument",
    "verb",
    "waiting",
    "workers_option",
]


JSON, DEBUG = "--json", "--debug"


def _note(context: click.Context, option: click.Parameter, value: bool) -> None:
    context.meta[option.opts[0]] = value


class Verb(click.Command):
    """A command with `--json`, `--debug` and a section of examples."""

    def __init__(self, *args: Any, examples: Sequence[tuple[str, str]] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        for flag, words in ((JSON, "Print one JSON object."), (DEBUG, "Show the traceback of an error.")):
            self.params.append(click.Option([flag], is_flag=True, expose_value=False, callback=_note, help=words))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples: what to type, and below it what that does."""
        if self.examples:
            with formatter.section("Examples"):
                for command, meaning in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{command}\n")
                    formatter.write(f"{'':{formatter.current_indent}}    {meaning}\n")


def verb(*examples: tuple[str, str]) -> Callable[[Callable[..., Any]], Verb]:
    """Make a command of a function, with examples as (command, what it does)."""
    return click.command(cls=Verb, examples=examples)


def _source(context: click.Context, argument: click.Parameter, paths: Sequence[Path]) -> Path:
    """The one path that was given, which may be a pattern; several are one that the shell has expanded."""
    if len(paths) > 1:
        raise click.UsageError(f'{len(paths)} paths: put quotes around a pattern, as in "jobs/*.npz".')
    path = paths[0]
    if path.suffix == ".npy":
        raise click.UsageError(
            f"{path} is an array. A table is a .zarr or .nc, as ds.Table(theta, log_q=...).save() writes it, or "
            'a pattern of files of one member each ("*.npz"), as ds.adapters.to_file does.'
        )
    known = any((path / name).exists() for name in ("config.toml", "table.zarr"))
    if path.is_dir() and path.suffix != ".zarr" and not known and any(path.glob("*.npz")):
        raise click.UsageError(f'{path} is not a run; for the members\' files in it give "{path}/*.npz".')
    return path


run_argument = click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
source_argument = click.argument(
    "source", metavar="RUN|TABLE", nargs=-1, required=True, type=click.Path(path_type=Path), callback=_source
)
drop_option = click.option(
    "--drop", is_flag=True, help="Leave out members that are not finite or cannot be read, and say which."
)
force_option = click.option("--force", is_flag=True, help="Make it again, replacing what is there.")
workers_option = click.option("--workers", type=click.IntRange(1), help="Processes or threads on this machine.")
cluster_option = click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Work on a Dask cluster: tcp://HOST:PORT of its scheduler, or its file.",
)


def setting(section: type, name: str, flag: str = "", *, help: str, **options: Any) -> Callable[[Any], Any]:
    """Make an option of a setting of `config.toml`; its help ends with the default of its section.

    Args:
        section: The section's dataclass.
        name: Of the field.
        flag: If it is not the field's name.
        help: What it is.
        options: Of `click.option`.
    """
    default = {field.name: field.default for field in fields(section)}[name]
    shown = json.dumps(default) if isinstance(default, bool) else default
    return click.option(flag or f"--{name}", name, default=None, help=f"{help}  [{shown}]", **options)


@contextmanager
def cluster_client(cluster: str | None, workers: int | None) -> Iterator[Any]:
    """Yield the client of the cluster at an address; None if the work is to be done on this machine."""
    if cluster is None:
        yield None
        return
    if workers is not None:
        raise click.UsageError("--workers is for this machine; a cluster has workers of its own.")
    from drystone._parallel import connect

    with connect(cluster) as client:
        yield client


def say(words: str, **facts: Any) -> None:
    """Print what a verb has to say: words for a person or, with `--json`, the facts."""
    for_machine = click.get_current_context().meta.get(JSON, False)
    click.echo(json.dumps(_plain(facts), indent=1) if for_machine else words)


@contextmanager
def waiting(words: str) -> Iterator[None]:
    """Say on a terminal what is being done that has no progress bar of its own, until it is done."""
    shown = sys.stderr.isatty()
    if shown:
        click.echo(f"{words} …", nl=False, err=True)
    try:
        yield
    finally:
        if shown:
            click.echo("\r\033[K", nl=False, err=True)


def configuration(run: Run) -> Config:
    """The configuration of a run, with the names in its fits known before anything long is begun."""
    from drystone.cli.objectives import check_form, check_score

    config = run.config
    for name, fit in config.fits.items():
        try:
            check_form(fit.form)
            check_score(fit.score)
        except ValueError as error:
            raise ValueError(f"[fits.{name}] in {run.config_file}: {error}") from None
    return config


def _plain(value: Any) -> Any:
    """As JSON has it: lists for arrays, text for paths, null for numbers that are not finite."""
    if hasattr(value, "tolist"):  # NumPy
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
