"""The program itself: finds the command, and turns every error into one sentence and an exit code."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from tempfile import gettempdir
from typing import Any

import click

from drystone import __version__
from drystone._files import disk_full
from drystone._messages import unknown
from drystone.cli.command import DEBUG, JSON

__all__ = ["cli", "main"]

# In the order of the work. Each is the function of that name in drystone/cli/NAME.py.
COMMANDS = (
    "demo", "infer", "simulate", "train", "tabulate", "stack", "compare", "sample", "report", "refine",
    "tasks", "completion",
)  # fmt: skip

OK, ERROR, USAGE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143


class CommandGroup(click.Group):
    """A group that imports a command when it is called, so that `drystone --help` is immediate."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the work, not of the alphabet."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command ``cmd_name`` of the module of that name."""
        if cmd_name not in COMMANDS:
            return None
        return getattr(importlib.import_module(f"drystone.cli.{cmd_name}"), cmd_name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Resolve as click does, with a better message for a command that does not exist."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            ctx.fail(unknown("command", args[0], COMMANDS))
        return super().resolve_command(ctx, args)


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="drystone")
def cli() -> None:
    """Simulation-based stacking: combine many imperfect posteriors into one calibrated posterior.

    A run is a directory. Each command reads some of its files and writes others, so any stage can be done
    elsewhere, and a killed run continues where it stopped when the same command is called again.

    \b
      drystone demo                                 all stages on a small problem, in some minutes
      drystone infer RUN                            all stages on the simulations of a run, or on your files
      drystone simulate RUN --task two_moons        simulations.zarr
      drystone train RUN --members 16               members/
      drystone tabulate RUN                         table.zarr
      drystone stack RUN --score "log + 10*rank"    fits/
      drystone report RUN                           report.html
      drystone refine RUN --at observed.npy         refined/: more simulations at your observation

    Already have K log densities, from any library? Begin with `drystone stack table.zarr`.
    """  # noqa: D301  (click reads the \b)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 done, 1 error, 2 usage, 130 interrupted, 143 terminated."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with warnings.catch_warnings(), _sigterm_raises():
            warnings.showwarning = _one_line
            code = cli.main(arguments, prog_name="drystone", standalone_mode=False)
        if sys.stdout is not None:  # closed: what is printed is lost, what is written is not
            sys.stdout.flush()
        return code if isinstance(code, int) else OK
    except click.UsageError as error:
        if JSON in arguments:
            click.echo(json.dumps({"error": error.format_message()}))
        error.show()
        return USAGE
    except (KeyboardInterrupt, click.Abort) as error:
        terminated = isinstance(error, Terminated) or isinstance(error.__cause__, Terminated)
        word, code = ("terminated", TERMINATED) if terminated else ("interrupted", INTERRUPTED)
        forced = " without --force" if "--force" in arguments else ""
        return _fail(f"{word}; the same command{forced} continues.", arguments, code)
    except BrokenPipeError:  # `drystone … | head`: the reader has closed the pipe
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that the flush at exit does not fail
        return ERROR
    except Exception as error:
        if DEBUG in arguments:
            traceback.print_exc()
        return _fail(_sentence(error), arguments, ERROR)


class Terminated(KeyboardInterrupt):
    """SIGTERM, as batch systems send it at the end of a job's time; the work ends as after Ctrl-C."""


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Let SIGTERM end the body by an exception, so that it says how to continue."""

    def terminate(*_: Any) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():  # which alone gets signals
        yield
        return
    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _fail(sentence: str, arguments: Sequence[str], code: int) -> int:
    if JSON in arguments:
        click.echo(json.dumps({"error": sentence}))
    click.echo(f"drystone: {sentence}", err=True)
    return code


def _sentence(error: Exception) -> str:
    """Return the message of an error on one line."""
    text = " ".join(str(error).split())
    if disk_full(error):
        filename = getattr(error, "filename", None)
        if filename is None:  # not a file of ours: those are named
            full = f"shared memory (/dev/shm), {gettempdir()} or the disk that the output goes to is full"
            return f"no space is left, but not for a file of the run: {full}. ({text})"
        return (
            f"the disk is full: {filename} could not be written. Simulations, members, table and fits are those "
            "that were there before, or new and complete; free some space and repeat the command."
        )
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror.lower()}."
    if isinstance(error, click.ClickException):
        return error.format_message()
    missing_extra = isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError)
    expected = missing_extra or isinstance(error, ValueError | TypeError | RuntimeError | OSError)
    return text if expected and text else f"unexpected {type(error).__name__}: {text} (--debug shows where)"


def _one_line(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning on one line, without the source code that Python shows."""
    click.echo(f"warning: {' '.join(str(message).split())}", err=True)
