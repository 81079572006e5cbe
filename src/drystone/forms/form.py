"""A form: a way to combine K posteriors, and all that is known of the result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from drystone._spec import Spec
from drystone.errors import IntractableError
from drystone.estimate import effective_number
from drystone.forms.params import check_array
from drystone.forms.view import Params, View, as_tensors, members_in_use
from drystone.table import Table
from drystone.table.statistics import quantile

if TYPE_CHECKING:
    from drystone.solvers import Solver

__all__ = ["Arrays", "Form", "MemberLike", "Shares"]

# Parameters of a fitted form, by name.
Arrays = Mapping[str, np.ndarray]

# Statistics in words, for messages.
_WORDS = {
    "log_q": "density",
    "rank": "ranks",
    "mean": "mean",
    "moments": "covariance",
    "interval": "intervals",
    "draws": "draws",
    "points": "shared points",
}


class MemberLike(Protocol):
    """What a form asks of a member at new data; either method may raise :class:`IntractableError`."""

    def sample(self, n: int, y: np.ndarray, seed: int) -> np.ndarray:
        """Return n draws for each row of y: (n, B, d)."""
        ...

    def quantiles(self, n: int, y: np.ndarray, levels: Sequence[float], seed: int) -> np.ndarray:
        """Return quantiles of n draws for each row of y: (levels, B, d)."""
        ...

    def log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the log density of paired rows theta (N, d), y (N, ...): (N,)."""
        ...


@dataclass(frozen=True)
class Shares:
    """How much each member contributes to a fit: one number per member.

    Attributes:
        meaning: what the numbers are.
        values: in the order of the fit's names, (K,), ≥ 0.
        simplex: whether they are weights that sum to one.

    Example:
        >>> import drystone as ds
        >>> table = ds.toy.table(200, seed=1)
        >>> shares = ds.stack(table).shares(table)
        >>> shares.meaning, shares.values.round(2), round(shares.effective, 1)
        ('weight', array([0.14, 0.25, 0.61, 0.  ]), 2.5)
    """

    meaning: str
    values: np.ndarray
    simplex: bool

    @property
    def effective(self) -> float:
        """Number of equal weights with the same entropy."""
        return effective_number(self.values)


