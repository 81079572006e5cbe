r"""Weights for one observation: rows count by how near their data are to it.

.. math::
    a_n \propto a_n^0 \exp\left(-\tfrac12 \|y_n - y_o\|^2 / h^2\right)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import root_scalar

from drystone.arrays import as_numpy
from drystone.table import Table

__all__ = ["near"]

# Fewer effective rows than this cannot tell members apart.
FEWEST_ROWS = 10


def near(table: Table, observation: Any, bandwidth: float | None) -> tuple[Table, str]:
    """The table with its rows weighted by a Gaussian kernel in standardised y, and a note on how many that leaves.

    Args:
        table: with y.
        observation: y_o, of the shape of a row of y.
        bandwidth: h, in root mean square standard deviations of y; None for one that leaves a quarter of the rows.
    """
    if table.y is None:
        raise ValueError("`at` weighs rows by their data, so it needs `y` in the table; got None.")
    y = np.asarray(table.y, float).reshape(table.N, -1)
    y_o = np.asarray(as_numpy(observation), float).ravel()
    if y_o.shape != y.shape[1:]:
        raise ValueError(
            f"`at` must have the shape of a row of y, {table.y.shape[1:]}; got {np.shape(observation)}."
        )
    spread = y.std(0)
    used = spread > 1e-12 * np.abs(y).max(0)  # a constant column is as near everywhere
    squared = (((y - y_o)[:, used] / spread[used]) ** 2).mean(1)

    def weighted(h: float) -> Table:
        return table.reweighted(table.row_weights * np.exp(-(squared - squared.min()) / (2 * h**2)))

    if bandwidth is None:
        wanted = table.effective_rows / 4
        logarithm = root_scalar(lambda t: weighted(np.exp(t)).effective_rows - wanted, bracket=(-10, 10)).root
        bandwidth = float(np.exp(logarithm))
    if not 0 < bandwidth < np.inf:
        raise ValueError(f"`bandwidth` must be positive; got {bandwidth}.")
    result = weighted(bandwidth)
    if result.effective_rows < FEWEST_ROWS:
        raise ValueError(
            f"only {result.effective_rows:.1f} effective rows are near `at` with bandwidth {bandwidth:g}; "
            "raise `bandwidth`, or give more simulations there."
        )
    return (
        result,
        f"{result.effective_rows:.0f} effective rows of {table.N} near `at` (bandwidth {bandwidth:.3g}).",
    )
