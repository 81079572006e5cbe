"""Miscoverage levels: one alpha, or several."""

from __future__ import annotations

__all__ = ["Levels", "check_levels", "each_level"]

Levels = float | tuple[float, ...]


def check_levels(alpha: Levels) -> None:
    """Raise if a level is not in (0, 1)."""
    if not each_level(alpha):
        raise ValueError("`alpha` must hold at least one level; got none.")
    for level in each_level(alpha):
        if not 0 < level < 1:
            hint = f" Did you mean alpha={(100 - level) / 100:g} for a {level:g} % interval?" if level > 1 else ""
            raise ValueError(f"alpha must be in (0, 1); got {level:g}.{hint}")


def each_level(alpha: Levels) -> tuple[float, ...]:
    """The levels one by one."""
    return (alpha,) if isinstance(alpha, int | float) else tuple(alpha)
