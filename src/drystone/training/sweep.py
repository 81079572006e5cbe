"""Hyperparameters of a member, and ranges of them to draw a whole ensemble from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from drystone._defaults import FAMILY
from drystone._messages import unknown
from drystone.flows.architecture import Architecture

__all__ = ["Bounds", "Configuration", "Sweep", "ema_share"]

Family = Literal["maf", "nsf"]
Activation = Literal["relu", "tanh"]
Bounds = Literal["map", "restrict"]
Benchmark = Literal["sbibm", "simbig"]


@dataclass(frozen=True)
class Configuration:
    """The hyperparameters of one member, with the names of :class:`drystone.flows.Architecture`.

    Args:
        family: ``"maf"`` or ``"nsf"``.
        transforms: Autoregressive transforms in a chain.
        units: Hidden units per layer.
        layers: Square layers after the first hidden layer (as sbi counts ``num_blocks``).
        activation: ``"relu"`` or ``"tanh"``.
        bins: Bins per spline; ``"nsf"`` only.
        shuffle: Condition the parameters on one another in random orders, each followed by its reverse,
            rather than first to last and last to first in turn.
        dropout: Share of hidden units dropped in training.
        batch_size: Rows per step.
        learning_rate: Learning rate of Adam.
        ema_decay: Decay of the exponential moving average of the parameters, which the member has: after each
            epoch this share of the average stays (less in the first epochs), and the rest is replaced by the
            epoch's parameters. 0 is no averaging.
        bounds: How a posterior keeps to the two bounds of a parameter: ``"map"`` maps the box to the reals before
            the flow is trained; ``"restrict"`` trains it on θ as it is, cuts off what it puts outside, and
            renormalizes. Half-lines are mapped in any case, and likelihoods have no use for it.
        trend: Whether a likelihood describes what is left of y when its linear trend in θ is taken away, in the
            columns that have one (:mod:`drystone.training.trend`). Posteriors have no use for it.

    Example:
        >>> import drystone as ds
        >>> theta, y = ds.toy.simulate(100, seed=1)
        >>> sweep = [ds.Configuration("maf", transforms=2, units=units) for units in (8, 16)]
        >>> ensemble = ds.train(theta, y, sweep=sweep, epochs=1, workers=1)
        >>> ensemble.frame["units"].tolist()
        [8, 16]
    """

    family: Family = FAMILY
    transforms: int = 5
    units: int = 50
    layers: int = 2
    activation: Activation = "relu"
    bins: int = 8
    shuffle: bool = False
    dropout: float = 0.0
    batch_size: int = 50
    learning_rate: float = 5e-4
    ema_decay: float = 0.0
    bounds: Bounds = "map"
    trend: bool = False

    def __post_init__(self) -> None:
        if self.bounds not in ("map", "restrict"):
            raise ValueError(f"`bounds` must be 'map' or 'restrict'; got {self.bounds!r}.")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"`dropout` must be in [0, 1); got {self.dropout}.")
        if not 0 <= self.ema_decay < 1:
            raise ValueError(f"`ema_decay` must be in [0, 1); got {self.ema_decay}.")
        if self.batch_size < 1:
            raise ValueError(f"`batch_size` must be at least 1; got {self.batch_size}.")
        if not self.learning_rate > 0:
            raise ValueError(f"`learning_rate` must be positive; got {self.learning_rate}.")

    def architecture(self, features: int, context: int, rng: np.random.Generator) -> Architecture:
        """Return the architecture for d features and c context variables; rng draws shuffled orders."""
        orders = None
        if self.shuffle:
            drawn = [rng.permutation(features).tolist() for _ in range(0, self.transforms, 2)]
            orders = tuple(tuple(drawn[t // 2][:: -1 if t % 2 else 1]) for t in range(self.transforms))
        return Architecture(
            self.family, features, context, self.transforms, self.units, self.layers, self.activation,
            self.bins, orders=orders,
        )  # fmt: skip

    @property
    def preprocessing(self) -> tuple[Bounds, bool]:
        """What decides how the simulations are transformed before the training: bounds and trend."""
        return self.bounds, self.trend

    @property
    def cost(self) -> float:
        """Number roughly proportional to the time of an epoch, by which the longest trainings start first."""
        return self.transforms * ((self.layers + 1) * self.units**2 + 1e4) * (1 + 50 / self.batch_size)


def ema_share(decay: float, epoch: int) -> float:
    r"""Return the share of the moving average that stays at the end of an epoch, counted from 1.

    .. math:: \delta \frac{1 - \delta^{t-1}}{1 - \delta^t}

    so that the average is one of epochs alone, in which the parameters before the first have no part.

    Example:
        >>> ema_share(0.8, 1), round(ema_share(0.8, 100), 6)
        (0.0, 0.8)
    """
    return decay * (1 - decay ** (epoch - 1)) / (1 - decay**epoch)


@dataclass(frozen=True)
class Sweep:
    """Ranges (low, high), both included, that the members' hyperparameters are drawn from independently.

    Sizes are uniform over the integers, except ``units``, which like ``learning_rate`` is uniform in its
    logarithm; ``dropout`` is uniform. ``shuffle`` gives every member its own parameter orders: single members
    are no better for it, but more diverse members stack better. ``Sweep()`` itself is the small ReLU networks that
    were the default of version 0.1; today's are :meth:`posterior` and :meth:`likelihood`. To change a range:
    ``dataclasses.replace(Sweep.likelihood(), units=(64, 128))``.

    Example:
        >>> Sweep(units=(20, 20), transforms=(3, 3)).draw("nsf", np.random.default_rng(0)).units
        20
    """

    transforms: tuple[int, int] = (3, 6)
    units: tuple[int, int] = (32, 96)
    layers: tuple[int, int] = (1, 2)
    bins: tuple[int, int] = (6, 12)
    dropout: tuple[float, float] = (0.0, 0.1)
    batch_size: tuple[int, int] = (50, 150)
    learning_rate: tuple[float, float] = (3e-4, 2e-3)
    activation: Activation = "relu"
    shuffle: bool = True
    ema_decay: float = 0.0
    bounds: Bounds = "map"
    trend: bool = False

    def __post_init__(self) -> None:
        for name in ("transforms", "units", "layers", "bins", "dropout", "batch_size", "learning_rate"):
            low, high = getattr(self, name)
            if not low <= high:
                raise ValueError(f"`{name}` must be a range (low, high) with low ≤ high; got ({low}, {high}).")

    @classmethod
    def paper(cls, benchmark: Benchmark = "sbibm") -> Sweep:
        """Return the sweep of the stacking paper (its Table 3): larger tanh networks, more dropout.

        ===================  ===================  =======================
        hyperparameter       ``"sbibm"``          ``"simbig"``
        ===================  ===================  =======================
        ``transforms``       3 to 8               5 to 11
        ``units``            32 to 256            256 to 1024
        ``layers``           2 to 4               2 to 4
        ``dropout``          0 to 0.2             0.1 to 0.2
        ``batch_size``       20 to 100            20 to 100
        ``learning_rate``    1e-5 to 1e-3         5e-6 to 5e-5
        ===================  ===================  =======================

        The paper's members are affine flows (``family="maf"``), trained for a fixed number of epochs on the
        benchmark tasks and, on SimBIG, until the validation loss has not improved for 20 epochs
        (``patience=20``).

        Args:
            benchmark: ``"sbibm"`` for the benchmark tasks, ``"simbig"`` for the galaxy survey.

        Example:
            >>> Sweep.paper("simbig").units
            (256, 1024)
        """
        if benchmark not in PAPER:
            raise ValueError(unknown("benchmark of the paper", benchmark, PAPER))
        return PAPER[benchmark]

    @classmethod
    def posterior(cls) -> tuple[Sweep, ...]:
        """Return the sweeps of posteriors, which members take in turn: the default of :func:`drystone.train`.

        Three members of four are tanh networks without dropout, the fourth a ReLU network with dropout: the first
        are better on most problems, the second on some by much, and both together in a stack. Every second member
        is restricted to bounds, the others map them to infinity: neither is better on all problems.

        Example:
            >>> [(sweep.activation, sweep.bounds) for sweep in Sweep.posterior()]
            [('tanh', 'restrict'), ('relu', 'map'), ('tanh', 'restrict'), ('tanh', 'map')]
        """
        return POSTERIOR

    @classmethod
    def likelihood(cls) -> Sweep:
        """Return the sweep of likelihoods (``target="likelihood"``): small tanh networks, averaged, no dropout.

        They describe what is left of y when linear trends in θ are taken away.

        Example:
            >>> Sweep.likelihood().activation
            'tanh'
        """
        return LIKELIHOOD

    def draw(self, family: Family, rng: np.random.Generator) -> Configuration:
        """Draw one configuration."""

        def integer(low: int, high: int) -> int:
            return int(rng.integers(low, high, endpoint=True))

        def logarithmic(low: float, high: float) -> float:
            return float(np.exp(rng.uniform(np.log(low), np.log(high))))

        return Configuration(
            family=family,
            transforms=integer(*self.transforms),
            units=round(logarithmic(*self.units)),
            layers=integer(*self.layers),
            activation=self.activation,
            bins=integer(*self.bins),
            shuffle=self.shuffle,
            dropout=float(rng.uniform(*self.dropout)),
            batch_size=integer(*self.batch_size),
            learning_rate=logarithmic(*self.learning_rate),
            ema_decay=self.ema_decay,
            bounds=self.bounds,
            trend=self.trend,
        )


TANH = Sweep(
    transforms=(3, 6), units=(32, 96), layers=(1, 2), bins=(6, 12), dropout=(0.0, 0.0), batch_size=(50, 150),
    learning_rate=(1e-3, 3e-3), activation="tanh", ema_decay=0.8,
)  # fmt: skip
RESTRICTED = replace(TANH, bounds="restrict")
RELU = replace(TANH, activation="relu", dropout=(0.1, 0.3))
POSTERIOR = (RESTRICTED, RELU, RESTRICTED, TANH)
LIKELIHOOD = Sweep(
    transforms=(3, 6), units=(36, 80), layers=(2, 2), bins=(4, 8), dropout=(0.0, 0.0), batch_size=(60, 120),
    learning_rate=(1e-3, 2.5e-3), activation="tanh", ema_decay=0.8, trend=True,
)  # fmt: skip
# Hyperparameters that the paper's table does not list are those of sbi, which it used: tanh, ten bins, shuffled
# orders.
PAPER: dict[Benchmark, Sweep] = {
    "sbibm": Sweep(
        transforms=(3, 8), units=(32, 256), layers=(2, 4), bins=(10, 10), dropout=(0.0, 0.2),
        batch_size=(20, 100), learning_rate=(1e-5, 1e-3), activation="tanh",
    ),
    "simbig": Sweep(
        transforms=(5, 11), units=(256, 1024), layers=(2, 4), bins=(10, 10), dropout=(0.1, 0.2),
        batch_size=(20, 100), learning_rate=(5e-6, 5e-5), activation="tanh",
    ),
}  # fmt: skip
