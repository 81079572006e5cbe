"""``python -m drystone.experiments NAME`` is ``drystone reproduce NAME``."""

import sys

from drystone.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["reproduce", *sys.argv[1:]]))
