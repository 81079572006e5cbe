"""Ranks of true parameters among draws: simulation-based calibration (Talts et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from drystone.comparison import Fits, methods
from drystone.estimate import effective_rows
from drystone.table import Table

__all__ = ["Ranks", "middle", "ranks"]


@dataclass(frozen=True, eq=False)
class Ranks:
    r"""Ranks in (0, 1) of the true parameters, uniform where a posterior is exact.

    A share r of S draws takes S + 1 values; a rank here is :math:`u = (S r + ½) / (S + 1)`, which lies in the
    middle of its part of (0, 1): at z a multiple of 1/(S + 1), :math:`P(u \le z) = z` if the posterior is exact.

    Ranks of a mixture are those among S independent draws of it, chosen from the members' draws: uniform if it is
    exact, which Σ_k w_k r_k, with the draws of all members behind it, is not.

    Attributes:
        members: (K, N, d).
        methods: uniform weights and the fits, by name, (N, d) each.
        names: of the members.
        parameters: of θ.
        row_weights: a_n, (N,).
        draws: S, the draws behind each rank, or None where the table does not say; then u = r.

    Example:
        >>> import drystone as ds
        >>> ranks = ds.diagnostics.ranks(ds.toy.table(500, seed=1))
        >>> means = ranks.members.mean((1, 2))  # ½ where there is no bias
        >>> dict(zip(ranks.names, means.round(1).tolist()))
        {'right': 0.2, 'left': 0.7, 'narrow': 0.5, 'wide': 0.4}
    """

    members: np.ndarray
    methods: Mapping[str, np.ndarray]
    names: tuple[str, ...]
    parameters: tuple[str, ...]
    row_weights: np.ndarray
    draws: int | None

    @property
    def effective_rows(self) -> int:
        """1 / Σ a_n², rounded: N if rows are weighted equally."""
        return round(effective_rows(self.row_weights))


def ranks(table: Table, fits: Fits = None) -> Ranks:
    """Return the ranks of each member, of uniform weights and of each fit that has any.

    Args:
        table: rows that neither members nor fits have seen, with ``rank`` or ``draws``.
        fits: a stacking, or several by name; an aggregated interval has no ranks and is skipped.

    Example:
        >>> import drystone as ds
        >>> r = ranks(ds.toy.table(300, seed=1), ds.stack(ds.toy.table(300)))
        >>> r.members.shape, list(r.methods), r.methods["stacked"].shape
        ((4, 300, 1), ['uniform', 'stacked'], (300, 1))
    """
    if "rank" not in table.gives:
        raise ValueError(f"ranks need `rank` or `draws`; the table gives: {', '.join(sorted(table.gives))}.")
    with torch.no_grad():
        views = methods(table, fits, {"rank"})
        of_methods = {name: middle(view.rank().numpy(), table.S) for name, view in views.items()}
    return Ranks(
        members=middle(table.rank, table.S),
        methods=of_methods,
        names=table.names,
        parameters=table.parameters,
        row_weights=table.row_weights,
        draws=table.S,
    )


def middle(rank: np.ndarray, S: int | None) -> np.ndarray:
    """Return (S r + ½) / (S + 1) of ranks; the ranks themselves if S is not known."""
    return rank if S is None else (S * rank + 0.5) / (S + 1)
