"""Units of the parameters, for scores that add lengths along different parameters."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["unit"]


def unit(scale: tuple[float, ...] | None, d: int) -> Tensor:
    """``scale`` as a tensor (d,), ones if None."""
    if scale is None:
        return torch.ones(d, dtype=torch.float64)
    if len(scale) != d or not all(0 < value < float("inf") for value in scale):
        raise ValueError(f"`scale` must hold d = {d} positive numbers; got {scale}.")
    return torch.tensor(scale, dtype=torch.float64)
