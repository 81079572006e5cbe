"""Shared points of the rows of a table, and each member's log density there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drystone.adapters.member import CheckedMember
from drystone.adapters.points import PointSource
from drystone.table import Table
from drystone.table.statistics import Key
from drystone.tabulation.job import Job, Plan

__all__ = ["PointJob", "point_jobs", "proposing"]

# Most numbers of a job's log densities.
NUMBERS = 2**22


@dataclass(frozen=True, eq=False)
class PointJob(Job):
    """Shared points of some rows, and some members there.

    Attributes:
        members: those whose log densities are computed.
        shares: of the points that each member proposes, (K,).
        prior: p(θ), or None.
        points: the points, (n, M, d), if they are known already.
    """

    members: Sequence[CheckedMember]
    shares: np.ndarray
    prior: Any
    points: np.ndarray | None

    @property
    def label(self) -> str:
        """A digest of who is evaluated, and of who shares points; no member has an empty name."""
        sharing = [getattr(getattr(m.posterior, "normalizer", None), "names", None) for m in self.members]
        names = json.dumps([[m.name for m in self.members], sharing])
        return f"/{hashlib.sha256(names.encode()).hexdigest()}"

    def evaluate(self, rows: slice) -> dict[Key, np.ndarray]:
        """Return points (n, M, d), log_r, log_prior (n, M) and log_f (n, K, M) of some rows."""
        of_rows = [self._row(n) for n in range(*rows.indices(len(self.theta)))]
        return {key: np.stack([row[key] for row in of_rows]) for key in of_rows[0]}

    def _row(self, n: int) -> dict[Key, np.ndarray]:
        source = PointSource(self.members, self.shares, self.prior, self.y[n : n + 1])
        if self.points is not None:
            return {"log_f": source.log_f(self.points[n])}
        seed = np.random.SeedSequence(self.plan.seed, spawn_key=(2**32, self.start + n))
        drawn = source.sample(self.plan.points, np.random.default_rng(seed))
        points = np.concatenate([self.theta[n : n + 1], drawn])
        values = source.at(points)
        row: dict[Key, np.ndarray] = {"points": points, "log_r": values.log_r, "log_f": values.log_f}
        return row if values.log_prior is None else {**row, "log_prior": values.log_prior}


def proposing(members: Sequence[CheckedMember], prior: Any) -> np.ndarray:
    """Return the shares of the points that members propose, (K,): alike, of those that can draw."""
    able = np.array([member.has("sample") and member.has("log_prob") for member in members])
    if not able.any() and prior is None:
        raise ValueError("shared points need `prior`, or a member with both `log_prob` and `sample`.")
    return able / max(able.sum(), 1)


def point_jobs(
    members: Sequence[CheckedMember],
    prior: Any,
    plan: Plan,
    theta: np.ndarray,
    y: np.ndarray,
    earlier: Table | None,
) -> Iterator[PointJob]:
    """Yield the jobs of all rows.

    Args:
        members: Those whose log densities are to be computed.
        prior: p(θ), or None.
        plan: With the number of points.
        theta: True parameters, (N, d).
        y: Data, (N, ...).
        earlier: A table that has shared points already, or None.
    """
    known = earlier if earlier is not None and "points" in earlier.gives else None
    shares = np.zeros(len(members)) if known is not None else proposing(members, prior)
    rows = max(1, NUMBERS // ((plan.points + 1) * max(len(members), theta.shape[1])))
    for start in range(0, len(theta), rows):
        part = slice(start, start + rows)
        points = None if known is None else known.select(rows=slice(start, min(start + rows, len(theta)))).points
        yield PointJob("", plan, start, theta[part], y[part], members, shares, prior, points)
