r"""A quantity of interest f(θ, y) of draws that parameters move: its value, and its slope by central differences.

A user's f is NumPy code, which torch cannot differentiate. Each draw has a value of its own, so the slope in all
draws together costs 2d evaluations of f:

.. math::
    \frac{\partial f}{\partial \theta_i} \approx \frac{f(\theta + h_i e_i, y) - f(\theta - h_i e_i, y)}{2 h_i}
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from drystone.forms.distances import mixed_draws
from drystone.table import Statistic, Table
from drystone.table.table import quantity_at_truth

__all__ = ["quantity_of_draws", "truth_and_width"]


def quantity_of_draws(draws: Tensor, y: np.ndarray | None, statistic: Statistic, step: Tensor) -> Tensor:
    """Return f of draws (N, n, d), (N, n), with a slope in the draws.

    Args:
        draws: of the stacked posterior.
        y: data, (N, ...).
        statistic: f.
        step: h, (d,).
    """
    return _Differences.apply(draws, y, statistic, step)


def truth_and_width(table: Table, statistic: Statistic, most: int) -> tuple[Tensor, Tensor]:
    """Return f of the true parameters, (N,), and a twentieth of the members' typical spread of it, a scalar.

    Args:
        table: in memory, with draws.
        statistic: f.
        most: how many draws per member and row to look at.
    """
    of_members = [_evaluated(draws, table.y, statistic).numpy() for draws in mixed_draws(table, most)]
    lower, upper = np.quantile(of_members, [0.16, 0.84], axis=-1)
    width = max(float(np.median(upper - lower)), 1e-300) / 20
    return torch.as_tensor(quantity_at_truth(table, statistic)), torch.tensor(width)


def _evaluated(draws: Tensor, y: np.ndarray | None, statistic: Statistic) -> Tensor:
    """Return f of draws (N, n, d), (N, n); f itself takes theta (n, N, d)."""
    values = np.asarray(statistic(np.moveaxis(draws.detach().numpy(), 1, 0), y), float)
    return torch.as_tensor(values.T.copy())


class _Differences(torch.autograd.Function):
    """f of each draw, differentiated numerically."""

    @staticmethod
    def forward(ctx: Any, draws: Tensor, y: np.ndarray | None, statistic: Statistic, step: Tensor) -> Tensor:
        ctx.arguments, ctx.step = (y, statistic), step
        ctx.save_for_backward(draws)
        return _evaluated(draws, y, statistic)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor, None, None, None]:
        (draws,), (slope,) = ctx.saved_tensors, outputs
        of_draws = torch.empty_like(draws)
        for i, h in enumerate(ctx.step):
            e = torch.zeros_like(ctx.step)
            e[i] = h
            above, below = (_evaluated(draws + sign * e, *ctx.arguments) for sign in (1, -1))
            of_draws[..., i] = slope * (above - below) / (2 * h)
        return of_draws, None, None, None
