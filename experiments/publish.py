"""Bring finished experiments into the repository: results, figures, and the tables of the README and the docs.

    python experiments/publish.py runs/paper    # copy results from there first
    python experiments/publish.py               # only draw and write again from experiments/results/

Figures and a table stand between `<!-- NAME: ... -->` and `<!-- /NAME -->`; a test checks that they are those of
the result.
"""

import argparse
import re
import shutil
from pathlib import Path

from experiments import NAMES, TITLES, experiment
from experiments.record import Record
from experiments.scoreboard import summary

ROOT = Path(__file__).parent.parent
RESULTS, FIGURES, PAGES = ROOT / "experiments/results", ROOT / "docs/figures", ("README.md", "docs/paper.md")


def records():
    """Return the records in the repository, by name."""
    paths = {name: RESULTS / f"{name}.json" for name in NAMES}
    return {name: Record.load(path) for name, path in paths.items() if path.exists()}


def sections():
    """Return what stands between the markers, by name: figures and table, or that they are still to be made."""
    found = records()
    made = {name: section(name, found[name]) if name in found else missing(name) for name in NAMES}
    return made | {"paper": summary(found["table2"].result, "nsf") if "table2" in found else missing("table2")}


def section(name, record):
    """Return an experiment's figures and table."""
    made = experiment(name)
    return "\n\n".join([*(f"![{TITLES[name]}](figures/{f}.png)" for f in made.figures), made.table(record.result)])


def missing(name):
    """Return what stands there until the experiment has been run."""
    return f"*Not run yet: `python -m experiments {name}`.*"


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
