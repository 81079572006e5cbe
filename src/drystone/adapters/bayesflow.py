"""Members from BayesFlow approximators, whose parameters and data are dictionaries of named arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, Literal

import numpy as np

from drystone._arrays import as_numpy
from drystone._parallel import seeded
from drystone.adapters.restrict import AT_ONCE, restrict

__all__ = ["BayesFlowLikelihood", "BayesFlowMember", "from_bayesflow"]

Parameters = str | Sequence[str] | Mapping[str, int]
Condition = str | Callable[[np.ndarray], Mapping[str, np.ndarray]]


def from_bayesflow(
    approximator: Any,
    parameters: Parameters,
    condition: Condition,
    *,
    target: Literal["posterior", "likelihood"] = "posterior",
    prior: object = None,
    error: float = 0.05,
) -> Any:
    """Return a member from a BayesFlow approximator or workflow; from an ensemble, members by name.

    Args:
        approximator: A ``ContinuousApproximator``, an ``EnsembleApproximator``, or a workflow that holds one; or a
            ``RatioApproximator``, which is a likelihood member.
        parameters: BayesFlow's names of the columns of θ, in their order: names of one column each, a mapping of
            names to numbers of columns, or one name for all columns.
        condition: BayesFlow's name of y, or a function that maps y (N, ...) to its named arrays.
        target: What the approximator was trained for: ``"posterior"``, or ``"likelihood"`` if its inference
            variables are the data and its conditions the parameters. A likelihood is a member for
            :func:`drystone.normalize`.
        prior: Restrict the member to the support of this prior; see :func:`drystone.adapters.restrict`. Of a
            posterior: :func:`drystone.normalize` has a prior of its own.
        error: See :func:`drystone.adapters.restrict`.

    Example:
        >>> import drystone as ds
        >>> member = ds.adapters.from_bayesflow(  # doctest: +SKIP
        ...     workflow, parameters={"rate": 1, "shape": 2}, condition="counts"  # θ is (rate, shape_0, shape_1)
        ... )
        >>> table = ds.tabulate({"bayesflow": member}, theta, y)  # doctest: +SKIP
    """
    if target not in ("posterior", "likelihood"):
        raise ValueError(f"`target` must be 'posterior' or 'likelihood'; got {target!r}.")
    approximator = getattr(approximator, "approximator", approximator)
    members = getattr(approximator, "approximators", None)
    if members is not None:
        options = {"target": target, "prior": prior, "error": error}
        return {name: from_bayesflow(part, parameters, condition, **options) for name, part in members.items()}
    names, ratio = Names(parameters, condition), hasattr(approximator, "log_ratio")
    if not ratio and not (hasattr(approximator, "sample") and hasattr(approximator, "log_prob")):
        raise TypeError(
            "`approximator` must have `sample` and `log_prob`, as BayesFlow's ContinuousApproximator has, or "
            f"`log_ratio`, as its RatioApproximator has; got {type(approximator).__name__}."
        )
    if target == "posterior" and not ratio:
        return restrict(BayesFlowMember(approximator, names), prior, error=error)
    if prior is not None:
        raise ValueError("`prior` is for posteriors; give the prior of likelihoods and ratios to ds.normalize.")
    return BayesFlowLikelihood(approximator, names)


@dataclass(frozen=True)
class Names:
    """BayesFlow's names of θ and y; attributes as in :func:`from_bayesflow`."""

    parameters: Parameters
    condition: Condition

    def of_parameters(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Return the columns of theta by name."""
        theta = np.asarray(theta, np.float32)
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

    def of_data(self, y: np.ndarray) -> dict[str, np.ndarray]:
        """Return the data by name."""
        y = np.asarray(y, np.float32)
        return {self.condition: y} if isinstance(self.condition, str) else dict(self.condition(y))


class BayesFlowMember:
    """A member that is a BayesFlow approximator of a posterior."""

    def __init__(self, approximator: Any, names: Names) -> None:
        self.approximator, self.names = approximator, names

    def log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the log densities of paired rows theta (N, d) and y (N, ...), (N,)."""
        data = {**self.names.of_parameters(theta), **self.names.of_data(y)}
        return np.asarray(self.approximator.log_prob(data)).reshape(len(theta))

    def sample(self, n: int, y: np.ndarray, seed: int | None = None) -> np.ndarray:
        """Return n draws for each row of y, (n, N, d)."""
        blocks = np.array_split(y, max(1, -(-len(y) * n // AT_ONCE)))
        parameters = self.names.parameters
        columns = [parameters] if isinstance(parameters, str) else list(parameters)
        rng, parts = np.random.default_rng(seed), []
        for block in blocks:
            draws = _draws(self.approximator, n, self.names.of_data(block), int(rng.integers(2**31)))
            parts.append(np.concatenate([draws[name].reshape(len(block), n, -1) for name in columns], -1))
        return np.concatenate(parts).swapaxes(0, 1)

    def __repr__(self) -> str:
        return f"BayesFlow {type(self.approximator).__name__}"


class BayesFlowLikelihood:
    """A likelihood member that is a BayesFlow approximator of q(y|θ), or of a ratio.

    ``simulate`` needs the data under one name.
    """

    def __init__(self, approximator: Any, names: Names) -> None:
        self.approximator, self.names = approximator, names
        self.normalized_in_y = not hasattr(approximator, "log_ratio")
        if self.normalized_in_y and isinstance(names.condition, str):
            self.simulate = partial(self._simulate, names.condition)

    def log_likelihood(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return log q(y_n | θ_n), or the log ratio, of paired rows theta (N, d) and y (N, ...), (N,)."""
        evaluate = self.approximator.log_prob if self.normalized_in_y else self.approximator.log_ratio
        values = evaluate({**self.names.of_parameters(theta), **self.names.of_data(y)})
        return np.asarray(as_numpy(values), float).reshape(len(theta))

    def _simulate(self, name: str, theta: np.ndarray, seed: int) -> np.ndarray:
        """Return one draw of y, under BayesFlow's name of it, for each row of theta (N, d), (N, ...)."""
        seed_of_keras = int(np.random.default_rng(seed).integers(2**31))
        draws = _draws(self.approximator, 1, self.names.of_parameters(theta), seed_of_keras)
        return draws[name][:, 0]

    def __repr__(self) -> str:
        return f"BayesFlow {type(self.approximator).__name__}"


def _draws(approximator: Any, n: int, conditions: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Return n draws of the inference variables for each row of the conditions, (N, n, ...) by name.

    Args:
        approximator: BayesFlow's.
        n: Number of draws per row.
        conditions: Arrays by name.
        seed: Of 31 bits, as Keras takes them.
    """
    with seeded(seed):
        draws = approximator.sample(num_samples=n, conditions=conditions, seed=seed)
    return {name: np.asarray(values) for name, values in draws.items()}
