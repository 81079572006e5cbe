"""The last row of Table 2 and figure 7, on mini-SimBIG: 14 parameters, 3,677 summaries, no tractable likelihood.

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
from drystone.training.member import TrainedMember
from drystone.training.sweep import Configuration, Family, Sweep
from drystone.training.train import train
from experiments.compression import compress
from experiments.ensembles import Array, Plan, of_both
from experiments.figures import rank_panels
from experiments.markdown import estimate, grid
from experiments.minisimbig import MiniSimBIG
from experiments.ranks import rank_curves, rank_rows
from experiments.record import Experiment
from experiments.rivals import mean
from experiments.scoreboard import METHODS, PAPER_COLUMN, PER_CENT, gain, measured, printed, scoreboard

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "SETTING", "Survey"]


@dataclass(frozen=True)
class Survey:
    """Settings of the experiment.

    Attributes:
        cells: Cells of the simulated box along each side.
        training: Number of simulations that all members, and the compression, are trained on.
        stacking: Number of simulations that the weights are fitted to.
        test: Number of simulations that everything is measured on.
        components: Principal components shown to the members beside the fourteen regressions.
        folds: Folds of the regressions.
        members: Number of members, K.
        minutes: Train as many of them as finish within this time, the fastest first; None for all.
        epochs: The most epochs of training.
        patience: Epochs without a better validation loss after which training stops; None never to stop early.
        lr_drops: How often training goes on with a lower learning rate instead of stopping; None for the default.
        snapshots: Epochs after which a copy of each member is taken; the copies are then the members.
        draws: Draws per member and simulation.
        family: Family of the members' flows.
        sweep: Ranges that the members' hyperparameters are drawn from.
        label: Tells surveys apart on disk.
    """

    cells: int = 64
    training: int = 18_000
    stacking: int = 1_000
    test: int = 1_000
    components: int = 30
    folds: int = 5
    members: int = 100
    minutes: float | None = None
    epochs: int = 1000
    patience: int | None = 20
    lr_drops: int | None = None
    snapshots: tuple[int, ...] = ()
    draws: int = 250
    family: Family = "nsf"
    # With many inputs and weak constraints flows overfit within some epochs: more dropout than for the others.
    sweep: Sweep = field(default_factory=lambda: replace(Sweep(), dropout=(0.0, 0.3)))
    label: str = ""

    def under(self, plan: Plan) -> Survey:
        """Return the survey itself, or a version of a few seconds if the plan is quick."""
        if not plan.quick:
            return self
        return replace(
            self, cells=32, training=300, stacking=100, test=100, components=5, folds=2, members=4, epochs=5,
            draws=50, sweep=Sweep(units=(16, 24), transforms=(2, 3)),
            snapshots=tuple(epoch for epoch in self.snapshots if epoch <= 5),
        )  # fmt: skip

    def folder(self, plan: Plan) -> Path:
        """Return the directory of the compressed data, the members and their tables."""
        parts = (self.family, "minisimbig", self.label, "quick" if plan.quick else "", f"seed{plan.seed}")
        return plan.directory / "ensembles" / "-".join(part for part in parts if part)

    def simulations(self, plan: Plan) -> Path:
        """Return the directory of the simulations, which surveys of the same sizes share."""
        parts = ("minisimbig", "" if self.cells == 64 else str(self.cells), "quick" if plan.quick else "")
        return plan.directory / "-".join(part for part in parts if part)


SETTING = Survey()
# The paper's own sweep (Table 3). A hundred of these networks would take days.
PAPER = replace(
    SETTING, family="maf", sweep=Sweep.paper("simbig"), patience=20, lr_drops=0, minutes=110, label="paper"
)

Sets = dict[str, tuple[Array, Array]]


def compressed(survey: Survey, plan: Plan) -> Sets:
    """Return parameters and compressed data for training, stacking and test, from disk if they are there."""
    path = survey.folder(plan) / "compressed.npz"
    if not path.exists():
        task, sizes = MiniSimBIG(n=survey.cells), (survey.training, survey.stacking, survey.test)
        theta, y = simulate(
            task, n=sum(sizes), seed=plan.seed, workers=plan.workers, directory=survey.simulations(plan)
        )
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


def posteriors(survey: Survey, plan: Plan, sets: Sets) -> dict[str, TrainedMember]:
    """Return the members by name, trained as far as they are not on disk; the fastest first if time is limited."""
    sweep: Sweep | list[Configuration] = survey.sweep
    if survey.minutes is not None:
        rng = np.random.default_rng(plan.seed)
        drawn = (survey.sweep.draw(survey.family, rng) for _ in range(survey.members))
        sweep = sorted(drawn, key=lambda configuration: configuration.cost)
    ensemble = train(
        *sets["training"], members=survey.members, minutes=survey.minutes, family=survey.family,
        sweep=sweep, seed=plan.seed, prior=MiniSimBIG.prior, workers=plan.workers,
        directory=survey.folder(plan) / "members",
        epochs=survey.epochs, patience=survey.patience, lr_drops=survey.lr_drops, snapshots=survey.snapshots,
    )  # fmt: skip
    if not survey.snapshots:
        return dict(zip(ensemble.names, ensemble, strict=True))
    return {f"{m.name} after {epoch}": m.snapshot(epoch) for epoch in survey.snapshots for m in ensemble}


def tables(survey: Survey, plan: Plan, sets: Sets) -> tuple[Table, Table]:
    """Return the members on the stacking and on the test simulations."""
    named = posteriors(survey, plan, sets)
    return of_both(*(
        tabulate(
            named, *sets[use], draws=survey.draws, seed=plan.seed, workers=plan.workers,
            directory=survey.folder(plan) / use, parameters=MiniSimBIG.parameters,
        )
        for use in ("stacking", "test")
    ))  # fmt: skip


def run(plan: Plan, setting: Survey = SETTING) -> dict[str, Any]:
    """Return the scoreboard, the prior's log density, and rank statistics."""
    survey = setting.under(plan)
    sets = compressed(survey, plan)
    validation, test = tables(survey, plan, sets)
    prior = MiniSimBIG.prior.log_prob(sets["test"][0])
    return {
        "config": asdict(survey), "summaries": MiniSimBIG(n=survey.cells).y_dim, "members": test.K,
        "metrics": scoreboard(validation, test), "prior": mean(prior),
        "ranks": rank_rows(validation, test), "curves": rank_curves(validation, test),
    }  # fmt: skip


def table(result: dict[str, Any]) -> str:
    """Return one row per metric, with the paper's numbers of the survey that this one stands in for."""
    rows = []
    for metric, methods in result["metrics"].items():
        ours = [measured(metric, methods[method]) for method in METHODS]
        difference = measured(metric, gain(methods, "gain"), "+")
        rows.append([PER_CENT.get(metric, metric), *ours, difference, printed("maf", "simbig", metric)])
    ranks = result["ranks"]
    rows.append(["rank distance D", *(estimate(ranks[method]) for method in METHODS), "", ""])
    return grid(["metric", *METHODS, "gain over best", f"SimBIG, {PAPER_COLUMN}"], rows)


def draw(result: dict[str, Any]) -> Figure:
    """Draw the rank distributions, one panel per parameter."""
    return rank_panels(result["curves"])


EXPERIMENT = Experiment(run, table, {"simbig_ranks": draw})
