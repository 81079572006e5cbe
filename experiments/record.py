"""An experiment, and the record of one that was run."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drystone import __version__
from drystone._files import replacing
from experiments.ensembles import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Experiment", "Record"]

# The libraries whose version may move a digit.
VERSIONS = ("numpy", "scipy", "torch", "numba")


@dataclass(frozen=True)
class Record:
    """An experiment that was run: everything its tables and figures are made from.

    Attributes:
        name: Name of the experiment.
        quick: Whether it was the small version.
        seed: Seed of everything random.
        seconds: Wall time of this run, which may have read members and tables from disk.
        versions: Versions of Drystone, Python and the libraries beneath.
        result: The numbers, with the configuration they were made with.
    """

    name: str
    quick: bool
    seed: int
    seconds: float
    versions: Mapping[str, str]
    result: dict[str, Any]

    def save(self, path: Path) -> None:
        """Write it as JSON, whole or not at all."""
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(vars(self), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> Record:
        """Read what :meth:`save` wrote."""
        return cls(**json.loads(path.read_text()))


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, or beyond it.

    Attributes:
        run: Plan to result, plain data.
        table: Result to Markdown.
        figures: File name (without its ending) to the function that draws it from the result.
        tasks: The tasks that it is made of, each of which can be run alone.
        seeds: How many seeds it averages over.
    """

    run: Callable[[Plan], dict[str, Any]]
    table: Callable[[dict[str, Any]], str]
    figures: Mapping[str, Callable[[dict[str, Any]], Figure]] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    seeds: int = 1

    def record(self, name: str, plan: Plan) -> Record:
        """Run it."""
        begun = time.perf_counter()
        # As it is read back, with lists for tuples, so that it can be compared with results on disk.
        result = json.loads(json.dumps(self.run(plan)))
        versions = {"drystone": __version__, "python": platform.python_version()}
        versions |= {library: version(library) for library in VERSIONS}
        return Record(name, plan.quick, plan.seed, round(time.perf_counter() - begun, 1), versions, result)

    def add(self, record: Record, part: Record) -> Record:
        """Return a record with the tasks or seeds of a part in it, in the place of its own where it has them."""
        if not self.made_alike(record, part):
            raise ValueError(
                f"the results of {record.name} that are there have other versions, settings or another seed than "
                "this part. Remove them and run all parts again."
            )
        tasks = dict(record.result["tasks"])
        for task, found in part.result["tasks"].items():
            tasks[task] = {**tasks.get(task, {}), **found}
        in_order = {task: tasks[task] for task in (*(name for name in self.tasks if name in tasks), *tasks)}
        seconds = round(record.seconds + part.seconds, 1)
        return replace(record, seconds=seconds, result={**record.result, "tasks": in_order})

    def made_alike(self, record: Record, other: Record) -> bool:
        """Return whether two records are of the same experiment but for tasks and, where it has several, seeds."""

        def settings(of: Record) -> list[Any]:
            seed = of.seed if self.seeds == 1 else None
            return [of.versions, seed, {key: value for key, value in of.result.items() if key != "tasks"}]

        return settings(record) == settings(other)

    def draw(self, record: Record, folder: Path) -> list[Path]:
        """Draw its figures into a folder; return the files."""
        import matplotlib.pyplot as plt

        paths = []
        for name, figure in self.figures.items():
            path = folder / f"{name}.png"
            drawn = figure(record.result)
            with replacing(path) as temporary:
                drawn.savefig(temporary, dpi=150, format="png")
            plt.close(drawn)
            paths.append(path)
        return paths
