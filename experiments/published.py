"""Every number that the paper (Yao, Régaldo-Saint Blancard & Domke 2024) prints, to stand beside ours.

They are shown in tables, labelled as the paper's, and never enter a result. The authors' protocol is not quite
ours: each of their members is trained on 10,000 simulations of its own, all of ours on the same 10,000; "best" is
their member with the best validation log density throughout, ours the best on the stacking simulations in the
metric of the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = [
    "C2ST_10K",
    "C2ST_COST",
    "FIGURE1",
    "FIGURE3",
    "TABLE1",
    "TABLE2",
    "TABLE3",
    "TABLE4",
    "TOY",
    "Printed",
    "published",
]


class Printed(NamedTuple):
    """A number as the paper prints it: its decimals, and its standard error where there is one."""

    value: float
    se: float | None = None
    decimals: int = 2


Methods = dict[str, Printed]


def _row(best: float, uniform: float, stacked: float, decimals: int = 2) -> Methods:
    values = {"best": best, "uniform": uniform, "stacked": stacked}
    return {method: Printed(value, decimals=decimals) for method, value in values.items()}


def _with_errors(best: tuple[float, float], uniform: tuple[float, float], stacked: tuple[float, float]) -> Methods:
    return {"best": Printed(*best), "uniform": Printed(*uniform), "stacked": Printed(*stacked)}


# Table 1: (form, score) → the section that describes the cell. The others are blank in the paper.
TABLE1 = {
    ("Mixture", "LogScore"): "2.1",
    ("Mixture", "RankCvM"): "2.2",
    ("Mixture", "MomentScore"): "2.5",
    ("SampleAggregation", "JensenShannon"): "2.3",
    ("SampleAggregation", "MomentScore"): "2.5",
    ("IntervalAggregation", "IntervalScore"): "2.4",
}

# Table 2, affine flows: task → metric → method. Fifty members, a hundred for SimBIG. Coverage errors of 90 %
# intervals are in per cent.
TABLE2: dict[str, dict[str, Methods]] = {
    "two_moons": {
        "log density": _row(2.84, 2.07, 2.88),
        "coverage error": _row(3.25, 5.25, 2.75),
        "moment error": _row(-1.72, -1.41, -1.73),
    },
    "slcp": {
        "log density": _row(-5.60, -6.15, -5.24),
        "coverage error": _row(3.76, 5.18, 1.16),
        "moment error": _row(1.03, 1.25, 0.93),
    },
    "sir": {
        "log density": _row(7.57, 7.01, 7.65),
        "coverage error": _row(2.90, 9.35, 1.55),
        "moment error": _row(-8.86, -5.19, -8.92),
    },
    "simbig": {
        "log density": _row(15.6, 16.7, 17.0, decimals=1),
        "coverage error": _row(6.08, 5.85, 4.26),
        "moment error": _row(-3.64, -3.71, -3.79),
    },
}


class Task(NamedTuple):
    """Sizes of a task of Table 2."""

    parameters: int
    data: int
    training: int
    members: int


SIZES2 = {
    "two_moons": Task(2, 2, 10_000, 50),
    "slcp": Task(5, 8, 10_000, 50),
    "sir": Task(2, 10, 10_000, 50),
    "simbig": Task(14, 3_677, 18_000, 100),
}
STACKING_ROWS = 1_000


class Range(NamedTuple):
    """Ends of a hyperparameter's range, and the distribution between them."""

    low: float
    high: float
    distribution: str = "uniform"


# Table 3, the sweep: benchmark → hyperparameter, named as in drystone.Sweep.
TABLE3: dict[str, dict[str, Range]] = {
    "sbibm": {
        "transforms": Range(3, 8),
        "units": Range(32, 256, "log-uniform"),
        "layers": Range(2, 4),
        "dropout": Range(0, 0.2),
        "batch_size": Range(20, 100),
        "learning_rate": Range(1e-5, 1e-3, "log-uniform"),
    },
    "simbig": {
        "transforms": Range(5, 11),
        "units": Range(256, 1024, "log-uniform"),
        "layers": Range(2, 4),
        "dropout": Range(0.1, 0.2),
        "batch_size": Range(20, 100),
        "learning_rate": Range(5e-6, 5e-5, "log-uniform"),
    },
}
# Early stopping after so many epochs without a better validation loss; a fixed number of epochs for sbibm.
SIMBIG_PATIENCE = 20

