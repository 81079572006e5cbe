r"""What is modelled given what: posteriors :math:`q(\theta \mid y)`, or likelihoods :math:`q(y \mid \theta)`.

A target turns simulations into the standardized x (modelled) and y (context) of a flow, and a trained flow into a
member in the units of the simulations.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from drystone._defaults import FAMILY
from drystone.flows.flow import Flow
from drystone.flows.kernels.blas import single_threaded
from drystone.simulation.support import Support
from drystone.training.engines.job import Outcome
from drystone.training.engines.loop import Data
from drystone.training.features import Features
from drystone.training.inputs import check_independent, warn_of_repeated_values
from drystone.training.likelihood import Condition, TrainedLikelihood
from drystone.training.member import History, TrainedMember
from drystone.training.preprocessing import DataTransform, Scaling
from drystone.training.sweep import Configuration, Family, Sweep
from drystone.training.trend import Trend
from drystone.training.warp import LogY

__all__ = ["LikelihoodTarget", "PosteriorTarget"]

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class PosteriorTarget:
    """Flows over θ given y.

    Args:
        support: The support of the prior.
        scaling: Standardizes the unconstrained parameters.
        data_transform: Maps y to the input of the network.
        loss_shift: Added to losses, so that those of flows over parameters on other scales can be compared.
    """

    PREFIX: ClassVar[str] = ""
    FAMILIES: ClassVar[tuple[Family, ...]] = (FAMILY,)
    SWEEPS: ClassVar[tuple[Sweep, ...]] = Sweep.posterior()

    support: Support
    scaling: Scaling
    data_transform: DataTransform
    loss_shift: float = 0.0

    @classmethod
    def fit(
        cls,
        theta: NDArray,
        y: NDArray,
        training: Rows,
        support: Support,
        *,
        log_y: LogY,
        clip_y: float,
        components: int | None,
    ) -> PosteriorTarget:
        """Fit the transforms on the training rows; raise if the parameters have no density there."""
        with single_threaded():
            check_independent(theta[training])
        warn_of_repeated_values(theta[training])
        scaling = Scaling.fit(support.to_real(theta)[0][training])
        with single_threaded():  # rounding must not depend on the number of cores
            return cls(
                support,
                scaling,
                DataTransform.fit(y[training], log=log_y, clip=clip_y, components=components),
            )

    @classmethod
    def of(cls, member: TrainedMember) -> PosteriorTarget:
        """Return the transforms of a member."""
        return cls(member.support, member.scaling, member.data_transform)

    def for_configuration(
        self, configuration: Configuration, theta: NDArray, y: NDArray, training: Rows, held_out: Rows
    ) -> PosteriorTarget:
        """Return the target of flows that keep to bounds as this one does; itself where there are none."""
        if configuration.bounds == "map" or not self.support.boxed.any():
            return self
        support = replace(self.support, linear=np.inf)
        scaling = Scaling.fit(support.to_real(theta)[0][training])
        slopes, mapped = (s.to_real(theta[held_out])[1].mean() for s in (support, self.support))
        shift = float(mapped - slopes) + self.scaling.log_det - scaling.log_det
        return replace(self, support=support, scaling=scaling, loss_shift=shift)

    def data(self, theta: NDArray, y: NDArray, training: Rows, held_out: Rows) -> Data:
        """Return the standardized simulations."""
        return Data(*self.standardize(theta, y, np.arange(len(theta))), training, held_out)

    def standardize(
        self, theta: NDArray, y: NDArray, rows: Rows
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return x and y of the flow for pairs that stand at these rows of the simulations."""
        x = self.scaling.apply(self.support.to_real(theta)[0]).astype(np.float32)
        with single_threaded():
            return x, self.data_transform(y)

    def member(self, name: str, outcome: Outcome) -> TrainedMember:
        """Return the member of a finished training."""
        return TrainedMember(
            name=name,
            flow=Flow(outcome.architecture, outcome.fit.state["flow"]),
            support=self.support,
            scaling=self.scaling,
            data_transform=self.data_transform,
            configuration=outcome.configuration,
            history=_history(outcome, self.loss_shift),
            snapshots=outcome.fit.snapshots,
            embedding=outcome.embedding,
        )


