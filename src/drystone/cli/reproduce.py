"""`drystone reproduce`: the paper's tables and figures."""

from __future__ import annotations

from pathlib import Path

import click

from drystone.cli.verb import say, verb, workers_option


@verb(
    ("drystone reproduce", "which tables and figures there are"),
    ("drystone reproduce table1 --quick", "a small version, to see that everything works"),
    ("drystone reproduce table2", "the whole of it; kill it whenever you like, the same command continues"),
)
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--quick", is_flag=True, help="A small version of a minute or two.")
@click.option(
    "--directory",
    default="runs/paper",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where all is kept; experiments share members, so give all the same.",
)
@click.option("--seed", default=0, show_default=True, help="Decides everything random.")
@workers_option
def reproduce(name: str | None, quick: bool, directory: Path, seed: int, workers: int | None) -> None:
    """Make a table or figure of the paper, or of what goes beyond it."""
    from drystone import experiments

    if name is None:
        titles = experiments.TITLES
        say("\n".join(f"{name:<16}{title}" for name, title in titles.items()), experiments=titles)
        return
    done = experiments.reproduce(name, quick=quick, directory=directory, workers=workers, seed=seed)
    say(str(done), result=done.record.result, files=done.files)
