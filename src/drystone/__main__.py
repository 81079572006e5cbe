"""The ``drystone`` command, also where its script is not on the path: ``python -m drystone``."""

import os
import sys

from drystone._messages import require

__all__ = ["main"]


def main() -> int:
    """Run the command and return its exit code; without its libraries, say what to install."""
    try:
        _open_standard_streams()
        for module in ("click", "tomlkit"):
            require(module, "cli", "the command")
        from drystone.cli.main import main
    except ImportError as error:
        print(f"drystone: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # before anything was done
        print("\ndrystone: interrupted; the same command continues.", file=sys.stderr)
        return 130
    return main()


def _open_standard_streams() -> None:
    """Open what is closed of the three, so that no file of the run gets its number, and what libraries print."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())
