"""Table 2: fifty affine flows of the paper's sweep on three tasks. Its fourth, SimBIG, is `simbig`'s."""

from experiments import scoreboard
from experiments.record import Experiment
from experiments.settings import affine

__all__ = ["EXPERIMENT", "SETTINGS"]

SETTINGS = [affine(task) for task in ("two_moons", "slcp", "sir")]

EXPERIMENT = Experiment(
    lambda plan: scoreboard.run(SETTINGS, plan),
    lambda result: scoreboard.board(result, "maf"),
    tasks=tuple(setting.task for setting in SETTINGS),
)
