r"""Curves that are straight where a posterior is exact: ECDFs of ranks and of central levels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from drystone._messages import counted, first_few, html_table
from drystone.comparison import Fits
from drystone.diagnostics.band import POINTS, Band, ecdf_band
from drystone.diagnostics.ranks import Ranks, ranks
from drystone.table import Table

__all__ = ["Calibration", "coverage", "ecdf", "rank_calibration", "rank_ecdf"]


@dataclass(frozen=True, eq=False)
class Calibration:
    """ECDFs of numbers that are uniform where a posterior is exact, and the band that uniform ones keep to.

    The band is for one curve: of many members or parameters, some leave a 95% band by chance. It is exact for rows
    of equal weight; for others it is an approximation by the effective number of rows, which is good unless few
    rows carry most of the weight.

    Attributes:
        grid: points at which the curves are evaluated, (G,).
        members: ECDFs of the members, (K, G, d).
        methods: ECDFs of uniform weights and of the fits, by name, (G, d) each.
        band: of the ECDF of as many uniform numbers as there are rows (effective rows, if they are weighted).
        names: of the members.
        parameters: names along the last axis, of θ if it has d entries.

    Example:
        >>> import drystone as ds
        >>> fit = ds.stack(ds.toy.table(500, seed=1))
        >>> print(ds.diagnostics.rank_ecdf(ds.toy.table(200, seed=2), fit))
        Calibration of 4 members and 2 methods:
        uniform: outside the band for theta
        stacked: inside the band
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

    def __str__(self) -> str:
        words = [f"{name}: {self._outside(inside)}" for name, inside in self.inside.items()]
        of = f"{counted(len(self.names), 'member')} and {counted(len(self.methods), 'method')}"
        return "\n".join([f"Calibration of {of}:", *words])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [[name, *("inside" if ok else "outside" for ok in inside)] for name, inside in self.inside.items()]
        title = f"Curves of {len(self.methods)} methods and the band of uniform ranks"
        return html_table(title, ["method", *self.parameters], rows)

    def _outside(self, inside: np.ndarray) -> str:
        """Return which parameters leave the band, in words."""
        outside = [name for name, ok in zip(self.parameters, inside, strict=True) if not ok]
        return f"outside the band for {first_few(outside)}" if outside else "inside the band"

    @property
    def frame(self) -> pd.DataFrame:
        """One row per method, parameter and grid point: the ECDF, its standard error, and the band."""
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
    r"""Compute the ECDFs of the ranks: P(rank ≤ z) against z.

    Above the diagonal the true values lie too often low in the posterior: it is biased upwards. An S around the
    middle (above it first, then below) is a posterior that is too narrow, the reverse one that is too wide.

    Args:
        table: rows that neither members nor fits have seen.
        fits: a stacking, or several by name.
        level: of the band.

    Example:
        >>> import drystone as ds
        >>> ecdf = ds.diagnostics.rank_ecdf(ds.toy.table(500, seed=2))
        >>> middle = ecdf.members[:, len(ecdf.grid) // 2, 0]  # P(rank ≤ ½)
        >>> dict(zip(ecdf.names, middle.round(1).tolist()))
        {'right': 0.8, 'left': 0.2, 'narrow': 0.5, 'wide': 0.7}
    """
    return rank_calibration(ranks(table, fits), level)


def coverage(table: Table, fits: Fits = None, *, level: float = 0.95) -> Calibration:
    r"""Compute how often the central c interval holds the truth, against c, from the ranks.

    The central c interval holds the truth if :math:`|2u - 1| \le c` for its rank u; where the posterior is exact
    these are uniform too. Below the diagonal it is overconfident.

    Args:
        table: rows that neither members nor fits have seen, with at least two draws each.
        fits: a stacking, or several by name.
        level: of the band.

    Example:
        >>> import drystone as ds
        >>> coverage = ds.diagnostics.coverage(ds.toy.table(500, seed=2))
        >>> of_half = coverage.members[:, abs(coverage.grid - 0.5).argmin(), 0]  # of intervals that should cover ½
        >>> dict(zip(coverage.names, of_half.round(1).tolist()))
        {'right': 0.3, 'left': 0.3, 'narrow': 0.3, 'wide': 0.9}
    """
    r = ranks(table, fits)
    if r.draws is None:
        grid = _even()
    elif r.draws < 2:
        raise ValueError(
            f"coverage needs at least 2 draws per simulation, for an interval between them; got {r.draws}. "
            "Tabulate with more draws, or look at `rank_ecdf`."
        )
    else:
        # With c of the parity of S + 1, (1 ± c)/2 are multiples of 1/(S + 1): P(|2u − 1| ≤ c) = c exactly.
        grid = _some(np.arange(1 + r.draws % 2, r.draws + 1, 2)) / (r.draws + 1)
    low, high = (_ecdfs(r, (1 + sign * grid) / 2) for sign in (-1, 1))
    members, of_methods = high[0] - low[0], {name: high[1][name] - low[1][name] for name in high[1]}
    band = ecdf_band(r.effective_rows, level, grid)
    return Calibration(grid, members, of_methods, band, r.names, r.parameters)


def rank_calibration(r: Ranks, level: float) -> Calibration:
    """Compute ECDFs of ranks at multiples of 1/(S + 1), where P(u ≤ z) = z of exact posteriors."""
    grid = _even() if r.draws is None else _some(np.arange(1, r.draws + 1)) / (r.draws + 1)
    band = ecdf_band(r.effective_rows, level, grid)
    return Calibration(grid, *_ecdfs(r, grid), band, r.names, r.parameters)


def _ecdfs(r: Ranks, z: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return ECDFs of the members, (K, G, d), and of the methods, (G, d) each."""
    of_methods = {name: ecdf(u, z, r.row_weights) for name, u in r.methods.items()}
    return np.stack([ecdf(u, z, r.row_weights) for u in r.members]), of_methods


def ecdf(u: np.ndarray, z: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Return Σ_n a_n 1(u_n ≤ z) for each z and column of u (N, d): (G, d); NaN where a rank is."""
    curves = np.empty((len(z), u.shape[1]))
    for i, column in enumerate(u.T):
        order = np.argsort(column)
        cumulated = np.concatenate([[0.0], np.cumsum(a[order])])
        curves[:, i] = np.minimum(cumulated[np.searchsorted(column[order], z, side="right")], 1.0)
        if np.isnan(column).any():
            curves[:, i] = np.nan
    return curves


def _even() -> np.ndarray:
    """Return the grid of ranks with an unknown number of draws behind them."""
    return np.arange(1, POINTS) / POINTS


def _some(points: np.ndarray) -> np.ndarray:
    """Return at most POINTS of some points, evenly spread."""
    return points[np.unique(np.linspace(0, len(points) - 1, min(len(points), POINTS)).round().astype(int))]
