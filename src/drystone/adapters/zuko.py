"""Members from zuko flows, modules that return a distribution over θ when called with y."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from drystone._parallel import seeded
from drystone.adapters.member import Member
from drystone.adapters.restrict import AT_ONCE, ROWS, restrict

__all__ = ["FlowMember", "from_zuko"]


def from_zuko(flow: nn.Module, *, prior: object = None, error: float = 0.05) -> Member:
    """Return a member from a conditional flow, for which ``flow(y)`` is a torch distribution over θ.

    The flow must take y and return θ in the units of the simulations: include any standardization in it (zuko's
    transforms compose).

    Args:
        flow: The trained flow; it is put into evaluation mode.
        prior: Restrict the member to the support of this prior; see :func:`drystone.adapters.restrict`.
        error: See :func:`drystone.adapters.restrict`.

    Example:
        >>> import zuko
        >>> member = from_zuko(zuko.flows.NSF(2, context=3), prior=([-1, -1], [1, 1]))
        >>> member.sample(5, np.zeros((4, 3)), seed=0).shape
        (5, 4, 2)
    """
    if not isinstance(flow, nn.Module):
        raise TypeError(
            f"`flow` must be a torch module that returns a distribution at y; got {type(flow).__name__}. "
            "For functions use `from_functions`."
        )
    return restrict(FlowMember(flow, flow), prior, error=error)


class FlowMember:
    """A member that is a conditional torch distribution.

    Args:
        module: The module that holds the parameters.
        distribution: Maps y (N, ...) to a distribution over θ with batch shape (N,).
    """

    def __init__(self, module: nn.Module, distribution: Callable[[Tensor], Any]) -> None:
        self.module, self._distribution = module.eval(), distribution

    def to(self, device: torch.device) -> None:
        """Move the module to a device."""
        self.module.to(device)

    def log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the log densities of paired rows theta (N, d) and y (N, ...), (N,)."""
        rows = zip(self._tensor(theta).split(ROWS), self._tensor(y).split(ROWS), strict=True)
        with torch.no_grad():
            parts = [self._distribution(y).log_prob(theta).cpu().numpy() for theta, y in rows]
        return np.concatenate(parts)

    def sample(self, n: int, y: np.ndarray, seed: int | None = None) -> np.ndarray:
        """Return n draws for each row of y, (n, N, d)."""
        parts = self._tensor(y).split(max(1, AT_ONCE // max(1, n)))
        with torch.no_grad(), seeded(seed):
            return np.concatenate([self._distribution(part).sample((n,)).cpu().numpy() for part in parts], 1)

    def _tensor(self, array: np.ndarray) -> Tensor:
        """Return a tensor with the precision and device of the module's parameters."""
        like = next(self.module.parameters(), torch.empty(()))
        return torch.as_tensor(np.asarray(array)).to(like.device, like.dtype)

    def __repr__(self) -> str:
        return type(self.module).__name__
