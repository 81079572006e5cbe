r"""Energy score: strictly proper, from draws alone (beyond the paper; fills blank cells of its Table 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from drystone.forms.view import View
from drystone.scores.score import RowScore, as_scale, unit

__all__ = ["EnergyScore"]


@dataclass(frozen=True, repr=False)
class EnergyScore(RowScore):
    r"""Energy score of the stacked posterior (Gneiting & Raftery 2007; the CRPS if d = 1).

    .. math::
        S = \sum_n a_n \left[ E\|\theta^* - \theta_n\| - \tfrac12 E\|\theta^* - \theta^{*\prime}\| \right]

    Strictly proper. For a mixture it is a convex quadratic in the weights.

    Args:
        scale: divide each parameter by this first, (d,); the prior's standard deviations make parameters of
            different units comparable.
        draws: how many draws per member and simulation the second term uses at most. They may be of a Markov
            chain, in its order, but not sorted. Its cost is K² N distances for each.

    Example:
        >>> import drystone as ds
        >>> table = ds.toy.table(200, seed=1)
        >>> fit = ds.stack(table, score=ds.EnergyScore(draws=50))
        >>> fit.loss < ds.Stacking.uniform(table.names, score=fit.score).evaluate(table)["loss"], fit.gap < 1e-8
        (True, True)
    """

    needs: ClassVar = frozenset({"draws"})
    has_units: ClassVar = True
    convex: ClassVar = True
    scale: tuple[float, ...] | None = None
    draws: int = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", as_scale(self.scale))
        if self.draws < 2:
            raise ValueError(f"`draws` must be at least 2, to have pairs; got {self.draws}.")

    def rows(self, q: View) -> Tensor:
        """Return the score of each row."""
        to_truth, spread = q.distances_by_row(self.draws, unit(self.scale, q.d))
        return to_truth - spread / 2

    def __call__(self, q: View) -> Tensor:
        """The same from distances averaged over rows, which a mixture holds once for all weights."""
        to_truth, spread = q.distances(self.draws, unit(self.scale, q.d))
        return to_truth - spread / 2