# Table 4, fifty spline flows: task → metric → method.
TABLE4: dict[str, dict[str, Methods]] = {
    "two_moons": {
        "log density": _with_errors((3.57, 0.01), (3.54, 0.01), (3.66, 0.01)),
        "moment error": _with_errors((-1.72, 0.02), (-1.72, 0.02), (-1.73, 0.02)),
    },
    "slcp": {
        "log density": _with_errors((-4.44, 0.03), (-4.38, 0.02), (-4.06, 0.03)),
        "moment error": _with_errors((0.86, 0.02), (0.99, 0.01), (0.75, 0.01)),
    },
    "sir": {
        "log density": _with_errors((7.78, 0.02), (7.77, 0.02), (7.88, 0.02)),
        "moment error": _with_errors((-7.02, 0.02), (-6.99, 0.01), (-8.49, 0.02)),
    },
    "gaussian_mixture": {
        "log density": _with_errors((-1.24, 0.02), (-1.16, 0.02), (-1.13, 0.02)),
        "moment error": _with_errors((0.28, 0.01), (0.30, 0.01), (0.26, 0.01)),
    },
    "lotka_volterra": {
        "log density": _with_errors((12.94, 0.02), (12.69, 0.02), (13.47, 0.02)),
        "moment error": _with_errors((-6.58, 0.03), (-5.52, 0.01), (-6.91, 0.01)),
    },
}


@dataclass(frozen=True)
class Figure1:
    """Numbers of figure 1: SimBIG, held-out simulations.

    Attributes:
        members: Number of neural posteriors.
        spread: Range of their expected log densities, in nats.
        gain: Log density of the stack over that of the best of them, in nats.
    """

    members: int = 1_000
    spread: float = 1.7
    gain: float = 1.4


@dataclass(frozen=True)
class Figure3:
    """Numbers of figure 3: the toy's four posteriors, of equal divergence from the truth.

    Attributes:
        bias: Largest and smallest bias of a member.
        coverage: Lowest and highest real coverage of a member's 95 % interval.
    """

    bias: tuple[float, float] = (1.0, -1.0)
    coverage: tuple[float, float] = (0.73, 1.0)


@dataclass(frozen=True)
class Toy:
    """Settings of the toy (App. D.1), whose true posterior is N(y, 1).

    Attributes:
        members: Bias and standard deviation of each member.
        hybrid: λ, which multiplies rank moments that are not averaged over the simulations.
        rank_smoothing: Width ε of the smoothed indicator of ranks.
        interval_smoothing: The same for intervals, in units of the shortest one.
    """

    members: tuple[tuple[float, float], ...] = ((1.0, 1.0), (-1.0, 1.0), (0.0, 0.56), (0.5, 2.45))
    hybrid: float = 100.0
    rank_smoothing: float = 1 / 100
    interval_smoothing: float = 1 / 1000


FIGURE1, FIGURE3, TOY = Figure1(), Figure3(), Toy()
# Figure 6: epochs of training after which the stack beats the best member of so many.
FIGURE6_EPOCHS = (50, 150)

# Accuracy of the classifier test with 10,000 simulations and 10,000 draws, mean of ten observations, by method and
# task: sbibm's own results, and two transformers trained on GPUs, read off the figure of GenSBI's benchmark.
C2ST_10K: dict[str, dict[str, float]] = {
    "NPE": {"two_moons": 0.606, "slcp": 0.901, "sir": 0.680, "gaussian_mixture": 0.615, "lotka_volterra": 0.997},
    "NLE": {"two_moons": 0.713, "slcp": 0.771, "sir": 0.748, "gaussian_mixture": 0.723, "lotka_volterra": 0.956},
    "SNPE": {"two_moons": 0.554, "slcp": 0.845, "sir": 0.561, "gaussian_mixture": 0.551, "lotka_volterra": 0.953},
    "SNLE": {"two_moons": 0.571, "slcp": 0.713, "sir": 0.745, "gaussian_mixture": 0.685, "lotka_volterra": 0.738},
    "Simformer": {"two_moons": 0.52, "slcp": 0.645, "gaussian_mixture": 0.515},
    "GenSBI": {"two_moons": 0.525, "slcp": 0.655, "gaussian_mixture": 0.51},
}

# What they take. Sequential methods spend their simulations on one observation.
C2ST_COST = {
    "NPE": "one training",
    "NLE": "one training, and MCMC for each observation",
    "SNPE": "ten rounds for each observation",
    "SNLE": "ten rounds and MCMC for each observation",
    "Simformer": "a transformer on a GPU",
    "GenSBI": "a transformer on a GPU",
}

TABLES: dict[str, dict[str, dict[str, Methods]]] = {"maf": TABLE2, "nsf": TABLE4}


def published(family: str, task: str, metric: str) -> Methods:
    """Return a row of Table 2 ("maf") or 4 ("nsf") by method; empty if the paper has no such row."""
    return TABLES.get(family, {}).get(task, {}).get(metric, {})
