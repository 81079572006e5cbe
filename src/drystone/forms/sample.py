r"""Aggregation of samples (Sec. 2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from drystone.forms import distances
from drystone.forms.derived import quantity_of_draws, truth_and_width
from drystone.forms.form import Arrays, Form, Shares
from drystone.forms.params import check_array, check_names
from drystone.forms.view import Params, View
from drystone.table import Statistic, Table, blocks
from drystone.table.statistics import quantile_places

__all__ = ["STRUCTURES", "SampleAggregation"]

STRUCTURES = ("scalar", "diagonal", "full")


@dataclass(frozen=True, repr=False)
class SampleAggregation(Form):
    r"""Draws that are sums of the members' draws.

    .. math::
        \theta^* = w_0 + \sum_k W_k \tilde\theta_k, \qquad \tilde\theta_k \sim q_k(\cdot|y) \text{ independent}

    It can move and rescale, which a mixture cannot, and it is a sampler: it has no density.

    Args:
        structure: of W_k: "scalar" (a number times the identity), "diagonal", "full" (the paper's), or "auto": the
            one of these, and how far it is fitted, that does best in cross-validation within the rows it is fitted
            to. If none does clearly better than all members with the same weight, the best member and a fitted
            mixture, the result is the best one of these, as a :class:`Mixture`.
        draws: how many of the table's draws are used at most, for what draws are needed for.
        holdout: the share of held-out rows that say after how many steps a fit by gradient stops before it
            overfits; it is then fitted to all rows. 0 to fit until it converges. "auto" cross-validates instead.

    Example:
        >>> import drystone as ds
        >>> table = ds.toy.table(200, seed=1).select(members=["wide"])
        >>> fit = ds.stack(table, ds.SampleAggregation("scalar"), ds.MomentScore())
        >>> fit.params["offset"].item() < 0, fit.params["matrix"].item() < 1  # moved down, and narrowed
        (True, True)
    """

    gives: ClassVar = frozenset({"rank", "mean", "moments", "interval", "draws"})
    structure: str = "auto"
    draws: int = 64
    holdout: float = 0.25

    def __post_init__(self) -> None:
        if self.structure not in (*STRUCTURES, "auto"):
            raise ValueError(f"`structure` must be one of {', '.join(STRUCTURES)}, auto; got {self.structure!r}.")
        if not 0 <= self.holdout < 1:
            raise ValueError(f"`holdout` must be in [0, 1); got {self.holdout}.")

    @property
    def chooses(self) -> bool:
        """Whether the structure is left to cross-validation."""
        return self.structure == "auto"

    def requires(self, statistic: str) -> str:
        """Return the statistic itself for moments, which follow from the members'; else draws."""
        return statistic if statistic in ("mean", "moments") else "draws"

    def combine(self, params: Params, table: Table, softness: Tensor | float = 0.0) -> SampleView:
        """Return the aggregated draws on the rows of ``table``."""
        return SampleView(params, table, self.draws, softness)

    def expand_params(self, params: dict[str, np.ndarray], members: np.ndarray, K: int) -> dict[str, np.ndarray]:
        """Return the matrices of all K members, W_k = 0 for the others."""
        matrix = np.zeros((K, *params["matrix"].shape[1:]))
        matrix[members] = params["matrix"]
        return {**params, "matrix": matrix}

    def active_members(self, params: Arrays) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the members with W_k ≠ 0."""
        members = np.flatnonzero(params["matrix"].any((1, 2)))
        return members, {**params, "matrix": params["matrix"][members]}

    def check_params(self, params: Arrays, K: int, d: int) -> None:
        """Raise ``ValueError`` unless there are an offset (d,) and matrices (K, d, d)."""
        check_names(params, ("offset", "matrix"))
        check_array("offset", params["offset"], (d,))
        check_array("matrix", params["matrix"], (K, d, d))

    def describe_params(self, params: Arrays, names: tuple[str, ...]) -> list[str]:
        """Return the members with the largest W_k."""
        size = _largest_entries(params)
        heaviest = [int(k) for k in np.argsort(-size)[:10] if size[k] > 0]
        return [f"  {names[k]:<40} {size[k]:8.4f}  (largest entry of W)" for k in heaviest]

    def shares(self, params: Arrays, table: Table) -> Shares:
        """Return the largest absolute entry of each W_k."""
        return Shares("largest entry of |W|", _largest_entries(params), simplex=False)


def _largest_entries(params: Arrays) -> np.ndarray:
    """Return max |W_k|, (K,)."""
    return np.abs(params["matrix"]).max((1, 2))


def _side_by_side(table: Table, n: int) -> Tensor:
    """Return n draws per row with the members' side by side, (N n, K d): a combination is one product."""
    draws = distances.mixed_draws(table, n).permute(1, 2, 0, 3)
    return draws.reshape(-1, table.K * table.d).contiguous()


class SampleView(View):
    """Statistics of aggregated draws: mean and covariance in closed form, the rest from draws."""

    def __init__(self, params: Params, table: Table, most: int, softness: Tensor | float = 0.0) -> None:
        super().__init__(table, softness)
        self.S = None if table.S is None else min(table.S, most)
        self.offset, self.matrix, self.most = params["offset"], params["matrix"], most

    def mean(self) -> Tensor:
        """Return w_0 + Σ_k W_k μ_k."""
        return self.offset + torch.einsum("kij,knj->ni", self.matrix, torch.as_tensor(self.table.mean))

    def cov(self) -> Tensor:
        """Return Σ_k W_k V_k W_kᵀ: the members' draws are independent of each other."""
        cov = torch.as_tensor(self.table.cov)
        return torch.einsum("kij,knjl,kml->nim", self.matrix, cov, self.matrix)

    def draws(self, n: int | None = None, seed: int = 0) -> Tensor:
        """Return w_0 + Σ_k W_k θ̃_k for the first draws of the table, (N, n, d)."""
        n = min(self.most, self.table.draws.shape[2]) if n is None else n
        if n > self.table.draws.shape[2]:
            raise ValueError(f"the table holds {self.table.draws.shape[2]} draws per member; got n = {n}.")
        members = blocks.cached(self.table, _side_by_side, n)
        matrix = self.matrix.transpose(1, 2).reshape(-1, self.d)  # (K d, d): all W_kᵀ one below the other
        return self.offset + (members @ matrix).view(-1, n, self.d)

    def independent_draws(self, seed: int = 0) -> Tensor:
        """Return w_0 + Σ_k W_k θ̃_k for all draws of the table, (N, S, d), one member at a time."""
        total = self.offset
        for k, matrix in enumerate(self.matrix):
            total = total + torch.as_tensor(np.asarray(self.table.draws[k], float)) @ matrix.mT
        return total

    def rank(self, statistic: Statistic | None = None) -> Tensor:
        """Return the share of draws ≤ θ_n; a sigmoid instead of the step where a solver wants a slope."""
        draws, width = self.draws(), self.softness
        above = self.theta[:, None, :] - draws
        if statistic is not None:
            truth, width_of_f = blocks.cached(self.table, truth_and_width, statistic, self.most)
            f = quantity_of_draws(draws, self.table.y, statistic, step=self.softness / 500)
            above, width = (truth[:, None] - f)[..., None], width_of_f * self.softness.any()
        if width.any():
            return torch.sigmoid(2 * above / width).mean(1)
        return (above >= 0).double().mean(1)

    def interval(self, alpha: float) -> Tensor:
        """Return quantiles of the aggregated draws, (N, d, 2)."""
        ordered = torch.sort(self.draws(), 1).values
        below, way = quantile_places([alpha / 2, 1 - alpha / 2], ordered.shape[1])
        above = np.minimum(below + 1, ordered.shape[1] - 1)
        ends = torch.lerp(ordered[:, below], ordered[:, above], torch.as_tensor(way)[:, None])
        return ends.permute(0, 2, 1)
