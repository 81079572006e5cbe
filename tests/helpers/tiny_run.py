"""A run small enough to be made in a second, for tests to copy and spoil."""

import shutil

from drystone.cli.stack import fit_all
from drystone.runs import Run, stages
from drystone.runs.config import Config, Fit, Simulate, Tabulate, Train

CONFIG = Config(
    Simulate("two_moons", train=120, stack=50, test=30, seed=3),
    Train(members=3, family="maf", epochs=2, seed=2),
    Tabulate(draws=11),
    {"log": Fit(), "hybrid": Fit(score="log + 0.1*rank")},
)


def make(directory, config=CONFIG):
    """Make a run from its simulations to its fits."""
    run = Run(directory)
    with run.opened(create=True):
        stages.simulate(run, config)
        stages.train(run, config, workers=2)
        stages.tabulate(run, config)
        stack(run, config)
    return run


def stack(run, config):
    """Make the fits of a run."""
    fit_all(run, config, config.fits)


def copy(run, directory):
    """A copy of a run, to be spoilt."""
    shutil.copytree(run.path, directory)
    return Run(directory)
