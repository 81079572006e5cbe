"""A stacked posterior on the rows of a table, in memory or put together from blocks of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from drystone.errors import IntractableError
from drystone.forms.distances import TOO_FEW
from drystone.table import Statistic, Table, blocks

if TYPE_CHECKING:
    from drystone.forms.form import Form

__all__ = ["GatheredView", "JoinedView", "Params", "View", "as_tensors", "members_in_use", "view_of"]

# Parameters of a form, by name, as it combines with them.
Params = Mapping[str, Tensor]


class View:
    """A stacked posterior on the rows of a table: one method per statistic, tensors out.

    It is all that a score sees. Statistics that the form does not give raise :class:`IntractableError`.

    Attributes:
        table: the rows, with the members that are in use.
        peers: the same rows with all members, by which a score may judge every posterior in the same way.
        softness: 0, or the width (d,) over which steps rise, for solvers that need a slope: an
            indicator 1(x ≥ 0) becomes the sigmoid of 2x/softness.

    Example:
        >>> import drystone as ds
        >>> table = ds.toy.table(200, seed=1)
        >>> view = ds.stack(table).view(table)
        >>> tuple(view.mean().shape), tuple(view.interval(0.1).shape)
        ((200, 1), (200, 1, 2))
        >>> round(float(view.average(view.log_q())), 2)
        -1.34
    """

    def __init__(self, table: Table, softness: Tensor | float = 0.0) -> None:
        self.table = self.peers = table
        self.softness = torch.as_tensor(softness, dtype=torch.float64)

    # Read lazily: a table on disk would have to load them.
    @cached_property
    def theta(self) -> Tensor:
        """The true parameters, (N, d)."""
        return torch.as_tensor(self.table.theta)

    @cached_property
    def row_weights(self) -> Tensor:
        """a_n, (N,), summing to one."""
        return torch.as_tensor(self.table.row_weights)

    @property
    def y(self) -> np.ndarray | None:
        """The data as the table holds it, or None."""
        return self.table.y

    @cached_property
    def S(self) -> int | None:
        """Draws behind each rank, or None if the table does not say."""
        return self.table.S

    @property
    def d(self) -> int:
        """How many parameters."""
        return self.table.d

    def reweighted(self, a: Tensor) -> View:
        """Return the same view with other row weights, (N,), for resampling."""
        other = copy(self)
        other.row_weights = a
        return other

    def average(self, rows: Tensor) -> Tensor:
        """Return Σ_n a_n rows_n, the mean over rows, (N, ...) → (...)."""
        return torch.tensordot(self.row_weights, rows, 1)

    def mean_of(self, rows: Callable[[View], Tensor]) -> Tensor:
        """Return Σ_n a_n rows_n of a quantity that each row has for itself, (N, ...) → (...)."""
        return self.average(rows(self))

    def log_q(self) -> Tensor:
        """Return the log density at the true parameters, (N,)."""
        raise self._intractable("log_q")

    def rank(self, statistic: Statistic | None = None) -> Tensor:
        """Return the ranks of the true parameters, (N, d); of a quantity of interest f(θ, y), (N, 1)."""
        raise self._intractable("rank")

    def mean(self) -> Tensor:
        """Return the posterior means, (N, d)."""
        raise self._intractable("mean")

    def error(self) -> Tensor:
        """Return θ_n − μ_n of the posterior means, (N, d)."""
        return self.theta - self.mean()

    def cov(self) -> Tensor:
        """Return the posterior covariances, (N, d, d)."""
        raise self._intractable("moments")

    def interval(self, alpha: float) -> Tensor:
        """Return the ends of the central 1 − alpha intervals, (N, d, 2)."""
        raise self._intractable("interval")

    def distances(self, most: int, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Return E‖θ* − θ‖ and E‖θ* − θ*'‖, averaged over rows: two scalars.

        Args:
            most: how many draws per member and row the second may use.
            scale: parameters are divided by it, (d,).
        """
        to_truth, spread = self.distances_by_row(most, scale)
        return self.average(to_truth), self.average(spread)

    def distances_by_row(self, most: int, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean distances of the draws to the truth, and of each draw to the next: (N,), (N,)."""
        draws = self.draws() / scale
        if draws.shape[1] < 2:
            raise ValueError(TOO_FEW)
        to_truth = _norm(draws - (self.theta / scale)[:, None]).mean(1)
        return to_truth, _norm(draws - draws.roll(-1, 1)).mean(1)

    def draws(self, n: int | None = None, seed: int = 0) -> Tensor:
        """Return draws of the stacked posterior, (N, n, d)."""
        raise self._intractable("draws")

    def independent_draws(self, seed: int = 0) -> Tensor:
        """Return as many independent draws as each member has, (N, S, d)."""
        return self.draws(int(self.table.draws.shape[2]), seed)

    def independent_rank(self, seed: int = 0) -> Tensor:
        """Return the ranks among as many independent draws as each member has, (N, d), without the draws."""
        return self.rank()

    def independent_moments(self, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Return θ − μ, (N, d), and V, (N, d, d), of as many draws as each member has, without the draws."""
        return self.error(), self.cov()

    def independent_interval(self, alpha: float, seed: int = 0) -> Tensor:
        """Return the ends of the intervals of as many draws as each member has, (N, d, 2), without the draws."""
        return self.interval(alpha)

    def _intractable(self, statistic: str) -> IntractableError:
        return IntractableError(f"{type(self).__name__} does not give `{statistic}`.")


class PartsView(View, ABC):
    """What parts of the rows give, one after the other."""

    @abstractmethod
    def _each(self, name: str, *arguments: Any) -> list[Any]:
        """Return a statistic of each part."""

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        """Return a statistic of all rows from that of each part."""
        return torch.cat(list(parts))

    def distances_by_row(self, most: int, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Return both for each row: (N,), (N,)."""
        to_truth, spread = zip(*self._each("distances_by_row", most, scale), strict=True)
        return self._joined(to_truth), self._joined(spread)

    def log_q(self) -> Tensor:
        """Log density, (N,)."""
        return self._joined(self._each("log_q"))

    def rank(self, statistic: Statistic | None = None) -> Tensor:
        """Return ranks, (N, d)."""
        return self._joined(self._each("rank", statistic))

    def mean(self) -> Tensor:
        """Return means, (N, d)."""
        return self._joined(self._each("mean"))

    def error(self) -> Tensor:
        """Return θ_n − μ_n, (N, d)."""
        return self._joined(self._each("error"))

    def cov(self) -> Tensor:
        """Return covariances, (N, d, d)."""
        return self._joined(self._each("cov"))

    def interval(self, alpha: float) -> Tensor:
        """Return ends of intervals, (N, d, 2)."""
        return self._joined(self._each("interval", alpha))

    def draws(self, n: int | None = None, seed: int = 0) -> Tensor:
        """Return draws, (N, n, d)."""
        return self._joined(self._each("draws", n, seed))

    def independent_rank(self, seed: int = 0) -> Tensor:
        """Return (N, d)."""
        return self._joined(self._each("independent_rank", seed))

    def independent_moments(self, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Return (N, d) and (N, d, d)."""
        error, cov = zip(*self._each("independent_moments", seed), strict=True)
        return self._joined(error), self._joined(cov)

    def independent_interval(self, alpha: float, seed: int = 0) -> Tensor:
        """Return (N, d, 2)."""
        return self._joined(self._each("independent_interval", alpha, seed))

    def independent_draws(self, seed: int = 0) -> Tensor:
        """Return (N, S, d)."""
        return self._joined(self._each("independent_draws", seed))


class GatheredView(PartsView):
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
        """Return the same with other row weights, (N,)."""
        other = GatheredView(self.form, self.params, self.table.reweighted(a.numpy()))
        other.peers = self.peers
        return other

    def mean_of(self, rows: Callable[[View], Tensor]) -> Tensor:
        """Return the sum of the blocks' shares."""
        return blocks.total(self.table, _mean_of, self.form, self.params, rows)[0]

    def distances(self, most: int, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sums of the blocks' shares."""
        to_truth, spread = blocks.total(self.table, _statistic, self.form, self.params, "distances", most, scale)
        return to_truth, spread

    def draws(self, n: int | None = None, seed: int = 0) -> Tensor:
        """Return draws, (N, n, d), if those of all rows fit into memory."""
        return self.form.combine(self.params, blocks.load(self.table, {self.form.requires("draws")})).draws(
            n, seed
        )

    def independent_draws(self, seed: int = 0) -> Tensor:
        """Return (N, S, d), if they fit into memory; of the members' draws a block of rows is read at a time."""
        size = 8 * self.table.N * self.table.draws.shape[2] * self.d
        draws = blocks.concatenated(self.table, size, "draws", _independent_draws, self.form, self.params, seed)
        return torch.as_tensor(draws[0])

    def _each(self, name: str, *arguments: Any) -> list[Any]:
        return list(blocks.each(self.table, _statistic, self.form, self.params, name, *arguments))


class JoinedView(PartsView):
    """Posteriors on parts of the rows, such as fits that have not seen them, as one posterior on all rows.

    Args:
        table: all rows.
        parts: views of the same form.
        rows: places of the rows of each part in the table; None if the table has them in the order of the parts.
    """

    def __init__(self, table: Table, parts: Sequence[View], rows: Sequence[np.ndarray] | None = None) -> None:
        super().__init__(table)
        self.parts, self.S = parts, parts[0].S
        self._order = None if rows is None else torch.as_tensor(np.argsort(np.concatenate(rows)))
        self._cache: dict[Hashable, list[Any]] = {}

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        whole = super()._joined(parts)
        return whole if self._order is None else whole[self._order]

    def _each(self, name: str, *arguments: Any) -> list[Any]:
        key = (name, *(tuple(x.tolist()) if isinstance(x, Tensor) else x for x in arguments))
        if key not in self._cache:  # reweighted views share it
            self._cache[key] = [getattr(part, name)(*arguments) for part in self.parts]
        return self._cache[key]


def _mean_of(block: Table, form: Form, params: Params, rows: Callable[[View], Tensor]) -> tuple[Tensor]:
    return (form.combine(params, block).mean_of(rows),)


def _statistic(block: Table, form: Form, params: Params, name: str, *arguments: Any) -> Any:
    with torch.no_grad():
        return getattr(form.combine(params, block), name)(*arguments)


def _independent_draws(block: Table, form: Form, params: Params, seed: int) -> np.ndarray:
    return form.combine(params, block).independent_draws(seed).numpy()[None]


def _norm(x: Tensor) -> Tensor:
    """Return the Euclidean length along the last axis, with a gradient also at 0."""
    return ((x**2).sum(-1) + 1e-300).sqrt()


def view_of(form: Form, params: Mapping[str, np.ndarray], table: Table) -> View:
    """Return the form on a table of its members, of which only those in use are looked at."""
    members, params = members_in_use(form, params, table.K)
    part = blocks.part(table, members) if len(members) < table.K else table
    in_memory = blocks.in_memory(part)
    view = form.combine(as_tensors(params), part) if in_memory else GatheredView(form, as_tensors(params), part)
    view.peers = table
    return view


def members_in_use(
    form: Form, params: Mapping[str, np.ndarray], K: int
) -> tuple[np.ndarray, Mapping[str, np.ndarray]]:
    """Return the positions of the active members and their parameters; all, if none is active."""
    members, of_members = form.active_members(params)
    return (members, of_members) if len(members) else (np.arange(K), params)


def as_tensors(params: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Return parameters as a form combines with them."""
    return {name: torch.tensor(array) for name, array in params.items()}
