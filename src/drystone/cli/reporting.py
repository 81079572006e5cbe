"""The report of a run, out of what has been judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drystone.runs import Config, Run
    from drystone.runs.judge import Judged

__all__ = ["write_report"]


def write_report(run: Run, config: Config, judged: Judged, command: str) -> None:
    """Write ``report.html``."""
