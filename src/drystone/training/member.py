r"""A trained member: an amortized posterior :math:`q(\theta \mid y)` in the units of the simulations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drystone._arrays import as_numpy
from drystone._messages import require
from drystone.flows.flow import Flow
from drystone.simulation.support import Support
from drystone.training.engines.loop import State
from drystone.training.preprocessing import DataTransform, Scaling
from drystone.training.recipe import Recipe
from drystone.training.restriction import Restriction
from drystone.training.sweep import Configuration

if TYPE_CHECKING:
    from torch import nn

    from drystone.training.torch_module import MemberModule

__all__ = ["History", "TrainedMember"]


@dataclass(frozen=True)
class History:
    """The course of a training.

    Args:
        losses: Mean training loss of each epoch, in standardized units. Those of members with
            ``bounds="restrict"`` are before the flow is restricted and, but for refitted ones, in the units of
            the others.
        validation: Validation loss after each epoch: minus the mean log density, in the same units; empty for a
            member that was refitted on all rows.
        best_epoch: The epoch whose parameters the member has, counted from 1.
        restarts: Number of restarts with a tenth of the learning rate.
        seconds: Duration; NaN if it was not recorded.
    """

    losses: tuple[float, ...]
    validation: tuple[float, ...]
    best_epoch: int
    restarts: int
    seconds: float


@dataclass(frozen=True, eq=False)
class TrainedMember:
    r"""A conditional flow with the transforms between it and the user's units.

    With the support's bijection :math:`s`, the scaling :math:`z` and the transform :math:`c` of the data,

    .. math:: \log q(\theta \mid y) = \log q_f(z(s(\theta)) \mid c(y)) + \log |\det s'| + \log |\det z'|

    and :math:`-\infty` outside the prior's support. A member with ``bounds="restrict"`` has the flow restricted to
    the box in place of :math:`q_f` (:mod:`drystone.training.restriction`).

    Args:
        name: Unique within its ensemble.
        flow: The density in standardized coordinates.
        support: The support of the prior.
        scaling: Standardizes the unconstrained parameters.
        data_transform: Maps y to the input of the network.
        configuration: The hyperparameters of the training.
        history: The course of the training.
        snapshots: Parameters after some epochs, by epoch.
        recipe: What the training is repeated from; ``None`` for members of earlier versions.
        embedding: A torch module between the data transform and the flow, or ``None``.
    """

    name: str
    flow: Flow
    support: Support
    scaling: Scaling
    data_transform: DataTransform
    configuration: Configuration
    history: History
    snapshots: Mapping[int, State] = field(default_factory=dict, repr=False)
    recipe: Recipe | None = field(default=None, repr=False)
    embedding: nn.Module | None = field(default=None, repr=False)

    @property
    def needs_finite_y(self) -> bool:
        """Whether NaN in y is of no use to it: an embedding may be made for NaN, a network is not."""
        return self.embedding is None

    def log_prob(self, theta: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
        r"""Return :math:`\log q(\theta_n \mid y_n)`, (N,), for paired rows theta (N, d) and y (N, …).

        A single row of y is used for all rows of theta.
        """
        theta, y = as_numpy(theta), as_numpy(y)
        d = self.flow.architecture.features
        if theta.ndim != 2 or theta.shape[1] != d:
            raise ValueError(f"`theta` must have shape (N, {d}); got {theta.shape}.")
        context = self.context(y)
        if len(context) == 1:
            context = np.broadcast_to(context, (len(theta), context.shape[1]))
        x, log_det = self.support.to_real(theta)
        density = self.flow if self._restriction is None else self._restriction
        log_q = density.log_prob(self.scaling.apply(x), context) + log_det + self.scaling.log_det
        return np.where(self.support.contains(theta), log_q, -np.inf)

    def sample(self, n: int, y: ArrayLike, seed: int | None = None) -> NDArray[np.float64]:
        r"""Return n draws from :math:`q(\theta \mid y_m)` for each row of y (N, …), as an array (n, N, d)."""
        density = self.flow if self._restriction is None else self._restriction
        x = density.sample(n, self.context(as_numpy(y)), seed)
        theta = self.support.to_theta(self.scaling.invert(x))
        # Rounding may put a draw on the bound just outside of it.
        return theta if self._restriction is None else np.clip(theta, self.support.lower, self.support.upper)

    @cached_property
    def _restriction(self) -> Restriction | None:
        """The flow restricted to the box, if the map leaves it open."""
        return Restriction(self.flow, self.support, self.scaling) if np.isinf(self.support.linear) else None

    @property
    def y_shape(self) -> tuple[int, ...] | None:
        """Shape of one observation, (c,); None for structured data, of which only the scale is known."""
        return self.data_transform.warp.log.shape or None

    def context(self, y: NDArray) -> NDArray[np.float32]:
        """Return the context of the flow, (N, c)."""
        c = self.data_transform(y)
        if self.embedding is None:
            return c
        from drystone.training.engines.torch import embed

        return embed(self.embedding, c)

    def snapshot(self, epoch: int) -> TrainedMember:
        """Return the member as it was after an epoch, or at the end of training if that was earlier."""
        if epoch not in self.snapshots:
            raise ValueError(f"`epoch` must be one of the snapshots {sorted(self.snapshots)}; got {epoch}.")
        state = self.snapshots[epoch]
        embedding = self.embedding
        if embedding is not None:
            from drystone.training.engines.torch import with_state

            embedding = with_state(embedding, state)
        flow = Flow(self.flow.architecture, state["flow"])
        return replace(self, flow=flow, embedding=embedding, snapshots={})

    def to_zuko(self) -> MemberModule:
        """Return the same function as a torch module with a ``zuko`` flow: ``module(y).log_prob(theta)``."""
        require("zuko", "zuko", "to_zuko")
        if self._restriction is not None:
            raise ValueError(
                f"member {self.name!r} is a flow restricted to the box of the prior, whose normalization is "
                "estimated from draws, and no zuko flow. `member.flow.to_zuko()` is the flow itself, over "
                "standardized parameters; a sweep with bounds='map' trains members that are flows throughout."
            )
        from drystone.training.torch_module import MemberModule

        return MemberModule(self)
