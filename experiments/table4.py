"""Table 4: fifty spline flows on the five tasks."""

from experiments import scoreboard
from experiments.ensembles import TASKS
from experiments.record import Experiment
from experiments.settings import spline

__all__ = ["EXPERIMENT", "SETTINGS"]

SETTINGS = [spline(task) for task in TASKS]

EXPERIMENT = Experiment(
    lambda plan: scoreboard.run(SETTINGS, plan),
    lambda result: scoreboard.board(result, "nsf"),
    tasks=TASKS,
)
