r"""Curves that are straight where a posterior is exact: ECDFs of ranks and of central levels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from drystone.diagnostics.band import POINTS, Band, ecdf_band
from drystone.diagnostics.ranks import Ranks, ranks
from drystone.methods import Fits
from drystone.table import Table

__all__ = ["Calibration", "calibration", "coverage", "rank_ecdf", "rank_grid"]


@dataclass(frozen=True, eq=False)
class Calibration:
    """ECDFs of numbers that are uniform where a posterior is exact, and the band that uniform ones keep to.

    The band is for one curve: of many members or parameters, some leave a 95% band by chance.

    Attributes:
        grid: where the curves are looked at, (G,).
        members: ECDFs of the members, (K, G, d).
        methods: ECDFs of uniform weights and of the fits, by name, (G, d) each.
        band: of the ECDF of as many uniform numbers as there are rows (effective ones, if they are weighted).
        names: of the members.
        parameters: of θ, or of whatever the last axis is.
    """

    grid: np.ndarray
    members: np.ndarray
    methods: Mapping[str, np.ndarray]
    band: Band
    names: tuple[str, ...]
    parameters: tuple[str, ...]

    @property
    def inside(self) -> dict[str, np.ndarray]:
        """Whether each method's curve stays in the band, for each parameter, (d,)."""
        return {name: self.band.holds(curve) for name, curve in self.methods.items()}

    @property
    def members_inside(self) -> np.ndarray:
        """Whether each member's curve stays in the band, (K, d)."""
        return self.band.holds(self.members)

    @property
    def frame(self) -> pd.DataFrame:
        """A row a method, parameter and grid point: the ECDF, its standard error, and the band."""
        of_members = {name: curve for name, curve in zip(self.names, self.members, strict=True)}
        blocks = []
        for kind, curves in (("member", of_members), ("method", self.methods)):
            for name, curve in curves.items():
                for i, parameter in enumerate(self.parameters):
                    p = curve[:, i]
                    block = {"kind": kind, "name": name, "parameter": parameter, "nominal": self.grid, "ecdf": p}
                    block |= {"se": np.sqrt(p * (1 - p) / self.band.rows)}
                    blocks.append(pd.DataFrame(block | {"lower": self.band.lower, "upper": self.band.upper}))
        return pd.concat(blocks, ignore_index=True)


def rank_ecdf(table: Table, fits: Fits = None, *, level: float = 0.95) -> Calibration:
    r"""ECDFs of the ranks: P(rank ≤ z) against z.

    Above the diagonal the true values lie too often low in the posterior: it is biased upwards. An S around the
    middle (above it first, then below) is a posterior that is too narrow, the reverse one that is too wide.

    Args:
        table: rows that neither members nor fits have seen.
        fits: a stacking, or several by name.
        level: of the band.
    """
    r = ranks(table, fits)
    return calibration(r, rank_grid(r.draws), level)


def coverage(table: Table, fits: Fits = None, *, level: float = 0.95) -> Calibration:
    r"""How often the central c interval holds the truth, against c: coverage, read off the ranks.

    The central c interval holds the truth if :math:`|2u - 1| \le c` for its rank u; where the posterior is exact
    these are uniform too. Below the diagonal it is overconfident.

    Args:
        table: rows that neither members nor fits have seen.
        fits: a stacking, or several by name.
        level: of the band.
    """
    r = ranks(table, fits)
    if r.draws is None:
        grid = np.arange(1, POINTS) / POINTS
    else:
        # |2u − 1| sits between multiples of 1/(S + 1) of the parity of S + 1; there P(|2u − 1| ≤ c) = c exactly.
        grid = _some(np.arange(1 + r.draws % 2, r.draws + 1, 2)) / (r.draws + 1)
    central = Ranks(
        np.abs(2 * r.members - 1),
        {name: np.abs(2 * u - 1) for name, u in r.methods.items()},
        r.names,
        r.parameters,
        r.row_weights,
        r.draws,
    )
    return calibration(central, grid, level)


def calibration(uniform: Ranks, grid: np.ndarray, level: float) -> Calibration:
    """ECDFs, on a grid, of numbers that should be uniform."""
    a = uniform.row_weights
    return Calibration(
        grid,
        np.stack([_ecdf(u, grid, a) for u in uniform.members]),
        {name: _ecdf(u, grid, a) for name, u in uniform.methods.items()},
        ecdf_band(uniform.effective_rows, level, grid),
        uniform.names,
        uniform.parameters,
    )


def rank_grid(S: int | None) -> np.ndarray:
    """Points at which ranks among S draws are looked at: P(u ≤ z) = z holds at multiples of 1/(S + 1)."""
    return np.arange(1, POINTS) / POINTS if S is None else _some(np.arange(1, S + 1)) / (S + 1)


def _ecdf(u: np.ndarray, grid: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Σ_n a_n 1(u_n ≤ z) for each z and column of u (N, d): (G, d); NaN where a rank is."""
    curves = np.empty((len(grid), u.shape[1]))
    for i, column in enumerate(u.T):
        order = np.argsort(column)
        cumulated = np.concatenate([[0.0], np.cumsum(a[order])])
        curves[:, i] = np.minimum(cumulated[np.searchsorted(column[order], grid, side="right")], 1.0)
        if np.isnan(column).any():
            curves[:, i] = np.nan
    return curves


def _some(points: np.ndarray) -> np.ndarray:
    """At most POINTS of them, evenly spread."""
    return points[np.unique(np.linspace(0, len(points) - 1, min(len(points), POINTS)).round().astype(int))]
