"""Parts that all commands share: `--json`, `--debug`, examples in the help, arguments, options and output."""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from drystone.runs import Config, Run

__all__ = [
    "DEBUG",
    "JSON",
    "cluster_client",
    "cluster_option",
    "command",
    "command_line",
    "configuration",
    "drop_option",
    "force_option",
    "print_result",
    "run_argument",
    "setting",
    "source_argument",
    "trust_option",
    "waiting",
    "workers_option",
]


JSON, DEBUG = "--json", "--debug"


def _store_flag(context: click.Context, option: click.Parameter, value: bool) -> None:
    context.meta[option.opts[0]] = value


class Command(click.Command):
    """A command with `--json`, `--debug` and a section of examples."""

    def __init__(self, *args: Any, examples: Sequence[tuple[str, str]] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        for flag, text in ((JSON, "Print one JSON object."), (DEBUG, "Show the traceback of an error.")):
            option = click.Option([flag], is_flag=True, expose_value=False, callback=_store_flag, help=text)
            self.params.append(option)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, each with its effect on the line below."""
        if self.examples:
            with formatter.section("Examples"):
                for line, meaning in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")
                    formatter.write(f"{'':{formatter.current_indent}}    {meaning}\n")


def command(*examples: tuple[str, str]) -> Callable[[Callable[..., Any]], Command]:
    """Turn a function into a command; each example is a pair (command line, effect)."""
    return click.command(cls=Command, examples=examples)


def _source(context: click.Context, argument: click.Parameter, paths: Sequence[Path]) -> Path:
    """Return the only path, which may be a pattern; raise if the shell has expanded a pattern into several."""
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


run_argument = click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
source_argument = click.argument(
    "source", metavar="RUN|TABLE", nargs=-1, required=True, type=click.Path(path_type=Path), callback=_source
)
drop_option = click.option(
    "--drop", is_flag=True, help="Leave out members that are not finite or cannot be read, and name them."
)
trust_option = click.option(
    "--trust", is_flag=True, help="Import the task module:object of config.toml, which is code, if it is needed."
)
force_option = click.option("--force", is_flag=True, help="Make the files again and replace those that exist.")
workers_option = click.option("--workers", type=click.IntRange(1), help="Processes or threads on this machine.")
cluster_option = click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Run on a Dask cluster: tcp://HOST:PORT of its scheduler, or its scheduler file.",
)


def setting(section: type, name: str, flag: str = "", *, help: str, **options: Any) -> Callable[[Any], Any]:
    """Return the option for a setting of `config.toml`; its help ends with the default of its section.

    Args:
        section: The section's dataclass.
        name: Name of the field.
        flag: Name of the option, if it differs from the field's name.
        help: Description of the setting.
        options: Arguments of `click.option`.
    """
    default = {field.name: field.default for field in fields(section)}[name]
    shown = json.dumps(default) if isinstance(default, bool) else default
    flag = flag or f"--{name.replace('_', '-')}"
    return click.option(flag, name, default=None, help=f"{help}  [{shown}]", **options)


@contextmanager
def cluster_client(cluster: str | None, workers: int | None) -> Iterator[Any]:
    """Yield the client of the cluster at an address; None without an address, for work on this machine."""
    if cluster is None:
        yield None
        return
    if workers is not None:
        raise click.UsageError("--workers applies to this machine; a cluster has its own workers.")
    from drystone._parallel import connect

    with connect(cluster) as client:
        yield client


def command_line() -> str:
    """Return the command line of this call, quoted for a shell; options that were not given are left out."""
    context = click.get_current_context()
    words = context.command_path.split()
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is not ParameterSource.DEFAULT
        if name in context.params and (given or isinstance(parameter, click.Argument)):
            words += _words(parameter, context.params[name])
    return shlex.join(words)


def _words(parameter: click.Parameter, value: Any) -> list[str]:
    """Return the words of a command line that give a parameter its value."""
    if isinstance(parameter, click.Argument):
        return [str(value)]
    if isinstance(value, bool):
        return [parameter.opts[0] if value else parameter.secondary_opts[0]]
    values = value if parameter.multiple else (value,)
    return [word for each in values for word in (parameter.opts[0], str(each))]


def print_result(text: str, **values: Any) -> None:
    """Print the result of a command: the text or, with `--json`, the values as one JSON object."""
    as_json = click.get_current_context().meta.get(JSON, False)
    click.echo(json.dumps(_plain(values), indent=1) if as_json else text)


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show a line on the terminal while the body runs, for work without a progress bar of its own."""
    shown = sys.stderr.isatty()
    if shown:
        click.echo(f"{text} …", nl=False, err=True)
    try:
        yield
    finally:
        if shown:
            click.echo("\r\033[K", nl=False, err=True)


def configuration(run: Run) -> Config:
    """Return the configuration of a run; raise before any long work if the text of a fit is not understood."""
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
    """Return a value that JSON can hold: lists for arrays, text for paths, null for non-finite numbers."""
    if hasattr(value, "tolist"):  # NumPy
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
