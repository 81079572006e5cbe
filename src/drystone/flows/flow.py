r"""A conditional flow: an architecture and its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drystone._messages import require
from drystone.flows.architecture import Architecture
from drystone.flows.kernels import density, sampling
from drystone.flows.kernels.blas import single_threaded

if TYPE_CHECKING:
    import zuko

__all__ = ["Flow"]


@dataclass(frozen=True)
class Flow:
    r"""A conditional density :math:`q(x \mid y)` on :math:`\mathbb R^d`, computed by compiled code.

    Args:
        architecture: Sizes, orders and layout of the parameters.
        parameters: Flat vector, float32, of length ``architecture.size``.

    Example:
        >>> flow = Flow.initial(Architecture("maf", features=2, context=3, units=8), seed=0)
        >>> flow.log_prob(np.zeros((5, 2)), np.zeros((5, 3))).shape
        (5,)
        >>> flow.sample(7, np.zeros((5, 3)), seed=1).shape
        (7, 5, 2)
    """

    architecture: Architecture
    parameters: NDArray[np.float32]

    def __post_init__(self) -> None:
        parameters = np.ascontiguousarray(self.parameters, np.float32)
        if parameters.shape != (self.architecture.size,):
            raise ValueError(
                f"`parameters` must have shape ({self.architecture.size},) for this architecture; "
                f"got {parameters.shape}."
            )
        object.__setattr__(self, "parameters", parameters)

    @classmethod
    def initial(cls, architecture: Architecture, seed: int | np.random.Generator = 0) -> Flow:
        """Return an untrained flow with random parameters."""
        return cls(architecture, architecture.initial(np.random.default_rng(seed)))

    def log_prob(self, x: ArrayLike, y: ArrayLike) -> NDArray[np.float32]:
        r"""Return :math:`\log q(x_n \mid y_n)`, (N,), for paired rows x (N, d) and y (N, c)."""
        x = _rows(x, self.architecture.features, "x")
        y = _rows(y, self.architecture.context, "y")
        if len(x) != len(y):
            raise ValueError(f"`x` and `y` must have the same number of rows; got {len(x)} and {len(y)}.")
        out = np.empty(len(x), np.float32)
        with single_threaded():
            density.log_prob(self.architecture.plan, self.parameters, x, y, out)
        return out

    def sample(self, n: int, y: ArrayLike, seed: int | np.random.Generator | None = None) -> NDArray[np.float32]:
        r"""Return n draws from :math:`q(x \mid y_m)` for each row of y (N, c), as an array (n, N, d)."""
        y = _rows(y, self.architecture.context, "y")
        rng = np.random.default_rng(seed)
        noise = rng.standard_normal((len(y), n, self.architecture.features), np.float32)
        return np.swapaxes(self.push(noise, y), 0, 1)

    def push(self, noise: NDArray[np.float32], y: ArrayLike) -> NDArray[np.float32]:
        """Map standard normal noise (N, n, d) to n draws for each row of y (N, c), (N, n, d)."""
        y = _rows(y, self.architecture.context, "y")
        N, n, d = noise.shape
        out = np.empty((N * n, d), np.float32)
        with single_threaded():
            sampling.push(self.architecture.plan, self.parameters, noise.reshape(N * n, d), y, max(n, 1), out)
        return out.reshape(N, n, d)

    def to_zuko(self) -> zuko.flows.Flow:
        """Return a ``zuko`` flow, a torch module, that is the same function."""
        require("zuko", "zuko", "to_zuko")
        from drystone.flows.zuko import to_zuko

        return to_zuko(self)


def _rows(a: ArrayLike, columns: int, name: str) -> NDArray[np.float32]:
    """Return a contiguous float32 matrix; raise if it has not the expected number of columns."""
    a = np.ascontiguousarray(a, np.float32)
    if a.ndim != 2 or a.shape[1] != columns:
        raise ValueError(f"`{name}` must have shape (N, {columns}); got {a.shape}.")
    return a
