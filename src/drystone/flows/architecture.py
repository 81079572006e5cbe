r"""What a flow is, as data: sizes, feature orders, and where each weight stands in the parameter vector.

A flow is a chain of :math:`T` autoregressive transforms. Each has its own network, which reads

.. math:: u = (1, y, x_{o_1}, \dots, x_{o_d})

(a constant one, the context, the features in the transform's order :math:`o`) and gives the parameters of the
:math:`d` univariate maps. Every hidden unit has a *degree* :math:`g`: it may see :math:`y` and the first
:math:`g` features. Two conventions make all of it plain and fast:

- the constant one stands first in every layer, so column 0 of every matrix is its bias;
- the hidden units are sorted by degree, so the entries a row may use are its first few: a *prefix*.

No mask is ever stored: a masked matrix is its prefix lengths (:attr:`Layer.reach`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Architecture", "Layer", "Plan"]

# Blocks of fewer rows than this do not repay the call of one more matrix product.
BLOCK = 16


@dataclass(frozen=True)
class Architecture:
    r"""A conditional autoregressive flow :math:`q(x \mid y)`, the function of ``zuko.flows.MAF`` or ``NSF``.

    Args:
        family: ``"maf"`` (affine maps) or ``"nsf"`` (rational-quadratic splines).
        features: :math:`d`, the dimension of x.
        context: :math:`c`, the dimension of y.
        transforms: :math:`T`.
        units: :math:`H`, hidden units per layer.
        layers: :math:`L`, square layers after the first hidden layer (as sbi counts ``num_blocks``).
        activation: ``"tanh"`` or ``"relu"``.
        bins: :math:`K`, bins per spline; unused by ``"maf"``.
        bound: splines act on :math:`[-R, R]` and are the identity outside; unused by ``"maf"``.
        orders: for each transform the features in the order in which they are conditioned on; ``None`` is
            first to last and last to first in turn.

    Example:
        >>> Architecture("nsf", features=2, context=3, transforms=2, units=16, layers=1, bins=4).size
        1484
    """

    family: Literal["maf", "nsf"]
    features: int
    context: int
    transforms: int = 5
    units: int = 50
    layers: int = 2
    activation: Literal["tanh", "relu"] = "tanh"
    bins: int = 8
    bound: float = 5.0
    orders: tuple[tuple[int, ...], ...] | None = None

    def __post_init__(self) -> None:
        if self.family not in ("maf", "nsf"):
            raise ValueError(f"`family` must be 'maf' or 'nsf'; got {self.family!r}.")
        if self.activation not in ("tanh", "relu"):
            raise ValueError(f"`activation` must be 'tanh' or 'relu'; got {self.activation!r}.")
        least = {"features": 1, "context": 1, "transforms": 1, "units": 1, "layers": 0, "bins": 2}
        for name, low in least.items():
            if getattr(self, name) < low:
                raise ValueError(f"`{name}` must be at least {low}; got {getattr(self, name)}.")
        features = list(range(self.features))
        if len(self.permutations) != self.transforms or any(sorted(o) != features for o in self.permutations):
            raise ValueError(
                f"`orders` must be {self.transforms} permutations of 0..{self.features - 1}, "
                f"one per transform; got {self.orders}."
            )

    @cached_property
    def permutations(self) -> tuple[tuple[int, ...], ...]:
        """The features of each transform in its order: ``orders``, or ascending and descending in turn."""
        if self.orders is not None:
            return tuple(tuple(int(i) for i in order) for order in self.orders)
        ascending = tuple(range(self.features))
        return tuple(ascending if t % 2 == 0 else ascending[::-1] for t in range(self.transforms))

    @property
    def outputs(self) -> int:
        """Parameters of one univariate map: (shift, scale), or K widths, K heights and K − 1 slopes."""
        return 2 if self.family == "maf" else 3 * self.bins - 1

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """Degree of each hidden unit, (H,): 0 … d − 1 shared out evenly, sorted."""
        return np.sort(np.arange(self.units) % self.features)

    @cached_property
    def network(self) -> tuple[Layer, ...]:
        """The matrices of one transform: first layer, L square layers, output layer."""
        d, c, H = self.features, self.context, self.units
        seen = np.searchsorted(self.degrees, np.arange(d), side="right")  # units of degree ≤ i
        first = Layer(1 + c + d, tuple((1 + c + self.degrees).tolist()))
        square = Layer(1 + H, tuple((1 + seen[self.degrees]).tolist()))
        last = Layer(1 + H, tuple(np.repeat(1 + seen, self.outputs).tolist()))
        return (first, *[square] * self.layers, last)

    @cached_property
    def size(self) -> int:
        """Length of the parameter vector."""
        return self.transforms * sum(layer.rows * layer.columns for layer in self.network)

    @staticmethod
    def count(
        *, family: str, features: int, context: int, transforms: int, units: int, layers: int, bins: int
    ) -> int:
        """Return the length of the parameter vector of an architecture with these fields, without making it.

        Example:
            >>> Architecture.count(family="nsf", features=2, context=3, transforms=2, units=16, layers=1, bins=4)
            1484
        """
        outputs = features * (2 if family == "maf" else 3 * bins - 1)
        return transforms * (units * (1 + context + features) + (layers * units + outputs) * (1 + units))

    @cached_property
    def runs(self) -> NDArray[np.int64]:
        """Runs [start, stop) of trainable entries in the parameter vector, (n, 2)."""
        start = 0
        runs: list[list[int]] = []
        for layer in self.network * self.transforms:
            for reach in layer.reach:
                if runs and runs[-1][1] == start:
                    runs[-1][1] = start + reach
                else:
                    runs.append([start, start + reach])
                start += layer.columns
        return np.array(runs, np.int64)

    def matrices(self, parameters: NDArray[np.float32]) -> list[list[NDArray[np.float32]]]:
        """Return views of the parameter vector as matrices, ``[transform][layer]`` of shape (rows, columns)."""
        views, start = [], 0
        for _ in range(self.transforms):
            views.append([])
            for layer in self.network:
                stop = start + layer.rows * layer.columns
                views[-1].append(parameters[start:stop].reshape(layer.rows, layer.columns))
                start = stop
        return views

    def initial(self, rng: np.random.Generator) -> NDArray[np.float32]:
        r"""Draw starting parameters: uniform on :math:`\pm 1/\sqrt{\text{fan in}}`, zero where masked."""
        parameters = np.zeros(self.size, np.float32)
        for transform in self.matrices(parameters):
            for layer, matrix in zip(self.network, transform, strict=True):
                bound = (layer.columns - 1) ** -0.5
                allowed = np.arange(layer.columns) < np.array(layer.reach)[:, None]
                matrix[:] = allowed * rng.uniform(-bound, bound, matrix.shape)
        return parameters

    @cached_property
    def plan(self) -> Plan:
        """The architecture as numbers and arrays, for the kernels."""
        d, orders = self.features, np.array(self.permutations, np.int64)
        positions = np.argsort(orders, axis=1)  # (T, d), where each feature stands
        sources = np.empty((self.transforms + 1, d), np.int64)
        sources[0] = orders[0]
        for t in range(1, self.transforms):
            sources[t] = positions[t - 1][orders[t]]
        sources[-1] = positions[-1]
        first, *square, last = self.network
        groups = np.searchsorted(self.degrees, np.arange(d + 1), side="left")
        return Plan(
            self.family == "nsf", self.activation == "relu", d, self.context, self.transforms, self.units,
            self.layers, self.outputs, self.bins, np.float32(self.bound), sources, groups,
            first.blocks, (square[0] if square else last).blocks, last.blocks,
        )  # fmt: skip


class Plan(NamedTuple):
    """An architecture as the kernels read it.

    ``sources[t]`` says from which row of transform t − 1's output each ordered input of transform t comes
    (of x itself for t = 0; row T puts the last output back in the features' own order). Hidden units
    ``groups[i]:groups[i + 1]`` have degree i.
    """

    spline: bool
    relu: bool
    features: int
    context: int
    transforms: int
    units: int
    layers: int
    outputs: int
    bins: int
    bound: np.float32
    sources: NDArray[np.int64]
    groups: NDArray[np.int64]
    first_blocks: NDArray[np.int64]
    square_blocks: NDArray[np.int64]
    last_blocks: NDArray[np.int64]


@dataclass(frozen=True)
class Layer:
    """A masked matrix: its number of columns, and for each row how many of the first entries it may use."""

    columns: int
    reach: tuple[int, ...]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.reach)

    @cached_property
    def blocks(self) -> NDArray[np.int64]:
        """Rows [start, stop) that are multiplied together, and the columns they need; (n, 3).

        Rows of one reach make a block, joined to the next one while shorter than ``BLOCK``. What lies right
        of all prefixes of a block is never multiplied.
        """
        reach = np.asarray(self.reach)
        edges = [0]
        for edge in np.flatnonzero(np.diff(reach)) + 1:
            if edge - edges[-1] >= BLOCK and self.rows - edge >= BLOCK:
                edges.append(int(edge))
        edges.append(self.rows)
        return np.array([(a, b, reach[b - 1]) for a, b in pairwise(edges)], np.int64)
