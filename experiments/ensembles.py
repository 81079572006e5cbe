"""Ensembles that the experiments share: trained once per task and setting, stored on disk with their tables.

All members of a setting are trained on the same simulations, or each on its own as in the paper; the weights are
fitted to others, and every number is measured on a third set. Results that are on disk are read, so the
experiments can be run in any order, and again after an interruption.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from drystone import tasks
from drystone._files import replacing
from drystone._parallel import cores, map_ordered, worker_pool
from drystone.simulation.simulate import simulate
from drystone.table import Table
from drystone.tabulation.tabulate import tabulate
from drystone.training.ensemble import Ensemble
from drystone.training.sweep import Family, Sweep
from drystone.training.train import train

__all__ = ["SHOWN", "TASKS", "Plan", "Setting", "Use", "exact", "members", "of_both", "simulations", "tables"]

Array = NDArray[np.floating]
Use = Literal["training", "stacking", "test"]

TASKS = ("two_moons", "slcp", "sir", "gaussian_mixture", "lotka_volterra")


def _counts(y: Array) -> Array:
    """Return counts and their logarithms: an epidemic's peak is linear in θ, its tails are exponential."""
    return np.concatenate([y / 1000, np.log1p(y)], axis=-1)


# Transforms of y before training, where there is one; the data of Lotka–Volterra span thirteen decades.
SHOWN: dict[str, Callable[[Array], Array]] = {"lotka_volterra": np.log, "sir": _counts}

# Exact posteriors that need sampling take a second per data set: as many test rows as some minutes allow.
EXACT_ROWS = {"sir": 500, "lotka_volterra": 250}
EXACT_BLOCK = 25
# Of simulations that one member alone is trained on.
FRESH_SEED = 50_000


@dataclass(frozen=True)
class Plan:
    """Size and place of a run.

    Attributes:
        directory: Directory of members, tables and results.
        quick: Whether to run a small version that takes a minute or two, to see that everything works.
        workers: Number of cores to use.
        seed: Seed of everything random; the first one of an experiment with several.
        tasks: The tasks to run it for; empty for all.
        seeds: How many seeds, of an experiment with several; None for all.
    """

    directory: Path
    quick: bool = False
    workers: int = cores()
    seed: int = 0
    tasks: tuple[str, ...] = ()
    seeds: int | None = None

    def includes(self, task: str) -> bool:
        """Return whether a task is to be run."""
        return not self.tasks or task in self.tasks


@dataclass(frozen=True)
class Setting:
    """An ensemble and the simulations it is trained, stacked and tested with.

    Attributes:
        task: Name of the task.
        family: Family of the members' flows.
        sweep: Ranges that their hyperparameters are drawn from.
        members: Number of members, K.
        training: Number of simulations that all members are trained on.
        fresh: Whether each member has so many simulations of its own, as in the paper.
        stacking: Number of simulations that the weights are fitted to.
        test: Number of simulations that everything is measured on.
        epochs: The most epochs of training.
        patience: Stop after so many epochs without a better validation loss; None never to stop early.
        cuts: How often, before stopping, the learning rate is cut instead.
        bounded: Whether the members keep to the prior's support.
        snapshots: Epochs after which a copy of each member is kept.
        draws: Draws per member and simulation, for ranks, moments and quantiles.
        label: Tells settings of the same family and task apart on disk.
    """

    task: str
    family: Family = "nsf"
    sweep: Sweep = field(default_factory=Sweep)
    members: int = 50
    training: int = 10_000
    fresh: bool = False
    stacking: int = 1_000
    test: int = 2_000
    epochs: int = 1000
    patience: int | None = 20
    cuts: int = 0
    bounded: bool = True
    snapshots: tuple[int, ...] = ()
    draws: int = 1_000
    label: str = ""

    def small(self) -> Setting:
        """Return a version of a few seconds."""
        low, _ = self.sweep.units
        sweep = replace(self.sweep, units=(low, low), transforms=(2, 3), layers=(1, 1), learning_rate=(1e-3, 2e-3))
        return replace(
            self, sweep=sweep, members=min(self.members, 8), training=2_000, stacking=300, test=400,
            epochs=min(self.epochs, 12), snapshots=tuple(e for e in self.snapshots if e <= 12), draws=100,
        )  # fmt: skip

    def under(self, plan: Plan) -> Setting:
        """Return the setting itself, or its small version if the plan is quick."""
        return self.small() if plan.quick else self

    def folder(self, plan: Plan) -> Path:
        """Return the directory of the members and their tables."""
        parts = (self.family, self.task, self.label, "quick" if plan.quick else "", f"seed{plan.seed}")
        return plan.directory / "ensembles" / "-".join(part for part in parts if part)


