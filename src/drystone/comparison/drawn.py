"""A posterior as S draws per row show it, as many as each member has: more draws are not skill.

Moments, intervals and ranks that are read off S draws are noisy, and scores punish noise. A mixture has the draws
of all its members, and would win by that alone. So every method is looked at through S independent draws; only its
density is its own. A table that holds ranks, moments or quantiles of S draws and not the draws gives those of such
draws all the same (:mod:`drystone.forms.independent`), moments and intervals up to S = 256; if S is not known they
are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from copy import copy
from typing import Any

import torch
from torch import Tensor

from drystone.forms import Mixture, View
from drystone.table import Statistic, Table

__all__ = ["DrawnView"]


class DrawnView(View):
    """Statistics of a posterior as S draws show it, each computed once whatever the row weights are changed to.

    Args:
        view: the posterior.
        has_draws: whether it gives draws on the rows of its table.
        seed: of the choice among the members' draws.
    """

    def __init__(self, view: View, has_draws: bool, seed: int = 0) -> None:
        super().__init__(view.table)
        self.peers = view.peers
        self._view, self._has_draws, self._seed = view, has_draws, seed
        self._cache: dict[Hashable, Any] = {}

    @property
    def _shown(self) -> View:
        """The S draws as the one member of a table; the posterior itself, if it has no draws."""
        return self._once("shown", self._as_member) if self._has_draws else self._view

    def _as_member(self) -> View:
        table, draws = self.table, self._view.independent_draws(self._seed).numpy()
        one = Table(table.theta, table.y, draws=draws[None], row_weights=table.row_weights)
        return Mixture().combine({"weights": torch.ones(1, dtype=torch.float64)}, one)

    def __getattr__(self, name: str) -> Any:
        """Look up statistics that a form of the user's own gives beyond those below."""
        if name.startswith("__"):  # such as copying asks for
            raise AttributeError(name)
        return getattr(self._view, name)

    def reweighted(self, a: Tensor) -> DrawnView:
        """Return the same posterior with other row weights, (N,)."""
        other = copy(self)
        other.row_weights = a
        return other

    def log_q(self) -> Tensor:
        """Return log densities, (N,)."""
        return self._once("log_q", self._view.log_q)

    def rank(self, statistic: Statistic | None = None) -> Tensor:
        """Return ranks among S draws, (N, d)."""
        if statistic is None and not self._has_draws:
            return self._once("rank", lambda: self._view.independent_rank(self._seed))
        return self._once(("rank", statistic), lambda: self._shown.rank(statistic))

    def mean(self) -> Tensor:
        """Return means, (N, d)."""
        return self.theta - self.error()

    def error(self) -> Tensor:
        """Return θ_n − μ_n, (N, d)."""
        if self._has_draws or "moments" not in self.table.gives:
            return self._once("error", lambda: self._shown.error())
        return self._moments()[0]

    def cov(self) -> Tensor:
        """Return covariances, (N, d, d)."""
        return self._once("cov", lambda: self._shown.cov()) if self._has_draws else self._moments()[1]

    def interval(self, alpha: float) -> Tensor:
        """Return ends of intervals, (N, d, 2)."""
        if self._has_draws:
            return self._once(("interval", alpha), lambda: self._shown.interval(alpha))
        return self._once(("interval", alpha), lambda: self._view.independent_interval(alpha, self._seed))

    def _moments(self) -> tuple[Tensor, Tensor]:
        return self._once("moments", lambda: self._view.independent_moments(self._seed))

    def draws(self, n: int | None = None, seed: int = 0) -> Tensor:
        """Return draws, (N, n, d)."""
        return self._once(("draws", n, seed), lambda: self._shown.draws(n, seed))

    def distances_by_row(self, most: int, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Return distances of each row: (N,), (N,)."""
        key = ("distances", most, *scale.tolist())
        return self._once(key, lambda: self._shown.distances_by_row(most, scale))

    def _once(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        if key not in self._cache:
            self._cache[key] = compute()
        return self._cache[key]
