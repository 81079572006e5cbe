"""A stacked posterior on a table that is read in blocks of rows: each statistic, put together from the blocks'."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from drystone.forms.form import Form, Params, View
from drystone.table import Statistic, Table, blocks

__all__ = ["GatheredView"]


class GatheredView(View):
    """What a form gives on each block, one after the other; means over rows are summed and never held by row.

    Args:
        form: the form.
        params: its parameters.
        table: with blocks.
    """

    def __init__(self, form: Form, params: Params, table: Table) -> None:
        super().__init__(table)
        self.form, self.params = form, dict(params)

    @cached_property
    def S(self) -> int | None:
        """Draws behind each rank of a member, as the form uses them."""
        return self.form.combine(self.params, self.table).S

    def reweighted(self, a: Tensor) -> View:
        """The same with other row weights, (N,)."""
        return GatheredView(self.form, self.params, self.table.reweighted(a.numpy()))

    def mean_of(self, rows: Callable[[View], Tensor]) -> Tensor:
        """The sum of the blocks' shares."""
        return blocks.total(self.table, _mean_of, self.form, self.params, rows)[0]

    def distances(self, most: int, scale: Tensor) -> tuple[Tensor, Tensor]:
        """The sums of the blocks' shares."""
        to_truth, spread = blocks.total(self.table, _statistic, self.form, self.params, "distances", most, scale)
        return to_truth, spread

    def distances_by_row(self, most: int, scale: Tensor) -> tuple[Tensor, Tensor]:
        """For each row: (N,), (N,)."""
        to_truth, spread = zip(*self._each("distances_by_row", most, scale), strict=True)
        return torch.cat(to_truth), torch.cat(spread)

    def log_q(self) -> Tensor:
        """Log density, (N,)."""
        return torch.cat(self._each("log_q"))

    def rank(self, statistic: Statistic | None = None) -> Tensor:
        """Ranks, (N, d)."""
        return torch.cat(self._each("rank", statistic))

    def mean(self) -> Tensor:
        """Means, (N, d)."""
        return torch.cat(self._each("mean"))

    def cov(self) -> Tensor:
        """Covariances, (N, d, d)."""
        return torch.cat(self._each("cov"))

    def interval(self, alpha: float) -> Tensor:
        """Ends of intervals, (N, d, 2)."""
        return torch.cat(self._each("interval", alpha))

    def draws_behind_rank(self) -> Tensor | None:
        """One number, or (N,)."""
        behind = self._each("draws_behind_rank")
        return None if behind[0] is None else torch.cat(behind) if behind[0].ndim else behind[0]

    def draws(self, n: int | None = None, seed: int = 0) -> Tensor:
        """Draws, (N, n, d), if those of all rows fit into memory."""
        return self.form.combine(self.params, blocks.load(self.table, {"draws"})).draws(n, seed)

    def _each(self, name: str, *arguments: Any) -> list[Any]:
        return list(blocks.each(self.table, _statistic, self.form, self.params, name, *arguments))


def _mean_of(block: Table, form: Form, params: Params, rows: Callable[[View], Tensor]) -> tuple[Tensor]:
    return (form.combine(params, block).mean_of(rows),)


def _statistic(block: Table, form: Form, params: Params, name: str, *arguments: Any) -> Any:
    with torch.no_grad():
        return getattr(form.combine(params, block), name)(*arguments)
