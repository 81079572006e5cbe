"""Miscoverage levels: one alpha, or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["Levels", "as_levels", "each_level", "level_key"]

Levels = float | Sequence[float]


def as_levels(alpha: Any) -> Levels:
    """One level or several, as a user gives them (numbers, lists, arrays), checked to be in (0, 1)."""
    levels = tuple(level_key(level) for level in np.atleast_1d(alpha))
    if not levels:
        raise ValueError("`alpha` must hold at least one level; got none.")
    for level in levels:
        if not 0 < level < 1:
            hint = f" Did you mean alpha={(100 - level) / 100:g} for a {level:g} % interval?" if level > 1 else ""
            raise ValueError(f"alpha must be in (0, 1); got {level:g}.{hint}")
    return levels[0] if np.ndim(alpha) == 0 else levels


def level_key(level: float) -> float:
    """A level to look things up by: 1 − 0.9 and 0.1 are the same."""
    return round(float(level), 12)


def each_level(alpha: Levels) -> tuple[float, ...]:
    """The levels one by one."""
    return (alpha,) if isinstance(alpha, int | float) else tuple(alpha)
