"""What a form is: a way to combine K posteriors, and what is known of the result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from drystone._spec import Described
from drystone.errors import IntractableError
from drystone.table import Statistic, Table

__all__ = ["Form", "Params", "View"]

Params = Mapping[str, Tensor]


class Form(Described, ABC):
    """A row of the paper's Table 1: Φ(q_1, …, q_K; params), and the statistics of Φ it can give."""

    gives: ClassVar[frozenset[str]]

    @abstractmethod
    def combine(self, params: Params, table: Table, softness: Tensor | float = 0.0) -> View:
        """The stacked posterior on the rows of ``table``; steps in it softened for a solver, if it asks."""

    def requires(self, statistic: str) -> str:
        """The statistic a table must give for this form to give ``statistic``."""
        return statistic

    @abstractmethod
    def embed(self, params: dict[str, np.ndarray], kept: np.ndarray, K: int) -> dict[str, np.ndarray]:
        """Parameters for all K members from those of the ``kept`` ones: nothing of the others is used."""

    @abstractmethod
    def used(self, params: Mapping[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Positions of the members that matter, and the parameters for these alone."""

    def penalised(self, factor: float) -> Form:
        """The form with any penalty of its own multiplied by ``factor``."""
        return self

    def describe_params(self, params: Mapping[str, np.ndarray], names: tuple[str, ...]) -> list[str]:
        """The parameters in words, a line each, for a summary."""
        return [f"  {name}: array of shape {array.shape}" for name, array in params.items()]


class View:
    """A stacked posterior on the rows of a table: one method a statistic, tensors out.

    This is what a score sees. Statistics that the form does not give raise :class:`IntractableError`.

    Attributes:
        softness: 0, or the width (d,) over which a solver wants steps to rise so that they have a slope: an
            indicator 1(x ≥ 0) becomes the sigmoid of 2x/softness.
    """

    def __init__(self, table: Table, softness: Tensor | float = 0.0) -> None:
        self.table = table
        self.softness = torch.as_tensor(softness, dtype=torch.float64)

    # Looked up when asked for: a table on disk would have to read them.
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

    def draws_behind_rank(self) -> Tensor | None:
        """How many draws each rank is worth: one number, or (N,); None if the table does not say."""
        return None if self.S is None else torch.tensor(float(self.S))

    def reweighted(self, a: Tensor) -> View:
        """The same with other row weights, (N,): for resampling."""
        other = copy(self)
        other.row_weights = a
        return other

    def average(self, rows: Tensor) -> Tensor:
        """Σ_n a_n rows_n: the mean over rows, (N, ...) → (...)."""
        return torch.tensordot(self.row_weights, rows, 1)

    def mean_of(self, rows: Callable[[View], Tensor]) -> Tensor:
        """Σ_n a_n rows_n of what each row has for itself, (N, ...) → (...)."""
        return self.average(rows(self))

    def log_q(self) -> Tensor:
        """Log density at the true parameters, (N,)."""
        raise self._intractable("log_q")

    def rank(self, statistic: Statistic | None = None) -> Tensor:
        """Ranks of the true parameters, (N, d); of a quantity of interest f(θ, y), (N, 1)."""
        raise self._intractable("rank")

    def mean(self) -> Tensor:
        """Posterior means, (N, d)."""
        raise self._intractable("mean")

    def cov(self) -> Tensor:
        """Posterior covariances, (N, d, d)."""
        raise self._intractable("moments")

    def interval(self, alpha: float) -> Tensor:
        """Ends of the central 1 − alpha intervals, (N, d, 2)."""
        raise self._intractable("interval")

    def distances(self, most: int, scale: Tensor) -> tuple[Tensor, Tensor]:
        """E‖θ* − θ‖ and E‖θ* − θ*'‖, averaged over rows: two scalars.

        Args:
            most: how many draws a member and row the second may use.
            scale: parameters are divided by it, (d,).
        """
        raise self._intractable("draws")

    def distances_by_row(self, most: int, scale: Tensor) -> tuple[Tensor, Tensor]:
        """The same for each row: (N,), (N,)."""
        raise self._intractable("draws")

    def draws(self, n: int | None = None, seed: int = 0) -> Tensor:
        """Draws of the stacked posterior, (N, n, d)."""
        raise self._intractable("draws")

    def _intractable(self, statistic: str) -> IntractableError:
        return IntractableError(f"{type(self).__name__} does not give `{statistic}`.")
