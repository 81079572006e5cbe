"""Simulations of the tasks with known posteriors, and exact log densities at them."""

import warnings
from contextlib import suppress

import numpy as np

import drystone as ds

__all__ = ["TEST_ROWS", "exact_log_posterior", "simulated"]

# Fewer where one exact density takes seconds.
TEST_ROWS = {"slcp": 1000, "two_moons": 1000, "gaussian_mixture": 1000, "sir": 500, "lotka_volterra": 250}


def simulated(task, n, seed):
    """Return n simulations of a task, in double precision."""
    theta, y = ds.simulate(task, n=n, seed=seed, workers=1)
    return np.asarray(theta, float), np.asarray(y, float)


def exact_log_posterior(task, theta, y):
    """Return exact log densities, NaN where the task warns that they are not reliable."""
    values = np.full(len(theta), np.nan)
    for n in range(len(theta)):
        with warnings.catch_warnings():
            warnings.simplefilter("error", ds.ConvergenceWarning)
            with suppress(ds.ConvergenceWarning):
                values[n] = task.log_posterior(theta[n : n + 1], y[n : n + 1])[0]
    return values
