r"""How far a stacked posterior is from the exact one, where a task knows it.

.. math:: \frac1N \sum_n \log p(\theta_n \mid y_n) - \log q(\theta_n \mid y_n) \to \mathrm{KL}(p \,\|\, q)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from drystone.errors import IntractableError
from drystone.weighted import standard_error

if TYPE_CHECKING:
    from drystone import Stacking, Table, Task

__all__ = ["Nats", "distances", "exact_log_density"]


class Nats(NamedTuple):
    """A mean over test rows, in nats."""

    mean: float
    standard_error: float


def exact_log_density(task: Task, test: Table) -> np.ndarray:
    """log p(θ_n | y_n) of the exact posterior on the rows of a table, (N,)."""
    return task.log_posterior(test.theta, np.asarray(test.y, float))


def distances(exact: np.ndarray, fits: Mapping[str, Stacking], test: Table) -> dict[str, Nats]:
    """The distance of each fit that has a density, in the order given."""
    found = {}
    for name, fit in fits.items():
        try:
            gap = exact - fit.apply(test).log_q
        except (IntractableError, ValueError):  # intervals and aggregated samples have no density
            continue
        found[name] = Nats(float(test.row_weights @ gap), standard_error(gap, test.row_weights))
    return found
