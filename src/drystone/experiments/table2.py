"""Table 2: fifty spline flows on the five tasks."""

from drystone.experiments import scoreboard
from drystone.experiments.ensembles import TASKS
from drystone.experiments.record import Experiment
from drystone.experiments.settings import spline

__all__ = ["EXPERIMENT", "SETTINGS"]

SETTINGS = [spline(task) for task in TASKS]

EXPERIMENT = Experiment(
    lambda plan: scoreboard.run(SETTINGS, plan),
    lambda result: scoreboard.board(result, "nsf"),
)
