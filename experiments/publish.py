"""Bring finished experiments into the repository: results, figures, and the tables of the README and the docs.

    python experiments/publish.py runs/paper    # copy results from there first
    python experiments/publish.py               # only draw and write again from experiments/results/

A table stands between `<!-- NAME: ... -->` and `<!-- /NAME -->`; a test checks that it is that of its result.
"""

import argparse
import re
import shutil
from pathlib import Path

from drystone.experiments import NAMES, experiment
from drystone.experiments.record import Record
from drystone.experiments.scoreboard import summary

ROOT = Path(__file__).parent.parent
RESULTS, FIGURES, PAGES = ROOT / "experiments/results", ROOT / "docs/figures", ("README.md", "docs/paper.md")


def records():
    """Return the records in the repository, by name."""
    paths = {name: RESULTS / f"{name}.json" for name in NAMES}
    return {name: Record.load(path) for name, path in paths.items() if path.exists()}


def sections():
    """Return what stands between the markers, by their name."""
    found = records()
    tables = {name: experiment(name).table(record.result) for name, record in found.items()}
    if "table2" in found:
        tables["paper"] = summary(found["table2"].result, "nsf")
    return tables


def filled(text, tables):
    """Return a page with its tables replaced."""
    for name, table in tables.items():
        text = re.sub(
            rf"(<!-- {name}:.*?-->\n).*?(<!-- /{name} -->)",
            lambda found, table=table: f"{found[1]}{table}\n{found[2]}",
            text,
            flags=re.DOTALL,
        )
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path, help="where the experiments were run")
    directory = parser.parse_args().directory
    for name in NAMES if directory else ():
        source = directory / "results" / f"{name}.json"
        if source.exists():
            shutil.copy(source, RESULTS)
    for name, record in records().items():
        experiment(name).draw(record, FIGURES)
    tables = sections()
    for page in PAGES:
        path = ROOT / page
        path.write_text(filled(path.read_text(), tables))
    print(f"published {', '.join(records())}")


if __name__ == "__main__":
    main()
