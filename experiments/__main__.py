"""``python -m experiments NAME [--quick]``: make one of the paper's tables or figures, or one beyond it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments import NAMES, PAPER, TITLES, run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line names; list all experiments if it names none."""
    numbers = {number: names for number, names in PAPER.items() if number not in NAMES}
    listing = "\n".join(
        [
            *(f"  {name:<14} {title}" for name, title in TITLES.items()),
            "",
            "also by their number in the paper:",
            *(f"  {number:<14} {', '.join(names)}" for number, names in numbers.items()),
        ]
    )
    parser = argparse.ArgumentParser(
        prog="python -m experiments",
        description="Make a table or figure of the paper, or one beyond it; an interrupted one continues.",
        epilog=f"experiments:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "name", nargs="?", metavar="NAME", choices=[*NAMES, *numbers], help="of the experiment; none lists all"
    )
    parser.add_argument("--quick", action="store_true", help="a small version that takes a minute or two")
    parser.add_argument(
        "--directory", type=Path, default=Path("runs/paper"), help="of members and results  [runs/paper]"
    )
    parser.add_argument("--workers", type=int, help="number of cores to use  [all]")
    parser.add_argument("--seed", type=int, default=0, help="seed of everything random  [0]")
    parser.add_argument(
        "--task", action="append", default=[], metavar="TASK", help="run it for this task alone; can be repeated"
    )
    parser.add_argument("--seeds", type=int, help="so many seeds, from --seed on, of an experiment with several")
    options = parser.parse_args(arguments)
    if options.name is None:
        print(listing)
        return 0
    for name in numbers.get(options.name, (options.name,)):
        made = run(
            name, quick=options.quick, directory=options.directory, workers=options.workers, seed=options.seed,
            tasks=options.task, seeds=options.seeds,
        )  # fmt: skip
        print(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
