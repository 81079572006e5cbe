"""Inputs that reports are written from in these tests."""

from typing import Any

import numpy as np

import drystone as ds
from helpers.tables import make_table


def halves(table):
    """Validation and test rows."""
    return table.split(0.5, seed=0)


def gaussians(K=5, N=200, d=3, seed=0):
    """Validation and test rows of Gaussian members of N(y, I), and the exact log posterior on the test rows."""
    validation, test = halves(make_table(K=K, N=N, d=d, seed=seed))
    exact = (-((test.theta - test.y) ** 2) / 2 - np.log(2 * np.pi) / 2).sum(1)
    return validation, test, exact


def written(path, validation: ds.Table, test: ds.Table, fits: Any = None, **rest: Any) -> str:
    """The text of a report."""
    fits = ds.stack(validation) if fits is None else fits
    return ds.report.write(path, validation=validation, test=test, fits=fits, **rest).read_text(encoding="utf-8")
