"""The table of the members: what each contributes, how good it is alone, its hyperparameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from drystone.comparison import LOG_DENSITY, RANK_DISTANCE, single
from drystone.estimate import mean_over_rows
from drystone.forms import Shares
from drystone.plots.palette import Style
from drystone.report.tables import Cell, Grid, cell, grid, with_error
from drystone.stacking.result import Stacking
from drystone.table import Table, blocks

__all__ = ["members_table"]


def members_table(
    test: Table,
    fits: Mapping[str, Stacking],
    contributions: Mapping[str, Shares],
    members: pd.DataFrame | None,
    styles: Mapping[str, Style],
) -> Grid:
    """Return one line per member, those that matter most to the first fit on top."""
    columns: dict[str, list[Cell]] = {"member": [Cell(name, name) for name in test.names]}
    for name, fit in fits.items():
        share = contributions[name]
        at = [fit.names.index(member) for member in test.names]
        longest = max(float(share.values.max()), np.finfo(float).tiny)
        label = "weight" if share.simplex else share.meaning
        bars = [_bar(share.values[k], longest, styles[name].name) for k in at]
        columns[f"{label}, {name}" if len(fits) > 1 else label] = bars
    if "log_q" in test.gives:
        has = test.has("log_q")
        columns[f"test {LOG_DENSITY.name}"] = [
            _log_density(log_q, test.row_weights) if has[k] else Cell("–") for k, log_q in enumerate(test.log_q)
        ]
    if blocks.has_array(test, "effective"):
        columns["effective points (median)"] = _of_normalized(np.median, test.effective)
    if blocks.has_array(test, "width"):
        columns["log density low by at most"] = _of_normalized(np.mean, test.width)
    if "rank" in test.gives:
        columns[RANK_DISTANCE.name] = [cell(value) for value in _rank_distances(test)]
    if members is not None:
        columns |= _facts(members, test.names)
    order = np.argsort([-(row.key if isinstance(row.key, float) else 0) for row in list(columns.values())[1]])
    rows = [[column[k] for column in columns.values()] for k in order]
    return grid("Members", list(columns), rows)


def _bar(share: float, longest: float, tint: str) -> Cell:
    text = "0" if share == 0 else "<0.0001" if share < 5e-5 else f"{share:.4f}"
    return Cell(text, float(share), bar=float(share) / longest, tint=tint)


def _log_density(log_q: np.ndarray, a: np.ndarray) -> Cell:
    """Return the mean over the rows with its standard error; if it is not finite, how many rows are at fault."""
    nans, zeros = int(np.isnan(log_q).sum()), int((log_q == -np.inf).sum())
    if nans:
        return Cell(f"NaN in {nans} rows")
    if zeros:
        return Cell(f"−∞ (density 0 in {zeros} rows)", float("-inf"))
    mean = mean_over_rows(log_q, a)
    return Cell(with_error(mean), mean.value)


def _of_normalized(average: Callable[[np.ndarray], Any], values: np.ndarray) -> list[Cell]:
    """Return averages over the rows, for the members that are normalized at points; the others have NaN."""
    return [Cell("–") if np.isnan(row).all() else cell(float(average(row))) for row in values]


def _rank_distances(test: Table) -> list[float]:
    """Return D of each member alone, from the ranks only: selecting a member must not copy its draws."""
    ranks = Table(test.theta, rank=test.rank, row_weights=test.row_weights)
    return [float(RANK_DISTANCE.score(single(ranks, k))) for k in range(test.K)]


def _facts(members: pd.DataFrame, names: tuple[str, ...]) -> dict[str, list[Cell]]:
    """Return the columns of the members' frame, in the order of ``names``; those that say nothing are left out."""
    known = [name for name in names if name in members.index]
    if not known:
        raise ValueError(
            f"`members` must be indexed by the members' names, such as {names[0]!r}; its index begins with "
            f"{list(members.index[:3])}."
        )
    aligned = members[~members.index.duplicated()].reindex(list(names)).dropna(axis="columns", how="all")
    return {str(name).replace("_", " "): [cell(value) for value in column] for name, column in aligned.items()}
