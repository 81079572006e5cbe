"""Parts in arrays: of a table that nobody asked to have on disk."""

from __future__ import annotations

import numpy as np

from drystone.table import Table
from drystone.tabulation.job import Job, Part
from drystone.tabulation.outline import Outline

__all__ = ["Memory"]


class Memory:
    """Keeps parts in arrays (K, N, ...) by statistic.

    Args:
        names: the members.
        N: how many rows.
    """

    def __init__(self, names: list[str], N: int) -> None:
        self.names, self.N = names, N
        self.arrays: dict[str | float, np.ndarray] = {}

    def find(self, job: Job) -> Part | None:
        """Nothing is left of an earlier run."""
        return None

    def keep(self, job: Job, part: Part) -> None:
        """Put a part in its place."""
        for key, rows in part.statistics.items():
            if key not in self.arrays:
                self.arrays[key] = np.zeros((len(self.names), self.N, *rows.shape[1:]), rows.dtype)
            # Wide enough for every member's draws.
            self.arrays[key] = self.arrays[key].astype(np.result_type(self.arrays[key], rows), copy=False)
            self.arrays[key][self.names.index(job.member.name), job.start : job.start + len(rows)] = rows

    def table(self, outline: Outline) -> Table:
        """The table of the members that did not fail, with the statistics that all of them give."""
        held = {key: self.arrays.pop(key) for key in outline.dtypes}
        if outline.left_out:
            kept = [self.names.index(name) for name in outline.names]
            held = {key: array[kept] for key, array in held.items()}
        return Table(
            outline.theta,
            outline.y,
            quantiles={key: array for key, array in held.items() if isinstance(key, float)},
            names=outline.names,
            parameters=outline.parameters,
            row_weights=outline.row_weights,
            left_out=outline.left_out,
            S=outline.S,
            **{key: array for key, array in held.items() if isinstance(key, str)},
        )