@dataclass(frozen=True)
class LikelihoodTarget:
    """Flows over y given θ.

    Args:
        features: Maps y to standardized coordinates.
        condition: Maps θ to the input of the network.
        u: Where in its cell each count is put in training, (N, c).
        trend: The linear trend that is taken away; None for none.
    """

    PREFIX: ClassVar[str] = "nle-"
    FAMILIES: ClassVar[tuple[Family, ...]] = ("maf", "nsf")
    SWEEPS: ClassVar[tuple[Sweep, ...]] = (Sweep.likelihood(),)

    features: Features
    condition: Condition
    u: NDArray[np.float64]
    trend: Trend | None = None

    @classmethod
    def fit(
        cls,
        theta: NDArray,
        y: NDArray,
        training: Rows,
        support: Support,
        *,
        log_y: LogY,
        seed: int,
    ) -> LikelihoodTarget:
        """Fit the transforms on the training rows; warn of constant columns of y."""
        u = _points_in_cells(y, seed)
        features = Features.fit(y[training], log=log_y, u=u[training])
        constant = np.flatnonzero(~features.varying).tolist()
        if constant:
            warnings.warn(
                f"columns {constant} of `y` are constant in the training rows: the likelihoods are densities of "
                "the other columns.",
                stacklevel=3,
            )
        return cls(features, Condition.fit(theta[training], support), u)

    def for_configuration(
        self, configuration: Configuration, theta: NDArray, y: NDArray, training: Rows, held_out: Rows
    ) -> LikelihoodTarget:
        """Return the target of flows over what is left of y without its trend, if the configuration says so."""
        if not configuration.trend:
            return self
        z, _ = self.features.apply(y[training], self.u[training])
        warp, varying = self.features.warp, self.features.varying
        # A line that is drawn in on both sides of the median is none any more.
        straight = ~(warp.asinh & (warp.center != 0))[varying]
        with single_threaded():  # rounding must not depend on the number of cores
            trend = Trend.fit(z, self.condition(theta[training]), straight)
        return self if trend is None else replace(self, trend=trend)

    @classmethod
    def of(cls, member: TrainedLikelihood, y: NDArray, seed: int) -> LikelihoodTarget:
        """Return the transforms of a member, for rows y (N, c)."""
        return cls(member.features, member.condition, _points_in_cells(y, seed), member.trend)

    def data(self, theta: NDArray, y: NDArray, training: Rows, held_out: Rows) -> Data:
        """Return the standardized simulations, with the roles of θ and y exchanged."""
        return Data(*self.standardize(theta, y, np.arange(len(theta))), training, held_out)

    def standardize(
        self, theta: NDArray, y: NDArray, rows: Rows
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return x and y of the flow for pairs that stand at these rows of the simulations."""
        z, c = self.features.apply(y, self.u[rows])[0], self.condition(theta)
        return (z if self.trend is None else self.trend.apply(z, c)).astype(np.float32), c

    def member(self, name: str, outcome: Outcome) -> TrainedLikelihood:
        """Return the member of a finished training."""
        return TrainedLikelihood(
            name=name,
            flow=Flow(outcome.architecture, outcome.fit.state["flow"]),
            features=self.features,
            condition=self.condition,
            configuration=outcome.configuration,
            history=_history(outcome, 0.0 if self.trend is None else -self.trend.log_det),
            snapshots=outcome.fit.snapshots,
            trend=self.trend,
        )


def _points_in_cells(y: NDArray, seed: int) -> NDArray[np.float64]:
    """Return where in its cell each count is put, (N, c): the same for the first rows however many there are."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3,))).random(y.shape)


def _history(outcome: Outcome, shift: float = 0.0) -> History:
    fit = outcome.fit
    losses, validation = (tuple(loss + shift for loss in of) for of in (fit.losses, fit.validation))
    # A replay has no validation: its last epoch is the best one of the training that it repeats.
    best_epoch = fit.best_epoch if fit.validation else len(fit.losses)
    return History(losses, validation, best_epoch, outcome.restarts, outcome.seconds)
