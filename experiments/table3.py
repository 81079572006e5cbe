"""Table 3: the ranges that the paper draws hyperparameters from, as :meth:`drystone.Sweep.paper` returns them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drystone.training.sweep import Sweep
from experiments.ensembles import Plan
from experiments.markdown import grid
from experiments.published import TABLE3
from experiments.record import Experiment

__all__ = ["EXPERIMENT"]

# As the paper words them.
WORDS = {
    "transforms": "MAF layers",
    "units": "MLP hidden units",
    "layers": "MLP layers",
    "dropout": "dropout",
    "batch_size": "batch size",
    "learning_rate": "learning rate",
}


def run(plan: Plan) -> dict[str, Any]:
    """Return benchmark → hyperparameter → (low, high)."""
    del plan  # nothing is random, and nothing takes time
    sweeps = {"sbibm": asdict(Sweep.paper("sbibm")), "simbig": asdict(Sweep.paper("simbig"))}
    return {name: {key: list(sweep[key]) for key in WORDS} for name, sweep in sweeps.items()}


def table(result: dict[str, Any]) -> str:
    """Return one row per hyperparameter."""
    rows = []
    for key, words in WORDS.items():
        ranges = [f"{low:g} – {high:g}" for low, high in (result[benchmark][key] for benchmark in TABLE3)]
        rows.append([words, f"`{key}`", *ranges, TABLE3["sbibm"][key].distribution])
    return grid(["hyperparameter", "`Sweep`", *(f'`Sweep.paper("{b}")`' for b in TABLE3), "distribution"], rows)


EXPERIMENT = Experiment(run, table)