class Form(Spec, ABC):
    """A row of the paper's Table 1: Φ(q_1, …, q_K; params), and the statistics of Φ it can give.

    A form of your own defines ``gives``, ``combine``, ``expand_params`` and ``active_members``, and returns its
    solver from ``default_solver``. Everything else has a default: draws, densities and intervals at new data
    follow from ``combine`` on a table made of the members' own. Forms whose only parameters are weights on the
    simplex begin with :class:`~drystone.forms.SimplexForm`, which leaves ``gives`` and ``combine`` to define.

    Attributes:
        gives: the statistics of the stacked posterior: of log_q, rank, mean, moments, interval, draws.
        is_mixture: whether it is Σ_k w_k q_k(θ|y), with the same weights for all data.

    Example:
        >>> import drystone as ds
        >>> [form.__name__ for form in ds.forms.FORMS if "log_q" in form.gives]
        ['Mixture', 'LocalMixture', 'Product', 'LikelihoodMixture']
        >>> ds.SampleAggregation().check_gives("log_q")
        Traceback (most recent call last):
            ...
        drystone.errors.IntractableError: SampleAggregation has no density: it does not give `log_q`, ...
    """

    gives: ClassVar[frozenset[str]]
    is_mixture: ClassVar[bool] = False

    # ── on the rows of a table ───────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def combine(self, params: Params, table: Table, softness: Tensor | float = 0.0) -> View:
        """Return the stacked posterior on the rows of ``table``, steps in it softened by ``softness``."""

    def requires(self, statistic: str) -> str:
        """Return the statistic that a table must give for this form to give ``statistic``."""
        return statistic

    def default_alpha(self) -> float:
        """Return the miscoverage of the intervals it gives unless told otherwise."""
        return 0.1

    def check_gives(self, statistic: str) -> None:
        """Raise :class:`IntractableError` if the form does not give a statistic."""
        if statistic not in self.gives:
            raise IntractableError(
                f"{type(self).__name__} has no {_WORDS.get(statistic, statistic)}: it does not give "
                f"`{statistic}`, only {', '.join(sorted(self.gives))}. Mixture() gives it."
            )

    # ── its parameters ───────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def expand_params(self, params: dict[str, np.ndarray], members: np.ndarray, K: int) -> dict[str, np.ndarray]:
        """Return parameters for K members from those for some ``members``: the others contribute nothing."""

    @abstractmethod
    def active_members(self, params: Arrays) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the positions of the members that contribute, and the parameters for these alone."""

    def check_params(self, params: Arrays, K: int, d: int) -> None:
        """Raise ``ValueError`` unless these can be the parameters of a fit to K members and d parameters.

        Of a form that does not say more, only that no number is NaN is known.
        """
        for name, array in params.items():
            check_array(name, array, array.shape, infinite=True)

    def penalised(self, factor: float) -> Form:
        """Return the form with any penalty of its own multiplied by ``factor``."""
        return self

    def describe_params(self, params: Arrays, names: tuple[str, ...]) -> list[str]:
        """Return the parameters in words, one line each, for a summary."""
        return [f"  {name}: array of shape {array.shape}" for name, array in params.items()]

    def shares(self, params: Arrays, table: Table) -> Shares:
        """Return what each member contributes; what depends on the data is averaged over the rows of ``table``.

        Of a form that does not say more, only which members are used is known.
        """
        values = np.zeros(table.K)
        values[self.active_members(params)[0]] = 1.0
        return Shares("used", values, simplex=False)

    def weights_at(self, params: Arrays, y: np.ndarray) -> np.ndarray:
        """Return the weights in use at the rows of y: (K,) if they are the same for all, else (N, K)."""
        raise IntractableError(
            f"{type(self).__name__} has no single set of weights; see `params`: {', '.join(params)}."
        )

    # ── its fit ──────────────────────────────────────────────────────────────────────────────────────────

    @property
    def chooses(self) -> bool:
        """Whether cross-validation chooses among variants of it; the result then may have no certificate."""
        return False

    @property
    def positive(self) -> bool:
        """Whether its density is positive where the prior's is, also at rows where every member's is 0."""
        return False

    def default_solver(self) -> Solver | None:
        """Return the solver of a form of your own; None for those registered in ``drystone.solvers.table1``."""
        return None

    def check_table(self, table: Table) -> None:
        """Raise if the form cannot be fitted to these members, before anything is solved."""

    def hopeless_members(self, table: Table) -> np.ndarray:
        """Return which members cannot help whatever the parameters, (K,) of bool: they are left out of the fit."""
        return np.zeros(table.K, bool)

    def fit_notes(self, table: Table) -> list[str]:
        """Return what a user should know of a fit to these rows."""
        return []

    # ── at new data ──────────────────────────────────────────────────────────────────────────────────────

    def check_members(self, params: Arrays, members: Sequence[MemberLike]) -> None:
        """Raise if something is missing that the form needs at new data, whatever these are."""

    def draw(
        self,
        params: Arrays,
        members: Sequence[MemberLike],
        n: int,
        y: np.ndarray,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return n exchangeable draws per row of y, (n, B, d), and the member each came from, (n, B), or None.

        Args:
            params: the parameters.
            members: all K.
            n: draws per row.
            y: data, (B, ...).
            rng: the source of all randomness, members' seeds included.
        """
        table, params = self._tabulated(params, members, n, y, rng)
        with torch.no_grad():
            draws = self.combine(as_tensors(params), table).draws(n, int(rng.integers(2**62)))
        return draws.numpy().swapaxes(0, 1), None

    def log_prob(
        self, params: Arrays, members: Sequence[MemberLike], theta: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        """Return the log density of paired rows theta (N, d), y (N, ...): (N,)."""
        active, params = members_in_use(self, params, len(members))
        table = Table(theta, y=y, log_q=np.stack([members[int(k)].log_prob(theta, y) for k in active]))
        with torch.no_grad():
            return self.combine(as_tensors(params), table).log_q().numpy()

    def interval(
        self,
        params: Arrays,
        members: Sequence[MemberLike],
        y: np.ndarray,
        alpha: float,
        draws: int,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Return central 1 − alpha intervals for each row of y, (B, d, 2).

        They are quantiles of the form's own draws or, if it has none, combined from those of the members' draws.

        Args:
            params: the parameters.
            members: all K.
            y: data, (B, ...).
            alpha: miscoverage.
            draws: how many draws quantiles are read off.
            rng: see :meth:`draw`.
        """
        if "draws" in self.gives:
            sample, _ = self.draw(params, members, draws, y, rng)
            return quantile(sample, [alpha / 2, 1 - alpha / 2], 0).transpose(1, 2, 0)
        table, params = self._tabulated(params, members, draws, y, rng)
        with torch.no_grad():
            return self.combine(as_tensors(params), table).interval(alpha).numpy()

    def _tabulated(
        self,
        params: Arrays,
        members: Sequence[MemberLike],
        n: int,
        y: np.ndarray,
        rng: np.random.Generator,
    ) -> tuple[Table, Arrays]:
        """Return a table of n draws of each member in use at y (its truths mean nothing), and their parameters."""
        seeds = rng.integers(2**62, size=len(members))
        active, params = members_in_use(self, params, len(members))
        draws = np.stack([members[int(k)].sample(n, y, int(seeds[k])) for k in active])
        return Table(np.zeros(draws.shape[2:]), y=y, draws=draws.swapaxes(1, 2)), params
