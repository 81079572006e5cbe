"""Table 1: which form can be stacked for which score, in the paper and here."""

from __future__ import annotations

from typing import Any

from drystone.solvers.table1 import cells
from experiments.ensembles import Plan
from experiments.markdown import grid
from experiments.published import TABLE1
from experiments.record import Experiment

__all__ = ["EXPERIMENT"]


def run(plan: Plan) -> dict[str, Any]:
    """Return form → score → why the cell is blank, or an empty text if it is not."""
    del plan  # nothing is random, and nothing takes time
    found: dict[str, dict[str, str]] = {}
    for (form, score), cell in cells().items():
        found.setdefault(form.__name__, {})[score.__name__] = cell.why_blank
    return {"cells": found}


def table(result: dict[str, Any]) -> str:
    """Return one row per form: the paper's section of a cell, or a tick for those beyond it."""
    rows = [
        [form, *("–" if blank else _section(form, score) for score, blank in scores.items())]
        for form, scores in result["cells"].items()
    ]
    return grid(["", *next(iter(result["cells"].values()))], rows)


def _section(form: str, score: str) -> str:
    return f"§ {TABLE1[form, score]}" if (form, score) in TABLE1 else "✓"


EXPERIMENT = Experiment(run, table)
