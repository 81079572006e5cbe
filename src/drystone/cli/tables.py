"""Tables without a run: in a file, or in one file per member."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from drystone import Table
    from drystone.runs.evaluation import Evaluation

__all__ = ["evaluate_table", "is_table", "read_table"]

TABLES = (".zarr", ".nc")


def is_table(source: Path) -> bool:
    """Return whether a path names a table, or the files of its members (by a pattern), and not a run."""
    if (source / "config.toml").exists():
        return False
    return source.suffix in TABLES or _names_member_files(source)


def read_table(source: Path, *, memory: int | None = None, drop: bool = False) -> Table:
    """Read a table, or build one from its members' files; ``drop`` leaves out members that cannot be read.

    With ``memory`` a Zarr table stays on disk, and at most that many bytes are read at once.
    """
    import drystone as ds

    if _names_member_files(source):
        return ds.adapters.from_files(str(source), missing="drop" if drop else "raise")
    if memory is not None and source.suffix == ".zarr":
        return ds.Table.open(source, memory)
    return ds.Table.load(source)


def _names_member_files(source: Path) -> bool:
    is_pattern = any(letter in str(source) for letter in "*?[") and not source.exists()
    return is_pattern or source.suffix == ".npz"


def _finite(table: Table) -> Table:
    """Return the table with the members whose statistics are all finite; a warning names the others."""
    from drystone.table.nonfinite import count_nonfinite, name_members

    counts = count_nonfinite(table, sorted(table.gives))[0].max(0)
    if not counts.any():
        return table
    if counts.all():
        raise ValueError("no member is left: each has NaN or infinite entries.")
    warnings.warn(f"left out because of NaN or infinite entries: {name_members(table, counts)}.", stacklevel=2)
    return table.select(members=counts == 0)


def evaluate_table(source: Path, scores: tuple[str, ...], seed: int, exact: bool, drop: bool) -> Evaluation:
    """Stack one half of a table's rows by each score, and compare the fits on the other half."""
    from drystone.cli import objectives

    if exact:
        raise click.UsageError("--exact is for runs, whose task is known.")
    for text in scores:
        objectives.check_score(text)
    import drystone as ds
    from drystone.runs.evaluation import Evaluation

    table = read_table(source, drop=drop)
    if drop:
        table = _finite(table)
    validation, test = table.split(0.5, seed=seed)
    fits = {text: ds.stack(validation, score=objectives.score(text)) for text in scores}
    return Evaluation(validation, test, ds.compare(validation, test, fits or None))
