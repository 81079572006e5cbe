"""A stacked posterior on the rows of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from drystone._messages import require
from drystone.forms import Form, View
from drystone.stacking.checks import check_members
from drystone.table.inputs import as_levels, each_level

__all__ = ["Applied"]


class Applied:
    """A stacked posterior on the rows of a table, as NumPy arrays that are computed on access."""

    def __init__(self, view: View, form: Form) -> None:
        self._view, self._form = view, form

    @property
    def log_q(self) -> np.ndarray:
        """Log density at the true parameters, (N,)."""
        return self._array("log_q", self._view.log_q)

    @property
    def rank(self) -> np.ndarray:
        """Ranks of the true parameters, (N, d)."""
        return self._array("rank", self._view.rank)

    @property
    def mean(self) -> np.ndarray:
        """Posterior means, (N, d)."""
        return self._array("mean", self._view.mean)

    @property
    def cov(self) -> np.ndarray:
        """Posterior covariances, (N, d, d)."""
        return self._array("moments", self._view.cov)

    def interval(self, alpha: float) -> np.ndarray:
        """Return central 1 − alpha intervals, (N, d, 2)."""
        (level,) = each_level(as_levels(alpha))
        return self._array("interval", lambda: self._view.interval(level))

    def draws(self, n: int | None = None, seed: int = 0) -> np.ndarray:
        """Return draws of the stacked posterior out of the table's draws, (N, n, d)."""
        return self._array("draws", lambda: self._view.draws(n, seed))

    def to_arviz(self) -> Any:
        """Return the ranks as simulation-based calibration for ArviZ: group ``prior_sbc``, for ``plot_ecdf_pit``.

        A ``DataTree``, or ``InferenceData`` if ArviZ is older than 1.0. Row weights have no place in it.
        """
        require("xarray", "files", "to_arviz")
        from drystone.adapters.to_arviz import ranks_group

        return ranks_group(self._view.table.parameters, self.rank)

    def _array(self, statistic: str, make: Callable[[], torch.Tensor]) -> np.ndarray:
        self._form.check_gives(statistic)
        needed = self._form.requires(statistic)
        if needed not in self._view.table.gives:
            raise ValueError(f"the table has no `{needed}`, which `{statistic}` of {self._form!r} needs.")
        check_members(self._view.table, {needed})
        with torch.no_grad():
            return make().numpy()
