"""Table 2 by the paper's own protocol: each of fifty affine flows has 10,000 simulations of its own."""

from dataclasses import replace

from experiments import scoreboard, table2
from experiments.record import Experiment

__all__ = ["EXPERIMENT"]

SETTINGS = [replace(setting, fresh=True, label="fresh") for setting in table2.SETTINGS]

EXPERIMENT = Experiment(
    lambda plan: scoreboard.run(SETTINGS, plan), table2.EXPERIMENT.table, tasks=table2.EXPERIMENT.tasks
)
