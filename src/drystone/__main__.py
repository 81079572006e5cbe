"""The ``drystone`` command, also where its script is not on the path: ``python -m drystone``."""

import sys

from drystone._messages import require

__all__ = ["main"]


def main() -> int:
    """Run the command and return its exit code; without its libraries, say what to install."""
    try:
        for module in ("click", "tomlkit"):
            require(module, "cli", "the command")
    except ImportError as error:
        print(f"drystone: {error}", file=sys.stderr)
        return 1
    from drystone.cli.main import main

    return main()


if __name__ == "__main__":
    sys.exit(main())
