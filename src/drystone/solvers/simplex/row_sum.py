r"""Problems that are sums over rows, so that a table is worked through in blocks: here, on disk or on a cluster.

.. math::
    f(w) = \sum_b f_b(w), \qquad \nabla f = \sum_b \nabla f_b, \qquad \nabla^2 f = \sum_b \nabla^2 f_b
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from drystone.solvers.simplex.newton import working_set
from drystone.table import Table, blocks

__all__ = ["RowSum", "coarse"]

# Rows to begin with: weights are then known to about 1/√ROWS of their scale, well inside Newton's reach.
ROWS = 20_000
# … or fewer, if they take more bytes than this.
BYTES = 2**28


def coarse(table: Table, needs: Iterable[str]) -> Table | None:
    """Return every so many-th row in memory, with these statistics alone; None if hardly fewer."""
    rows = min(ROWS, BYTES // blocks.bytes_per_row(table, needs))
    stride = table.N // max(rows, 1)
    return None if stride < 5 or rows < ROWS // 100 else blocks.extract(table, needs, slice(None, None, stride))


class RowSum:
    """The problem whose derivatives on a block of rows a function gives.

    A pass over the rows gives as much as is worth having at once. Of rows in memory that is what costs hardly more
    than the value itself. Of rows on disk, where reading costs as much as computing, it is one order more: so a
    Newton step on the log score is one pass.

    Args:
        table: the rows.
        derivatives: ``(block, w, orders, members, *arguments)`` to a tuple with an entry an order: the value, the
            gradient (K,), the Hessian at ``members`` × ``members``.
        together: the highest order that comes with the value for rows in memory.
        arguments: passed on.
    """

    def __init__(
        self, table: Table, derivatives: Callable[..., tuple[Any, ...]], together: int, *arguments: Any
    ) -> None:
        self.table, self.derivatives, self.arguments = table, derivatives, arguments
        self.together = together if blocks.in_memory(table) else together + 1
        self._w = np.empty(0)
        self._known: dict[int, Any] = {}
        self._gradient = np.zeros(table.K)
        self._members = np.empty(0, int)

    def value(self, w: np.ndarray) -> float:
        """Return f(w)."""
        return float(self._order(0, w))

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """Return ∇f(w)."""
        return self._order(1, w)

    def hessian(self, w: np.ndarray, members: np.ndarray) -> np.ndarray:
        """Return ∇²f(w) at ``members`` × ``members``."""
        if 2 in self._known and w is self._w and np.isin(members, self._members).all():
            at = np.searchsorted(self._members, members)
            return self._known[2][np.ix_(at, at)]
        return self._pass(w, range(2, 3), members)[0]

    def _order(self, order: int, w: np.ndarray) -> Any:
        """Return a derivative at w. Who asks for the value will ask for gradient and Hessian at the same w."""
        if w is not self._w:
            self._w, self._known = w, {}
        if order not in self._known:
            orders = range(order, 1 + (order or self.together))
            if 2 in orders:
                # Which members the next step will work on is not known before the gradient is: the last one is a
                # good guess, and a wrong one costs a pass.
                self._members = working_set(w, self._gradient)
            self._known |= zip(orders, self._pass(w, orders, self._members), strict=True)
            self._gradient = self._known.get(1, self._gradient)
        return self._known[order]

    def _pass(self, w: np.ndarray, orders: range, members: np.ndarray) -> tuple[Any, ...]:
        return blocks.total(self.table, self.derivatives, w, orders, members, *self.arguments)
