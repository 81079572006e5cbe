"""The paper's tables and figures, and some beyond it; ``python -m experiments NAME`` makes one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from drystone._messages import unknown

if TYPE_CHECKING:
    from experiments.record import Experiment, Record

__all__ = ["NAMES", "TITLES", "Reproduced", "experiment", "reproduce"]

# A module each, with an `EXPERIMENT`; imported when asked for.
TITLES = {
    "toy": "the toy: tension among objectives, and efficiency of hybrids",
    "table1": "best, uniform and stacked: fifty affine flows (MAF) of the paper's sweep, three tasks",
    "table2": "best, uniform and stacked: fifty spline flows (NSF), five tasks",
    "epochs": "SLCP: log density against epochs of training",
    "stacking_size": "SLCP: log density against the number of stacking simulations",
    "ranks": "rank statistics before and after stacking, five tasks",
    "gap": "divergence from the exact posterior in nats, by method, five tasks",
    "local": "local weights against global ones, five tasks",
    "c2st": "classifier two-sample tests against reference posteriors, five tasks",
    "crude": "many crude members against a few careful ones, at equal work",
    "tensions": "SLCP: every form × score, judged by every metric",
    "simbig": "mini-SimBIG: best, uniform and stacked, and ranks before and after",
}
NAMES = tuple(TITLES)


@dataclass(frozen=True)
class Reproduced:
    """What came of an experiment.

    Attributes:
        record: The numbers, with their configuration.
        table: The same as Markdown.
        files: What was written: the record as JSON, and figures.
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


def reproduce(
    name: str,
    *,
    quick: bool = False,
    directory: str | os.PathLike[str] = "runs/paper",
    workers: int | None = None,
    seed: int = 0,
) -> Reproduced:
    """Run an experiment; continue one that was interrupted.

    Args:
        name: Of the experiment; see ``TITLES``.
        quick: A small version that takes a minute or two, to see that everything works.
        directory: Where members, tables and results are kept. Experiments share members, so give all the same.
        workers: Cores to use; None for all.
        seed: Decides everything random.

    Returns:
        The numbers, and the files written: ``results/NAME.json`` and ``figures/*.png`` in the directory.
    """
    from drystone._parallel import cores
    from experiments.ensembles import Plan

    found, directory = experiment(name), Path(directory)
    plan = Plan(directory, quick, workers or cores(), seed)
    record = found.record(name, plan)
    path = directory / ("quick" if quick else "results") / f"{name}.json"
    record.save(path)
    files = (path, *found.draw(record, directory / ("quick" if quick else "figures")))
    return Reproduced(record, found.table(record.result), files)
