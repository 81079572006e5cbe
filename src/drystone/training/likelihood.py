r"""A trained likelihood: a density :math:`q(y \mid \theta)` of the data in the units of the simulations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from drystone._arrays import as_numpy
from drystone.flows.flow import Flow
from drystone.simulation.support import Support
from drystone.training.engines.loop import State
from drystone.training.features import Features
from drystone.training.member import History
from drystone.training.preprocessing import Scaling
from drystone.training.recipe import Recipe
from drystone.training.sweep import Configuration
from drystone.training.trend import Trend

__all__ = ["Condition", "TrainedLikelihood"]

# Bound of the standardized parameters: a prior with heavy tails yields single rows far from all others.
CLIP = 6.0


@dataclass(frozen=True)
class Condition:
    r"""The transform of θ for a network: logarithms where the support is a half-line, standardization, clipping.

    Args:
        support: The support of the prior.
        scaling: Standardizes the columns.
    """

    support: Support
    scaling: Scaling

    @classmethod
    def fit(cls, theta: NDArray[np.floating], support: Support) -> Condition:
        """Fit on training rows theta (N, d)."""
        identity = Scaling(np.zeros(theta.shape[1]), np.ones(theta.shape[1]))
        return cls(support, Scaling.fit(cls(support, identity)._unscaled(theta)))

    def __call__(self, theta: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return the network's input for rows theta (N, d) in the support, float32."""
        return np.clip(self.scaling.apply(self._unscaled(theta)), -CLIP, CLIP).astype(np.float32)

    def _unscaled(self, theta: NDArray[np.floating]) -> NDArray[np.float64]:
        # Parameters in a box stay as they are: stretching its ends would only make the network's task harder.
        return replace(self.support, linear=np.inf).to_real(theta)[0]


@dataclass(frozen=True, eq=False)
class TrainedLikelihood:
    r"""A conditional flow over data with the transforms between it and the user's units.

    With the map :math:`z` of the data, the transform :math:`c` of θ and the trend :math:`x` of z in c,

    .. math:: \log q(y \mid \theta) = \log q_f(x(z(y), c(\theta)) \mid c(\theta)) + \log |\det x'| + \log |\det z'|

    a normalized density of the columns of y that vary. Outside the prior's support it is :math:`-\infty`.

    Where y are counts it is a probability, the integral of the density over the cell, estimated at four points in
    it. That is rough: on the ten counts of SIR it is 0.2 to 0.7 nats too high. Posteriors, in which such a factor
    of y cancels, are right to 0.01 nats; evidences of counts are not to be compared closer than this.

    Args:
        name: Unique within its ensemble.
        flow: The density in standardized coordinates.
        features: Maps y to these coordinates.
        condition: Maps θ to the input of the network.
        configuration: The hyperparameters of the training.
        history: The course of the training.
        snapshots: Parameters after some epochs, by epoch.
        recipe: What the training is repeated from; ``None`` for members of earlier versions.
        trend: The linear trend of z that is taken away; ``None`` for none.
    """

    normalized_in_y: ClassVar[bool] = True
    needs_finite_y: ClassVar[bool] = True

    name: str
    flow: Flow
    features: Features
    condition: Condition
    configuration: Configuration
    history: History
    snapshots: Mapping[int, State] = field(default_factory=dict, repr=False)
    recipe: Recipe | None = field(default=None, repr=False)
    trend: Trend | None = field(default=None, repr=False)

    def log_likelihood(self, theta: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
        r"""Return :math:`\log q(y_n \mid \theta_n)`, (N,), for paired rows theta (N, d) and y (N, c).

        A single row of y is used for all rows of theta.
        """
        theta, y = self._parameters(theta), as_numpy(y)
        if len(y) > 1 and (y == y[0]).all():  # as at the points of one observation: its features are the same
            y = y[:1]
        inside = self.condition.support.contains(theta)
        context = self.condition(theta)
        at_points = []
        for u in self.features.points:
            z, log_det = self.features.apply(y, u)
            if self.trend is not None:
                z, log_det = self.trend.apply(z, context), log_det + self.trend.log_det
            elif len(z) == 1:
                z = np.broadcast_to(z, (len(theta), z.shape[1]))
            at_points.append(self.flow.log_prob(z, context) + log_det)
        log_q = at_points[0] if len(at_points) == 1 else _log_mean(np.stack(at_points))
        return np.where(inside, log_q, -np.inf)

    def simulate(self, theta: ArrayLike, seed: int | None = None) -> NDArray[np.float64]:
        r"""Return one draw from :math:`q(y \mid \theta_n)` for each row of theta (N, d), as an array (N, c)."""
        theta = self._parameters(theta)
        outside = int((~self.condition.support.contains(theta)).sum())
        if outside:
            raise ValueError(f"`theta` must lie in the prior's support; {outside} of {len(theta)} rows do not.")
        context = self.condition(theta)
        x = self.flow.sample(1, context, seed)[0]
        return self.features.invert(x if self.trend is None else self.trend.invert(x, context))

    def snapshot(self, epoch: int) -> TrainedLikelihood:
        """Return the member as it was after an epoch, or at the end of training if that was earlier."""
        if epoch not in self.snapshots:
            raise ValueError(f"`epoch` must be one of the snapshots {sorted(self.snapshots)}; got {epoch}.")
        return replace(self, flow=Flow(self.flow.architecture, self.snapshots[epoch]["flow"]), snapshots={})

    def _parameters(self, theta: ArrayLike) -> NDArray:
        theta, d = as_numpy(theta), self.flow.architecture.context
        if theta.ndim != 2 or theta.shape[1] != d:
            raise ValueError(f"`theta` must have shape (N, {d}); got {theta.shape}.")
        return theta


def _log_mean(log_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log (1/n) Σ_i exp(v_i) over the first axis."""
    return np.asarray(logsumexp(log_values, axis=0)) - np.log(len(log_values))
