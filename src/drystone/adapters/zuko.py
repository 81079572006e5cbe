"""Members from zuko: a module whose call at y is a distribution over θ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from drystone._parallel import seeded
from drystone.adapters.restrict import AT_ONCE, ROWS, restrict

__all__ = ["FlowMember", "from_zuko"]


def from_zuko(flow: nn.Module, *, prior: Any = None, error: float = 0.05) -> Any:
    """A member from a conditional flow: ``flow(y)`` is a torch distribution over θ, as zuko's flows are.

    Standardisation is yours: give a module that takes y and gives θ in the units of the simulations (zuko's
    transforms compose).

    Args:
        flow: the trained flow; it is put into evaluation mode.
        prior: hold the member to the support of this prior; see :func:`drystone.adapters.restrict`.
        error: see there.

    Example:
        >>> import zuko
        >>> member = from_zuko(zuko.flows.NSF(2, context=3), prior=([-1, -1], [1, 1]))
        >>> member.sample(5, np.zeros((4, 3)), seed=0).shape
        (5, 4, 2)
    """
    if not isinstance(flow, nn.Module):
        raise TypeError(
            f"`flow` must be a torch module whose call at y is a distribution; got {type(flow).__name__}. "
            "For functions use `from_functions`."
        )
    return restrict(FlowMember(flow, flow), prior, error=error)


class FlowMember:
    """A conditional torch distribution.

    Args:
        module: where the parameters are.
        distribution: y (N, ...) to a distribution over θ with batch shape (N,).
    """

    def __init__(self, module: nn.Module, distribution: Callable[[Tensor], Any]) -> None:
        self.module, self._distribution = module.eval(), distribution

    def log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Log densities of paired rows theta (N, d), y (N, ...): (N,)."""
        rows = zip(self._tensor(theta).split(ROWS), self._tensor(y).split(ROWS), strict=True)
        with torch.no_grad():
            parts = [self._distribution(y).log_prob(theta).cpu().numpy() for theta, y in rows]
        return np.concatenate(parts)

    def sample(self, n: int, y: np.ndarray, seed: int | None = None) -> np.ndarray:
        """n draws for each row of y: (n, N, d)."""
        parts = self._tensor(y).split(max(1, AT_ONCE // max(1, n)))
        with torch.no_grad(), seeded(seed):
            return np.concatenate([self._distribution(part).sample((n,)).cpu().numpy() for part in parts], 1)

    def _tensor(self, array: np.ndarray) -> Tensor:
        """In the precision of the module's parameters, on their device."""
        like = next(self.module.parameters(), torch.empty(()))
        return torch.as_tensor(np.asarray(array)).to(like.device, like.dtype)

    def __repr__(self) -> str:
        return type(self.module).__name__
