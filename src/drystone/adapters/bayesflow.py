"""Members from BayesFlow approximators, whose parameters and data are dictionaries of named arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from drystone._parallel import seeded
from drystone.adapters.restrict import AT_ONCE, restrict

__all__ = ["BayesFlowMember", "from_bayesflow"]

Condition = str | Callable[[np.ndarray], Mapping[str, np.ndarray]]


def from_bayesflow(
    approximator: Any,
    parameters: str | Sequence[str] | Mapping[str, int],
    condition: Condition,
    *,
    prior: object = None,
    error: float = 0.05,
) -> Any:
    """Return a member from a BayesFlow approximator or workflow; from an ensemble, members by name.

    Args:
        approximator: A ``ContinuousApproximator``, an ``EnsembleApproximator``, or a workflow that holds one.
        parameters: BayesFlow's names of the columns of θ, in their order: names of one column each, a mapping of
            names to numbers of columns, or one name for all columns.
        condition: BayesFlow's name of y, or a function that maps y (N, ...) to its named arrays.
        prior: Restrict the member to the support of this prior; see :func:`drystone.adapters.restrict`.
        error: See :func:`drystone.adapters.restrict`.

    Example:
        ``from_bayesflow(workflow, parameters={"rate": 1, "shape": 2}, condition="counts")``: θ is (rate, shape_0,
        shape_1).
    """
    approximator = getattr(approximator, "approximator", approximator)
    members = getattr(approximator, "approximators", None)
    if members is not None:
        options = {"prior": prior, "error": error}
        return {name: from_bayesflow(part, parameters, condition, **options) for name, part in members.items()}
    if not (hasattr(approximator, "sample") and hasattr(approximator, "log_prob")):
        raise TypeError(
            "`approximator` must have `sample` and `log_prob`, as BayesFlow's ContinuousApproximator has; "
            f"got {type(approximator).__name__}."
        )
    return restrict(BayesFlowMember(approximator, parameters, condition), prior, error=error)


class BayesFlowMember:
    """A member that is a BayesFlow approximator; arguments as in :func:`from_bayesflow`."""

    def __init__(
        self, approximator: Any, parameters: str | Sequence[str] | Mapping[str, int], condition: Condition
    ) -> None:
        self.approximator, self.parameters, self.condition = approximator, parameters, condition

    def log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the log densities of paired rows theta (N, d) and y (N, ...), (N,)."""
        data = {**self._named(np.asarray(theta, np.float32)), **self._conditions(y)}
        return np.asarray(self.approximator.log_prob(data)).reshape(len(theta))

    def sample(self, n: int, y: np.ndarray, seed: int | None = None) -> np.ndarray:
        """Return n draws for each row of y, (n, N, d)."""
        blocks = np.array_split(y, max(1, -(-len(y) * n // AT_ONCE)))
        names = [self.parameters] if isinstance(self.parameters, str) else list(self.parameters)
        rng, parts = np.random.default_rng(seed), []
        for block in blocks:
            block_seed = int(rng.integers(2**31))  # Keras takes seeds of 31 bits
            conditions = self._conditions(block)
            with seeded(block_seed):
                draws = self.approximator.sample(num_samples=n, conditions=conditions, seed=block_seed)
            columns = [np.asarray(draws[name]).reshape(len(block), n, -1) for name in names]
            parts.append(np.concatenate(columns, -1))
        return np.concatenate(parts).swapaxes(0, 1)

    def _named(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Return the columns of theta by name."""
        if isinstance(self.parameters, str):
            return {self.parameters: theta}
        names = self.parameters
        sizes = list(names.values()) if isinstance(names, Mapping) else [1] * len(names)
        if sum(sizes) != theta.shape[1]:
            raise ValueError(
                f"`parameters` must name {theta.shape[1]} columns, as many as theta has; got {sum(sizes)}. "
                'Give the number of columns of each: parameters={"rate": 1, "shape": 2}.'
            )
        return dict(zip(names, np.split(theta, list(accumulate(sizes))[:-1], axis=1), strict=True))

    def _conditions(self, y: np.ndarray) -> dict[str, np.ndarray]:
        y = np.asarray(y, np.float32)
        return {self.condition: y} if isinstance(self.condition, str) else dict(self.condition(y))

    def __repr__(self) -> str:
        return f"BayesFlow {type(self.approximator).__name__}"
