"""How far from the exact posterior, where that is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from drystone.arrays import as_numpy
from drystone.stacking import Stacking
from drystone.table import Table
from drystone.weighted import standard_error

__all__ = ["Distance", "Distances", "distance", "distances"]


@dataclass(frozen=True)
class Distance:
    r"""Mean of log p(θ_n|y_n) − log q(θ_n|y_n) over the test rows: an estimate of E KL(p ‖ q), in nats."""

    value: float
    se: float


@dataclass(frozen=True)
class Distances:
    """Of a stack and of the best member from the exact posterior, on the same rows."""

    stacked: Distance
    best: Distance


def distance(log_p: np.ndarray, log_q: np.ndarray, a: np.ndarray) -> Distance:
    """Between densities (N,) of rows of weight a (N,); infinite if q has density 0 somewhere."""
    with np.errstate(invalid="ignore"):
        rows = np.where(a > 0, log_p - log_q, 0.0)
        return Distance(float(a @ rows), standard_error(rows, a))


def distances(exact: ArrayLike | None, fit: Stacking, best: str, test: Table) -> Distances | None:
    """Both distances; None if the exact posterior is not known, or the fit has no density.

    Args:
        exact: exact log posterior density at the test truths, (N,), or None.
        fit: the stack.
        best: name of the best member.
        test: the rows.
    """
    if exact is None:
        return None
    log_p = np.asarray(as_numpy(exact), float)
    if log_p.shape != (test.N,):
        raise ValueError(f"`exact` must hold a log density a test row, (N,) = ({test.N},); got {log_p.shape}.")
    if "log_q" not in fit.form.gives or "log_q" not in test.gives:
        return None
    stacked, single = fit.apply(test).log_q, test.log_q[test.names.index(best)]
    return Distances(*(distance(log_p, log_q, test.row_weights) for log_q in (stacked, single)))
