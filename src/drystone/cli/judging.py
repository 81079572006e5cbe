"""A bare table judged: half of its rows to fit, half to judge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from drystone.runs.judge import Judged

__all__ = ["is_table", "judge_table"]


def is_table(source: Path) -> bool:
    """Whether a path names a table, not a run."""
    return source.suffix in (".zarr", ".nc")


def judge_table(source: Path, scores: tuple[str, ...], seed: int, exact: bool) -> Judged:
    """Stack one half of a table's rows for each score and judge on the other."""
    from drystone.cli import objectives

    if exact:
        raise click.UsageError("--exact is for runs, whose task is known.")
    for text in scores:
        objectives.check_score(text)
    import drystone as ds
    from drystone.runs.judge import Judged

    validation, test = ds.Table.load(source).split(0.5, seed=seed)
    fits = {text: ds.stack(validation, score=objectives.score(text)) for text in scores}
    return Judged(validation, test, ds.compare(validation, test, fits or None))
