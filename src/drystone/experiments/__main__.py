"""Run an experiment: ``python -m drystone.experiments table1 [--quick]``."""

import argparse

from drystone.experiments import NAMES, TITLES, reproduce


def main() -> None:
    """Read the arguments, run, print the table."""
    known = "\n".join(f"  {name:<14} {title}" for name, title in TITLES.items())
    parser = argparse.ArgumentParser(
        "python -m drystone.experiments",
        description=f"Reproduce the paper's tables and figures, and some beyond it.\n\n{known}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=NAMES, metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="a small version, to see that everything works")
    parser.add_argument("--directory", default="runs/paper", help="where all is kept (default: %(default)s)")
    parser.add_argument("--workers", type=int, help="cores to use (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(reproduce(**vars(arguments)))


if __name__ == "__main__":
    main()
