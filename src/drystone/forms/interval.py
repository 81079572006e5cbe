r"""Aggregation of intervals (Sec. 2.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from drystone.forms.form import Arrays, Form, MemberLike, Shares
from drystone.forms.params import check_array, check_names, check_simplex
from drystone.forms.view import Params, View, as_tensors, members_in_use
from drystone.table import Table
from drystone.table.inputs import Levels, as_levels, each_level

__all__ = ["CONSTRAINTS", "IntervalAggregation"]

# What the weights of an end may be.
CONSTRAINTS = ("free", "nonnegative", "convex")


@dataclass(frozen=True, repr=False)
class IntervalAggregation(Form):
    r"""Central intervals whose ends are weighted sums of the members' ends.

    .. math::
        l^*_n = w_0 + \sum_k w_k l_{kn}, \qquad u^*_n = v_0 + \sum_k v_k u_{kn}

    Not a posterior: it gives intervals, and nothing else. If l* > u* the two are exchanged.

    Args:
        alpha: miscoverage; 0.1 for 90 % intervals. Several levels are fitted at once, each on its own.
        shared: one set of weights for all parameters (as in the paper's tables), not one for each.
        weights: "free" (the paper's), "nonnegative", "convex" (on the simplex), or "auto": one of these, with or
            without intercept, as it is or part of the way back to the average of all ends or to the best member's,
            or one of these two: the one that does best in cross-validation within the rows it is fitted to.
        intercept: whether w_0 and v_0 are fitted, or 0; "auto" decides itself.
        conformal: fit the weights on two thirds of the rows, and on the last third widen (or narrow) the
            intervals so that they cover a new truth with probability ≥ 1 − alpha, whatever the members are. That
            holds for ends read off as many draws per member as the table has, S; at new data they are.
        ridge: strength of a quadratic penalty on the weights, for parameters of unit spread.

    Example:
        >>> import drystone as ds
        >>> form = ds.IntervalAggregation(alpha=0.1, weights="convex", conformal=True)
        >>> fit = ds.stack(ds.toy.table(200, seed=1), form, ds.IntervalScore(alpha=0.1))
        >>> fit.posterior(ds.toy.MEMBERS).interval(2.0, seed=1).round(1)
        array([[0.3, 3.7]])
    """

    gives: ClassVar = frozenset({"interval"})
    alpha: Levels = 0.1
    shared: bool = False
    weights: str = "auto"
    intercept: bool = False
    conformal: bool = False
    ridge: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", as_levels(self.alpha))
        if self.weights not in (*CONSTRAINTS, "auto"):
            raise ValueError(f"`weights` must be one of {', '.join(CONSTRAINTS)}, auto; got {self.weights!r}.")
        if not 0 <= self.ridge < np.inf:
            raise ValueError(f"`ridge` must be ≥ 0; got {self.ridge}.")

    @property
    def chooses(self) -> bool:
        """Whether the constraints on the weights are left to cross-validation."""
        return self.weights == "auto"

    def combine(self, params: Params, table: Table, softness: Tensor | float = 0.0) -> IntervalView:
        """Return the aggregated intervals on the rows of ``table``."""
        return IntervalView(self, params, table, softness)

    def penalised(self, factor: float) -> IntervalAggregation:
        """Return the form with ``factor`` times the ridge."""
        return replace(self, ridge=factor * self.ridge)

    def expand_params(self, params: dict[str, np.ndarray], members: np.ndarray, K: int) -> dict[str, np.ndarray]:
        """Return the weights of all K members, 0 for the others."""
        whole = dict(params)
        for end in ("lower", "upper"):
            whole[end] = np.zeros((*params[end].shape[:-1], K))
            whole[end][..., members] = params[end]
        return whole

    def active_members(self, params: Arrays) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the members with a weight at either end of any interval."""
        members = np.flatnonzero(_largest_weights(params))
        return members, {**params, "lower": params["lower"][..., members], "upper": params["upper"][..., members]}

    def check_params(self, params: Arrays, K: int, d: int) -> None:
        """Raise ``ValueError`` unless both ends have weights (d, K) and intercepts (d,) at each level."""
        ends = ("lower", "upper", "lower_intercept", "upper_intercept")
        check_names(params, ends, optional=("margin", "margin_draws"))
        levels = () if isinstance(self.alpha, int | float) else (len(each_level(self.alpha)),)
        for end in ("lower", "upper"):
            check_array(end, params[end], (*levels, d, K))
            check_array(f"{end}_intercept", params[f"{end}_intercept"], (*levels, d))
            if self.weights == "convex":
                check_simplex(end, params[end])
        if "margin" in params:  # infinite if there are too few rows
            check_array("margin", params["margin"], (*levels, d), infinite=True)
        if "margin_draws" in params:
            check_array("margin_draws", params["margin_draws"], ())

    def describe_params(self, params: Arrays, names: tuple[str, ...]) -> list[str]:
        """Return the largest weights of the lower and upper ends, over parameters and levels."""
        size = _largest_weights(params)
        heaviest = np.argsort(-size)[:10]
        return [f"  {names[k]:<40} {size[k]:8.4f}  (largest |lower| + |upper|)" for k in heaviest if size[k] > 0]

    def shares(self, params: Arrays, table: Table) -> Shares:
        """Return the largest ``|lower| + |upper|`` of each member, over parameters and levels."""
        return Shares("largest |lower| + |upper|", _largest_weights(params), simplex=False)

    def interval(
        self,
        params: Arrays,
        members: Sequence[MemberLike],
        y: np.ndarray,
        alpha: float,
        draws: int,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Return intervals combined from the members' ends, read off as those of a table are.

        A conformal margin counts the noise of its table's S draws, so that as many are drawn here.
        """
        draws = int(params.get("margin_draws", draws))
        levels = [alpha / 2, 1 - alpha / 2]
        seeds = rng.integers(2**62, size=len(members))
        active, params = members_in_use(self, params, len(members))
        ends = np.stack([members[int(k)].quantiles(draws, y, levels, int(seeds[k])) for k in active], 1)
        table = Table(np.zeros(ends.shape[2:]), y=y, quantiles=dict(zip(levels, ends, strict=True)))
        with torch.no_grad():
            return self.combine(as_tensors(params), table).interval(alpha).numpy()

    def default_alpha(self) -> float:
        """Return the level that was fitted, if it is one."""
        levels = each_level(self.alpha)
        if len(levels) != 1:
            raise ValueError(f"intervals were fitted at several levels, {levels}; say which `alpha`.")
        return levels[0]


def _largest_weights(params: Arrays) -> np.ndarray:
    """Return max |lower| + |upper| over parameters and levels, (K,)."""
    size = np.abs(params["lower"]) + np.abs(params["upper"])
    return size.reshape(-1, size.shape[-1]).max(0)


class IntervalView(View):
    """Ends of the aggregated intervals."""

    def __init__(
        self, form: IntervalAggregation, params: Params, table: Table, softness: Tensor | float = 0.0
    ) -> None:
        super().__init__(table, softness)
        self.form, self.params = form, params

    def interval(self, alpha: float) -> Tensor:
        """Return (N, d, 2), sorted, widened by the conformal margin if there is one."""
        ends = torch.sort(self.raw(alpha), -1).values
        if "margin" not in self.params:
            return ends
        margin = self._level("margin", alpha)
        widened = torch.stack([ends[..., 0] - margin, ends[..., 1] + margin], -1)
        # A negative margin larger than half the width leaves nothing but the middle.
        return torch.where((widened[..., 1:] < widened[..., :1]), widened.mean(-1, keepdim=True), widened)

    def raw(self, alpha: float) -> Tensor:
        """Return Σ_k w_k l_k and Σ_k v_k u_k as they come, (N, d, 2)."""
        levels = {"lower": alpha / 2, "upper": 1 - alpha / 2}
        return torch.stack([self._end(end, level, alpha) for end, level in levels.items()], -1)

    def _end(self, end: str, level: float, alpha: float) -> Tensor:
        quantile = torch.as_tensor(self.table.quantile(level))
        return torch.einsum("knj,jk->nj", quantile, self._level(end, alpha)) + self._level(
            f"{end}_intercept", alpha
        )

    def _level(self, name: str, alpha: float) -> Tensor:
        """Return a parameter at one of the levels fitted."""
        fitted = np.array(each_level(self.form.alpha))
        nearest = int(np.abs(fitted - alpha).argmin())
        if abs(fitted[nearest] - alpha) > 1e-12:
            raise ValueError(
                f"intervals were fitted at alpha = {self.form.alpha}, not {alpha}; stack at that level."
            )
        value = self.params[name]
        return value if isinstance(self.form.alpha, int | float) else value[nearest]
