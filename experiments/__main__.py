"""``python -m experiments NAME [--quick]``: make one of the paper's tables or figures, or one beyond it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments import NAMES, TITLES, reproduce


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment that the command line names; list them all if it names none."""
    listed = "\n".join(f"  {name:<14} {title}" for name, title in TITLES.items())
    parser = argparse.ArgumentParser(
        prog="python -m experiments",
        description="Make a table or figure of the paper, or one beyond it; an interrupted one continues.",
        epilog=f"experiments:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", choices=NAMES, help="which; without it they are listed")
    parser.add_argument("--quick", action="store_true", help="a small version that takes a minute or two")
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path("runs/paper"),
        help="of members and results  [runs/paper]",
    )
    parser.add_argument("--workers", type=int, help="cores to use  [all]")
    parser.add_argument("--seed", type=int, default=0, help="decides everything random  [0]")
    options = parser.parse_args(arguments)
    if options.name is None:
        print(listed)
        return 0
    made = reproduce(
        options.name,
        quick=options.quick,
        directory=options.directory,
        workers=options.workers,
        seed=options.seed,
    )
    print(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
