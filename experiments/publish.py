"""Bring finished experiments into the repository: results, figures, and the tables of the README and the docs.

    python -m experiments.publish runs/paper    # copy results from there first
    python -m experiments.publish               # only draw and write again from experiments/results/

Figures and a table stand between `<!-- NAME: ... -->` and `<!-- /NAME -->`; a test checks that they are those of
the result.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments import NAMES, PAPER, TITLES, experiment, scoreboard, truth
from experiments.ensembles import Plan
from experiments.markdown import grid
from experiments.record import Record

ROOT = Path(__file__).parent.parent
RESULTS, FIGURES, PAGES = ROOT / "experiments/results", ROOT / "docs/figures", ("README.md", "docs/paper.md")
# They take no time and follow the library, so they are made anew instead of recorded.
LIVE = ("table1", "table3")
# Where not all figures of an experiment belong to one of the paper's numbers.
FIGURE_OF = {"figure3": "toy_tension", "figure4": "toy_efficiency"}


def records() -> dict[str, Record]:
    """Return the records in the repository, by name."""
    paths = {name: RESULTS / f"{name}.json" for name in NAMES if name not in LIVE}
    return {name: Record.load(path) for name, path in paths.items() if path.exists()}


def sections() -> dict[str, str]:
    """Return the text between the markers, by name: figures and table, or that they are still to be made."""
    results = {name: record.result for name, record in records().items()}
    results |= {name: experiment(name).run(Plan(ROOT)) for name in LIVE}
    made = {name: section(name, results[name]) if name in results else missing(name) for name in NAMES}
    paper = scoreboard.summary(results["table4"], "nsf") if "table4" in results else missing("table4")
    one_call = truth.summary(results["truth"]) if "truth" in results else missing("truth")
    return made | {"paper": paper, "one_call": one_call, "items": items()}


def section(name: str, result: dict[str, Any]) -> str:
    """Return an experiment's figures and table."""
    made = experiment(name)
    return "\n\n".join([*(f"![{TITLES[name]}](figures/{f}.png)" for f in made.figures), made.table(result)])


def missing(name: str) -> str:
    """Return the sentence that stands there until the experiment has been run."""
    return f"*Not run yet: `python -m experiments {name}`.*"


def items() -> str:
    """Return one row per table and figure of the paper: the command that makes it, and its files."""
    rows = []
    for number, names in PAPER.items():
        figures = [figure for name in names for figure in experiment(name).figures]
        if number in FIGURE_OF:
            figures = [FIGURE_OF[number]]
        drawn = [f"[{figure}.png](figures/{figure}.png)" for figure in figures if number.startswith("figure")]
        numbers = [f"[{name}.json](../experiments/results/{name}.json)" for name in names if name not in LIVE]
        commands = [f"`{name}`" for name in names] + ([] if number in NAMES else [f"or `{number}`"])
        files = ", ".join(drawn + numbers) or "this page"
        rows.append([f"{number[:-1].capitalize()} {number[-1]}", " ".join(commands), files])
    return grid(["paper", "`python -m experiments …`", "files"], rows)


def filled(text: str, tables: Mapping[str, str]) -> str:
    """Return a page with its tables replaced."""
    for name, table in tables.items():
        text = re.sub(
            rf"(<!-- {name}:.*?-->\n).*?(<!-- /{name} -->)",
            lambda found, table=table: f"{found[1]}{table}\n{found[2]}",
            text,
            flags=re.DOTALL,
        )
    return text


def bring(name: str, record: Record) -> None:
    """Bring a record into the repository: add its tasks and seeds to those that are there, if made alike."""
    made, path = experiment(name), RESULTS / f"{name}.json"
    if made.tasks and path.exists() and made.made_alike(before := Record.load(path), record):
        joined = made.add(before, record)
        # What is published a second time is not counted twice.
        record = next(one for one in (record, before, joined) if one.result == joined.result)
    record.save(path)


def main() -> None:
    """Copy results, draw figures and write the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path, help="where the experiments were run")
    directory = parser.parse_args().directory
    for name in NAMES if directory else ():
        source = directory / "results" / f"{name}.json"
        if source.exists() and name not in LIVE:
            bring(name, Record.load(source))
    for task in truth.SLOW if directory else ():
        source = directory / "truth" / task / f"{task}.npz"
        if source.exists():
            shutil.copy(source, truth.EXACT)
    for name, record in records().items():
        experiment(name).draw(record, FIGURES)
    tables = sections()
    for page in PAGES:
        path = ROOT / page
        path.write_text(filled(path.read_text(), tables))
    print(f"published {', '.join(records())}")


if __name__ == "__main__":
    main()
