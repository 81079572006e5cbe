r"""Members so far from the truth that no weight on them could help a mixture.

.. math:: e_{kj} = \sum_n a_n \, E_{q_k} (\tilde\theta_{nj} - \theta_{nj})^2 > 10^6 \operatorname{Var}(\theta_j)

A diverged network, or one draw of 10¹² among thousands. A weight of such a member would be below 1/1000 and act as
a constant that shifts the mean; in the sums of the exact solvers the others' digits would drown in its own.
"""

from __future__ import annotations

import numpy as np

from drystone.table import Table, blocks

__all__ = ["hopeless_members"]

# A thousand times further from the truth than parameters drawn at random.
HOPELESS = 1e6


def hopeless_members(table: Table) -> np.ndarray:
    """Return which members are hopeless, (K,) of bool; none where the table has neither means nor draws."""
    if "mean" not in table.gives:
        return np.zeros(table.K, bool)
    of_members, first, second = blocks.total(table, _squares)
    size = np.maximum(second - first**2, 1e-16 * second)  # a constant parameter varies by its rounding
    return (of_members > HOPELESS * np.where(size > 0, size, np.inf)).any(1)


def _squares(block: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Σ a E(θ̃ − θ)², (K, d), Σ a θ and Σ a θ², (d,), of a block of rows."""
    a = block.row_weights
    with np.errstate(over="ignore"):
        squares = (block.mean - block.theta) ** 2
        if "moments" in block.gives and (block.S is None or block.S > 1):
            squares = squares + np.diagonal(block.cov, axis1=-2, axis2=-1)
        return np.einsum("n,knd->kd", a, squares), a @ block.theta, a @ block.theta**2
