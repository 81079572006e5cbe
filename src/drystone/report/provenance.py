"""Where a report comes from: when, with which command, with which versions."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version

import drystone

__all__ = ["Provenance", "provenance"]


@dataclass(frozen=True)
class Provenance:
    """Attributes: ``date`` (ISO, to the minute, with its zone), ``command``, ``versions`` (name, version)."""

    date: str
    command: str
    versions: tuple[tuple[str, str], ...]


def provenance(command: str) -> Provenance:
    """Of a report written now, by this process."""
    versions = {"drystone": drystone.__version__, "python": platform.python_version()}
    versions |= {name: version(name) for name in ("numpy", "scipy", "torch")}
    versions["platform"] = f"{platform.system()} {platform.machine()}"
    now = datetime.now().astimezone()
    return Provenance(now.isoformat(timespec="minutes"), command, tuple(versions.items()))
