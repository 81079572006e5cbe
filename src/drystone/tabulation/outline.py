"""All of a table but what its members say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Outline"]


@dataclass(frozen=True, eq=False)
class Outline:
    """What a table is made of besides the statistics.

    Attributes:
        theta, y, row_weights: The rows.
        names: Members that did not fail.
        parameters: Names of θ.
        dtypes: The statistics that all of them give, with their types; quantiles by level.
        left_out: Members that failed, and why.
        S: Draws behind the ranks, if there are any.
    """

    theta: np.ndarray
    y: np.ndarray
    row_weights: np.ndarray | None
    names: Sequence[str]
    parameters: Sequence[str]
    dtypes: Mapping[str | float, np.dtype]
    left_out: Mapping[str, str]
    S: int | None