def simulations(setting: Setting, plan: Plan, use: Use) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return parameters (N, d) and untransformed data (N, m)."""
    # Far from the small seeds with which the sweeps were chosen.
    seed = 1000 + 10 * plan.seed + ("training", "stacking", "test").index(use)
    theta, y = simulate(tasks.get(setting.task), n=getattr(setting.under(plan), use), seed=seed)
    return theta, y


def shown(task: str, y: Array) -> Array:
    """Return data y (N, m) as the networks see them."""
    return SHOWN.get(task, np.asarray)(y)


def members(setting: Setting, plan: Plan) -> Ensemble:
    """Return the ensemble, trained as far as it is not on disk."""
    if setting.fresh:
        K = setting.under(plan).members
        with worker_pool(workers=1 if plan.quick else plan.workers) as pool:
            alone = map_ordered(range(K), lambda k: pool.submit(_fresh_member, setting, plan, k), pool.queue_depth)
            return Ensemble([member for (member,) in alone])
    theta, y = simulations(setting, plan, "training")
    return _trained(setting, plan, theta, y, setting.under(plan).members, plan.seed, "", plan.workers)


def _fresh_member(setting: Setting, plan: Plan, k: int) -> Ensemble:
    """Return a member, drawn from the sweep by a seed of its own, that was trained on simulations of its own."""
    seed = FRESH_SEED + 1000 * plan.seed + k
    theta, y = simulate(tasks.get(setting.task), n=setting.under(plan).training, seed=seed, workers=1)
    return _trained(setting, plan, theta, y, 1, seed, f"{k:03d}-", 1)


def _trained(
    setting: Setting, plan: Plan, theta: Array, y: Array, members: int, seed: int, prefix: str, workers: int
) -> Ensemble:
    at = setting.under(plan)
    return train(
        theta, shown(at.task, y), members=members, family=at.family, sweep=at.sweep, seed=seed, prefix=prefix,
        prior=tasks.get(at.task).prior if at.bounded else None, workers=workers,
        directory=setting.folder(plan) / f"{prefix}members", epochs=at.epochs, patience=at.patience,
        lr_drops=at.cuts, snapshots=at.snapshots,
    )  # fmt: skip


def tables(setting: Setting, plan: Plan) -> tuple[Table, Table]:
    """Return the members on the stacking and on the test simulations: densities, ranks, moments, intervals."""
    ensemble = members(setting, plan)
    return of_both(*(tabulated(ensemble, setting, plan, use) for use in ("stacking", "test")))


def of_both(validation: Table, test: Table) -> tuple[Table, Table]:
    """Return both tables without the members that failed on one of them."""
    names = [name for name in validation.names if name in test.names]
    return validation.select(members=names), test.select(members=names)


def tabulated(ensemble: Ensemble, setting: Setting, plan: Plan, use: Use) -> Table:
    """Return a table of the members on the setting's simulations for one use."""
    theta, y = simulations(setting, plan, use)
    return tabulate(
        ensemble, theta, shown(setting.task, y), draws=setting.under(plan).draws, seed=plan.seed,
        # Starting processes takes longer than a quick table.
        workers=1 if plan.quick else plan.workers, directory=setting.folder(plan) / use,
        parameters=tasks.get(setting.task).parameters,
    )  # fmt: skip


def exact(setting: Setting, plan: Plan) -> NDArray[np.float64]:
    """Return the exact posterior's log density at the first test simulations, (R,); no mean is higher."""
    task = tasks.get(setting.task)
    theta, y = simulations(setting, plan, "test")
    rows = min(len(theta), 20 if plan.quick else EXACT_ROWS.get(task.name, len(theta)))
    folder = plan.directory / "exact" / f"{task.name}-seed{plan.seed}"
    ends = {start: min(start + EXACT_BLOCK, rows) for start in range(0, rows, EXACT_BLOCK)}
    paths = {start: folder / f"{start}-{end}.npy" for start, end in ends.items()}
    missing = [(theta[a : ends[a]], y[a : ends[a]], path) for a, path in paths.items() if not path.exists()]
    with worker_pool(workers=plan.workers if missing and not plan.quick else 1) as pool:
        for _ in map_ordered(missing, lambda job: pool.submit(_write_exact, task, *job), pool.queue_depth):
            pass
    return np.concatenate([np.load(path) for path in paths.values()])


def _write_exact(task: tasks.Task, theta: NDArray[np.float64], y: NDArray[np.float64], path: Path) -> None:
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, task.log_posterior(theta, y))
