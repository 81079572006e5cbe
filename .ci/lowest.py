"""Print pip constraints that hold every direct dependency to the lowest version that pyproject.toml allows.

Torch, tools of development and dependencies of dependencies stay as constraints.txt pins them.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINNED = {"torch"}  # an older torch would pull gigabytes of CUDA
# What users install; the other extras are tools of this repository.
USERS = ("train", "files", "report", "cli", "plots", "diagnostics", "dask", "sbi", "zuko")


def floors(project: dict) -> dict[str, str]:
    """Return the lowest version of each direct dependency, by name."""
    extras = project["optional-dependencies"]
    requirements = [*project["dependencies"], *(line for extra in USERS for line in extras.get(extra, ()))]
    return dict(re.split(">=", line) for line in requirements if not line.startswith("drystone["))


def lowest(project: dict, constraints: str) -> str:
    """Return the constraints with the lowest versions in the place of the pinned ones."""
    low = {name: version for name, version in floors(project).items() if name not in PINNED}
    pins = [line for line in constraints.splitlines() if line and line.split("==")[0].lower() not in low]
    return "\n".join([*pins, *(f"{name}=={version}" for name, version in sorted(low.items()))]) + "\n"


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    print(lowest(project, (ROOT / "constraints.txt").read_text()), end="")
