r"""Weights for one observation: rows count by how near their data are to it.

.. math::
    a_n \propto a_n^0 \exp\left(-\tfrac12 \|y_n - y_o\|^2 / h^2\right)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import as_numpy
from drystone._messages import count_and_first_few
from drystone.estimate import bandwidth_for, kernel_weights
from drystone.table import Table
from drystone.table.inputs import flat_data, spread_or_one

__all__ = ["near"]

# Fewer effective rows than this cannot tell members apart.
FEWEST_ROWS = 10
# Farther than this from every simulation (root mean square standard deviations of y) there is nothing to go by.
FARTHEST = 10


def near(table: Table, observation: ArrayLike, bandwidth: float | None) -> tuple[Table, str]:
    """Return the table with rows weighted by a Gaussian kernel in standardized y, and a note on how many remain.

    Args:
        table: with y.
        observation: y_o, of the shape of a row of y.
        bandwidth: h, in root mean square standard deviations of y; None for one that leaves a quarter of the rows.
    """
    y = flat_data(table, "`at` weighs rows by their data, so it needs")
    y_o = np.asarray(as_numpy(observation), float).ravel()
    if y_o.shape != y.shape[1:]:
        shape = np.asarray(table.y).shape[1:]
        raise ValueError(f"`at` must have the shape of a row of y, {shape}; got {np.shape(observation)}.")
    if (bad := np.flatnonzero(~np.isfinite(y_o))).size:
        raise ValueError(f"`at` must be finite; entries that are not: {count_and_first_few(bad)}.")
    squared = (((y - y_o) / spread_or_one(y)) ** 2).mean(1)
    if squared.min() > FARTHEST**2:
        raise ValueError(
            f"`at` is {np.sqrt(squared.min()):.3g} standard deviations of y from the nearest simulation; "
            "weights there would be made up. Is it in the same units as y?"
        )
    if bandwidth is None:
        bandwidth = bandwidth_for(table.row_weights, squared, table.effective_rows / 4)
    if not 0 < bandwidth < np.inf:
        raise ValueError(f"`bandwidth` must be positive; got {bandwidth}.")
    result = table.reweighted(kernel_weights(table.row_weights, squared, bandwidth))
    if result.effective_rows < FEWEST_ROWS:
        raise ValueError(
            f"only {result.effective_rows:.1f} effective rows are near `at` with bandwidth {bandwidth:g}; "
            "raise `bandwidth`, or give more simulations there."
        )
    return (
        result,
        f"{result.effective_rows:.0f} effective rows of {table.N} near `at` (bandwidth {bandwidth:.3g}).",
    )
