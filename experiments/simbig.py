"""The mini-SimBIG survey: 14 parameters, 3,677 summaries, no tractable likelihood.

It has the shape of the paper's cosmological task, not its contents, so the paper's numbers are not comparable. All
members see the summaries through one compression fitted to the training simulations.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drystone._files import replacing
from drystone.simulation.simulate import simulate
from drystone.table import Table
from drystone.tabulation.tabulate import tabulate
from drystone.training.sweep import Sweep
from drystone.training.train import train
from experiments.compression import compress
from experiments.ensembles import Array, Plan, of_both
from experiments.figures import rank_panels
from experiments.markdown import estimate, grid
from experiments.minisimbig import MiniSimBIG
from experiments.ranks import rank_curves, rank_rows
from experiments.record import Experiment
from experiments.rivals import mean
from experiments.scoreboard import METHODS, gain, scoreboard

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "SETTING", "Survey"]


@dataclass(frozen=True)
class Survey:
    """Sizes of the experiment.

    Attributes:
        cells: Of the simulated box, along each side.
        training: Simulations all members (and the compression) are trained on.
        stacking: Simulations the weights are fitted to.
        test: Simulations everything is measured on.
        components: Principal components shown to the members beside the fourteen regressions.
        folds: Of the regressions.
        members: How many, K.
        epochs: The most epochs of training.
        draws: Draws a member and simulation.
        sweep: What the members' hyperparameters are drawn from.
    """

    cells: int = 64
    training: int = 18_000
    stacking: int = 1_000
    test: int = 1_000
    components: int = 30
    folds: int = 5
    members: int = 100
    epochs: int = 1000
    draws: int = 250
    # With many inputs and weak constraints flows overfit within some epochs: more dropout than for the others.
    sweep: Sweep = field(default_factory=lambda: replace(Sweep(), dropout=(0.0, 0.3)))


SETTING = Survey()
QUICK = Survey(
    cells=32, training=300, stacking=100, test=100, components=5, folds=2, members=4, epochs=5, draws=50,
    sweep=Sweep(units=(16, 24), transforms=(2, 3)),
)  # fmt: skip

Sets = dict[str, tuple[Array, Array]]


def folder(plan: Plan) -> Path:
    """Return where the compressed data, the members and their tables are kept."""
    return plan.directory / "ensembles" / f"nsf-minisimbig{'-quick' if plan.quick else ''}-seed{plan.seed}"


def compressed(survey: Survey, plan: Plan) -> Sets:
    """Return parameters and compressed data for training, stacking and test, from disk if they are there."""
    path = folder(plan) / "compressed.npz"
    if not path.exists():
        task, sizes = MiniSimBIG(n=survey.cells), (survey.training, survey.stacking, survey.test)
        # In a folder of their own, because they take an hour and may have been made before.
        made = plan.directory / ("minisimbig-quick" if plan.quick else "minisimbig")
        theta, y = simulate(task, n=sum(sizes), seed=plan.seed, workers=plan.workers, directory=made)
        theta, y = (np.split(rows, np.cumsum(sizes)[:-1]) for rows in (theta, y))
        fitted = compress(
            theta[0], y[0], task.prior, components=survey.components, folds=survey.folds, seed=plan.seed
        )
        shown = [fitted.training, fitted(y[1]), fitted(y[2])]
        arrays = {f"theta{i}": theta[i] for i in range(3)} | {f"y{i}": shown[i] for i in range(3)}
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
    with np.load(path) as file:
        return {use: (file[f"theta{i}"], file[f"y{i}"]) for i, use in enumerate(("training", "stacking", "test"))}


def tables(survey: Survey, plan: Plan, sets: Sets) -> tuple[Table, Table]:
    """Return the members on the stacking and on the test simulations."""
    task = MiniSimBIG(n=survey.cells)
    theta, y = sets["training"]
    ensemble = train(
        theta, y, members=survey.members, family="nsf", sweep=survey.sweep, seed=plan.seed, prior=task.prior,
        workers=plan.workers, directory=folder(plan) / "members", epochs=survey.epochs,
    )  # fmt: skip
    return of_both(*(
        tabulate(
            ensemble, *sets[use], draws=survey.draws, seed=plan.seed, workers=plan.workers,
            directory=folder(plan) / use, parameters=task.parameters,
        )
        for use in ("stacking", "test")
    ))  # fmt: skip


def run(plan: Plan) -> dict[str, Any]:
    """Return the scoreboard, the prior's log density, and rank statistics."""
    survey = QUICK if plan.quick else SETTING
    sets = compressed(survey, plan)
    validation, test = tables(survey, plan, sets)
    prior = MiniSimBIG(n=survey.cells).prior.log_prob(sets["test"][0])
    return {
        "config": asdict(survey), "summaries": MiniSimBIG(n=survey.cells).y_dim, "members": test.K,
        "metrics": scoreboard(validation, test), "prior": mean(prior),
        "ranks": rank_rows(validation, test), "curves": rank_curves(validation, test),
    }  # fmt: skip


def table(result: dict[str, Any]) -> str:
    """Return one row per metric."""
    rows = []
    for metric, methods in result["metrics"].items():
        rows.append([metric, *(estimate(methods[m]) for m in METHODS), estimate(gain(methods, "gain"), "+")])
    ranks = result["ranks"]
    rows.append(["rank distance D", *(estimate(ranks[m]) for m in METHODS), ""])
    return grid(["metric", *METHODS, "gain over best"], rows)


def draw(result: dict[str, Any]) -> Figure:
    """Draw the rank distributions, a panel a parameter."""
    return rank_panels(result["curves"])


EXPERIMENT = Experiment(run, table, {"simbig_ranks": draw})
