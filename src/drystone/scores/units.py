"""Units of the parameters, for scores that add lengths along different parameters."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["as_scale", "unit"]


def as_scale(scale: Sequence[float] | None) -> tuple[float, ...] | None:
    """A scale as the user gives it (a tuple, list or array) to a tuple of numbers, which compares and travels."""
    return None if scale is None else tuple(float(value) for value in scale)


def unit(scale: tuple[float, ...] | None, d: int) -> Tensor:
    """``scale`` as a tensor (d,), ones if None."""
    if scale is None:
        return torch.ones(d, dtype=torch.float64)
    if len(scale) != d or not all(0 < value < float("inf") for value in scale):
        raise ValueError(f"`scale` must hold d = {d} positive numbers; got {scale}.")
    return torch.tensor(scale, dtype=torch.float64)
