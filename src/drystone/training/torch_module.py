r"""A member as a torch module: the same function of θ and y, for further training or use on a GPU."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import zuko
from torch import nn
from torch.distributions import Transform, constraints

from drystone.flows.zuko import to_zuko
from drystone.simulation.support import LEAST, MARGIN, NEWTON

if TYPE_CHECKING:
    from drystone.training.member import TrainedMember

__all__ = ["MemberModule"]


class MemberModule(nn.Module):
    r"""A zuko flow with the member's standardization around it: ``module(y).log_prob(theta)``.

    ``module(y)`` is a ``zuko`` distribution over θ in the units of the simulations. Everything is
    differentiable; only the flow and the embedding have parameters, the standardization consists of buffers.
    """

    lower: torch.Tensor
    upper: torch.Tensor
    shift: torch.Tensor
    scale: torch.Tensor
    y_log: torch.Tensor
    y_root: torch.Tensor
    y_asinh: torch.Tensor
    y_center: torch.Tensor
    y_width: torch.Tensor
    y_shift: torch.Tensor
    y_scale: torch.Tensor
    y_mean: torch.Tensor | None
    y_axes: torch.Tensor | None

    def __init__(self, member: TrainedMember) -> None:
        super().__init__()
        self.flow = to_zuko(member.flow)
        self.embedding = member.embedding
        data_transform = member.data_transform
        self.clip = data_transform.clip
        self.linear = member.support.linear
        constants = {
            "lower": member.support.lower,
            "upper": member.support.upper,
            "shift": member.scaling.shift,
            "scale": member.scaling.scale,
            "y_center": data_transform.warp.center,
            "y_width": data_transform.warp.width,
            "y_shift": data_transform.scaling.shift,
            "y_scale": data_transform.scaling.scale,
            "y_mean": data_transform.mean,
            "y_axes": data_transform.axes,
        }
        for name, value in constants.items():
            tensor = None if value is None else torch.from_numpy(np.array(value, np.float32))
            self.register_buffer(name, tensor)
        for name in ("log", "root", "asinh"):
            self.register_buffer(f"y_{name}", torch.from_numpy(np.array(getattr(data_transform.warp, name))))

    def forward(self, y: torch.Tensor) -> zuko.distributions.NormalizingFlow:
        """Return the posterior at each row of y (…, c)."""
        flow: Any = self.flow(self.context(y))
        standardize = _Standardize(self.lower, self.upper, self.linear, self.shift, self.scale)
        return zuko.distributions.NormalizingFlow(
            zuko.transforms.ComposedTransform(standardize, *flow.transform.transforms), flow.base
        )

    def context(self, y: torch.Tensor) -> torch.Tensor:
        """Return the context of the flow."""
        # Entries without a logarithm are replaced by 1 inside it, so that no gradient is NaN.
        warped = torch.where(self.y_log, torch.where(self.y_log, y, 1.0).log(), y)
        warped = torch.where(self.y_root, torch.where(self.y_root, y, 1.0).abs().sqrt() * y.sign(), warped)
        warped = torch.where(self.y_asinh, ((y - self.y_center) / self.y_width).asinh(), warped)
        v = ((warped - self.y_shift) / self.y_scale).clamp(-self.clip, self.clip)
        if self.y_mean is not None and self.y_axes is not None:
            v = (v - self.y_mean) @ self.y_axes
        return v if self.embedding is None else self.embedding(v)


class _Standardize(Transform):
    """The map from θ in the support to standardized reals; the log density outside the support is −inf."""

    domain = constraints.real_vector
    codomain = constraints.real_vector
    bijective = True

    def __init__(
        self,
        lower: torch.Tensor,
        upper: torch.Tensor,
        linear: float,
        shift: torch.Tensor,
        scale: torch.Tensor,
    ) -> None:
        super().__init__()
        self.below, self.above = lower.isfinite(), upper.isfinite()
        self.lower = torch.where(self.below, lower, 0.0)
        self.upper = torch.where(self.above, upper, 0.0)
        self.linear, self.shift, self.scale = linear, shift, scale

    def call_and_ladj(self, theta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        inside = ~((self.below & (theta < self.lower)) | (self.above & (theta > self.upper)))
        ones = torch.ones_like(theta)
        # The member's own least distance from a bound.
        least = torch.where(self.below & self.above, MARGIN * (self.upper - self.lower), LEAST)
        from_lower = torch.where(self.below & inside, theta - self.lower, ones).maximum(least).log()
        from_upper = torch.where(self.above & inside, self.upper - theta, ones).maximum(least).log()
        bounded = self.below | self.above
        x = torch.where(bounded, from_lower - from_upper, theta)
        both = self.below & self.above
        width = torch.where(both, self.upper - self.lower, 1.0)
        ladj = width.log() - from_lower - from_upper
        if self.linear:
            x = torch.where(both, x + self.linear * (theta - self.lower) / width, x)
            linear = math.log(self.linear) - width.log()
            ladj = torch.where(both, torch.logaddexp(ladj, linear), ladj)
        ladj = torch.where(inside, ladj - self.scale.log(), -torch.inf).sum(dim=-1)
        return (x - self.shift) / self.scale, ladj

    def _call(self, x: torch.Tensor) -> torch.Tensor:
        return self.call_and_ladj(x)[0]

    def log_abs_det_jacobian(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.call_and_ladj(x)[1]

    def _inverse(self, y: torch.Tensor) -> torch.Tensor:
        x = y * self.scale + self.shift
        box = self.lower + (self.upper - self.lower) * torch.sigmoid(self._logit(x))
        theta = torch.where(self.below, self.lower + x.exp(), torch.where(self.above, self.upper - (-x).exp(), x))
        return torch.where(self.below & self.above, box, theta)

    def _logit(self, x: torch.Tensor) -> torch.Tensor:
        """Solve v + a σ(v) = x for v, as the support does."""
        a = self.linear
        centered = x - a / 2
        v = torch.copysign(torch.maximum(centered.abs() / (1 + a / 4), centered.abs() - a / 2), centered)
        for _ in range(NEWTON if a else 0):
            share = torch.sigmoid(v)
            v = v + (x - v - a * share) / (1 + a * share * (1 - share))
        return v
