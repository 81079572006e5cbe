"""The paper's tables and figures, and some beyond it; ``python -m experiments NAME`` makes one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from drystone._messages import unknown

if TYPE_CHECKING:
    from experiments.record import Experiment, Record

__all__ = ["NAMES", "PAPER", "TITLES", "Outcome", "experiment", "run"]

# One module per name, with an `EXPERIMENT`; imported when it is run.
TITLES = {
    "table1": "forms × scores: which cells exist, in the paper and here",
    "table2": "best, uniform and stacked: fifty affine flows (MAF) of the paper's sweep, three tasks",
    "table2_fresh": "the same where each flow has 10,000 simulations of its own, as in the paper",
    "table3": "the ranges of the paper's sweep",
    "table4": "best, uniform and stacked: fifty spline flows (NSF), five tasks",
    "figure1": "mini-SimBIG: rank histograms of four members, and the log densities of all",
    "figure5": "exact, best and stacked posterior of one simulation, four tasks",
    "toy": "the toy: tension among objectives, and efficiency of hybrids",
    "epochs": "SLCP: log density against epochs of training",
    "stacking_size": "SLCP: log density against the number of stacking simulations",
    "simbig": "mini-SimBIG: best, uniform and stacked, and ranks before and after",
    "simbig_maf": "the same with the paper's sweep of wide affine flows, as far as two hours allow",
    "ranks": "rank statistics before and after stacking, five tasks",
    "gap": "divergence from the exact posterior in nats, by method, five tasks",
    "truth": "divergence from the exact posterior with every kind of member, five tasks",
    "truth_c2st": "classifier two-sample tests of ten thousand draws with every kind of member, five tasks",
    "ablation": "divergence from the exact posterior against the number of simulations, by kind of member",
    "others": "problems of other people without exact posteriors: Ricker's map and g-and-k",
    "local": "local weights against global ones, five tasks",
    "truth_local": "the same where posteriors and likelihoods are members",
    "c2st": "classifier two-sample tests against reference posteriors, five tasks",
    "crude": "many crude members against a few careful ones, at equal work",
    "crude_likelihoods": "the same for likelihoods",
    "tensions": "SLCP: every form × score, judged by every metric",
}
NAMES = tuple(TITLES)

# What the paper numbers → the experiments that make it. Figure 2 is a diagram of the workflow.
PAPER = {
    "table1": ("table1",),
    "table2": ("table2", "simbig"),
    "table3": ("table3",),
    "table4": ("table4",),
    "figure1": ("figure1",),
    "figure3": ("toy",),
    "figure4": ("toy",),
    "figure5": ("figure5",),
    "figure6": ("epochs", "stacking_size"),
    "figure7": ("simbig",),
}


@dataclass(frozen=True)
class Outcome:
    """An experiment that was run.

    Attributes:
        record: The numbers, with their configuration.
        table: The numbers as Markdown.
        files: The files that were written: the record as JSON, and figures.
    """

    record: Record
    table: str
    files: tuple[Path, ...]

    def __str__(self) -> str:
        return "\n".join([self.table, "", *(f"wrote {path}" for path in self.files)])


def experiment(name: str) -> Experiment:
    """Return an experiment by name."""
    if name not in NAMES:
        raise ValueError(unknown("experiment", name, NAMES))
    return import_module(f"experiments.{name}").EXPERIMENT


def run(
    name: str,
    *,
    quick: bool = False,
    directory: str | os.PathLike[str] = "runs/paper",
    workers: int | None = None,
    seed: int = 0,
    tasks: Sequence[str] = (),
    seeds: int | None = None,
) -> Outcome:
    """Run an experiment; continue one that was interrupted.

    Args:
        name: Name of the experiment; see ``TITLES``.
        quick: Run a small version that takes a minute or two, to see that everything works.
        directory: Where members, tables and results are stored. Experiments share members, so that all are best
            run in the same directory.
        workers: Number of cores to use; None for all.
        seed: Seed of everything random; the first one of an experiment with several.
        tasks: The tasks to run it for; empty for all.
        seeds: How many seeds, of an experiment with several; None for all.

    Returns:
        The numbers, and the files written: ``results/NAME.json`` and ``figures/*.png`` in the directory
        (``quick/`` holds both if ``quick``). A part, of some tasks or seeds alone, is added to the results that
        are there, and draws nothing.
    """
    from drystone._files import working_in
    from drystone._parallel import cores
    from experiments.ensembles import Plan
    from experiments.record import Record

    chosen, directory = experiment(name), Path(directory)
    if tasks and not chosen.tasks:
        raise ValueError(f"{name} is not made of tasks that can be run alone.")
    for task in tasks:
        if task not in chosen.tasks:
            raise ValueError(unknown(f"task of {name}", task, chosen.tasks))
    if seeds is not None and not 1 <= seeds <= chosen.seeds:
        raise ValueError(f"`seeds` must be 1 to {chosen.seeds}, as many as {name} has; got {seeds}.")
    record = chosen.record(name, Plan(directory, quick, workers or cores(), seed, tuple(tasks), seeds))
    path, shown = directory / ("quick" if quick else "results") / f"{name}.json", chosen.table(record.result)
    if tasks or seeds is not None:
        with working_in(path.parent):  # other parts may end at this moment
            (chosen.add(Record.load(path), record) if path.exists() else record).save(path)
        return Outcome(record, shown, (path,))
    record.save(path)
    return Outcome(record, shown, (path, *chosen.draw(record, directory / ("quick" if quick else "figures"))))
