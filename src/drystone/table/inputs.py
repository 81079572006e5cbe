"""Names, row weights, selections, levels and data as users give them, checked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from drystone._arrays import as_numpy, checked

if TYPE_CHECKING:
    from drystone.table.table import Table

__all__ = [
    "Levels",
    "as_levels",
    "columns_for",
    "different_names",
    "each_level",
    "flat_data",
    "level_key",
    "positions",
    "scaled_weights",
    "spread_or_one",
]


def scaled_weights(row_weights: Any, N: int) -> np.ndarray:
    """Row weights that sum to one, (N,), equal ones if None."""
    if row_weights is None:
        return np.full(N, 1 / N)
    weights = np.array(checked("row_weights", row_weights, "N", {"N": N}), float)
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ValueError("`row_weights` must be finite, ≥ 0 and not all 0.")
    total = weights.sum()
    return weights if abs(total - 1) < 1e-12 else weights / total  # weights read back from disk keep their bits


def different_names(argument: str, names: Sequence[str] | None, size: int, stem: str) -> tuple[str, ...]:
    """Names as strings, no two the same; ``stem``_0, ``stem``_1, … if None."""
    if names is None:
        return tuple(f"{stem}_{i}" for i in range(size))
    if isinstance(names, str):
        raise TypeError(f"`{argument}` must be a sequence of strings; got the string {names!r}.")
    names = tuple(str(name) for name in names)
    if len(names) != size:
        raise ValueError(f"`{argument}` must have {size} entries; got {len(names)}.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"`{argument}` must be different; given more than once: {', '.join(map(repr, twice))}.")
    return names


def positions(argument: str, chosen: Any, universe: Sequence[Any]) -> np.ndarray:
    """Positions of ``chosen`` (None for all, names, indices, a mask, a slice) in ``universe``."""
    if chosen is None:
        return np.arange(len(universe))
    if isinstance(chosen, slice):
        return _some_positions(argument, np.arange(len(universe))[chosen])
    chosen = as_numpy([chosen] if isinstance(chosen, str) else chosen)
    if chosen.size == 0:
        raise ValueError(f"no `{argument}` selected.")
    if chosen.dtype.kind in "UO":
        unknown = [str(name) for name in chosen if name not in universe]
        if unknown:
            raise ValueError(f"unknown `{argument}` {unknown}; known: {', '.join(map(str, universe))}.")
        found = np.array([universe.index(name) for name in chosen], int)
    elif chosen.dtype == bool and chosen.shape != (len(universe),):
        raise ValueError(f"a mask of `{argument}` must have length {len(universe)}; got shape {chosen.shape}.")
    elif chosen.dtype.kind not in "biu":
        raise TypeError(f"`{argument}` must be names, positions, a mask or a slice; got dtype {chosen.dtype}.")
    else:
        found = np.arange(len(universe))[np.atleast_1d(chosen)]
    if argument == "members" and len(set(found.tolist())) < len(found):
        raise ValueError("`members` must be different; some are selected twice.")
    return _some_positions(argument, found)


def _some_positions(argument: str, positions: np.ndarray) -> np.ndarray:
    if positions.size == 0:
        raise ValueError(f"no `{argument}` selected.")
    return positions


def columns_for(needs: Iterable[str], held: Collection[str | float]) -> set[str | float]:
    """Which of the statistics that a table holds it takes to give those needed; quantiles go by level.

    Example:
        >>> columns_for({"mean"}, ["log_q", "mean", "draws"]), columns_for({"rank"}, ["log_q", "draws"])
        ({'mean'}, {'draws'})
    """
    levels = [key for key in held if isinstance(key, float)]
    found: set[str | float] = set()
    for need in needs:
        named: list[str | float] = {"moments": ["mean", "cov"], "interval": levels}.get(need, [need])
        whole = bool(named) and all(key in held for key in named)
        if whole:
            found.update(named)
        # Intervals of a mixture are better told from draws than from a few levels.
        if "draws" in held and (need == "interval" or not whole):
            found.add("draws")
    return found


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


def flat_data(table: Table, why: str) -> np.ndarray:
    """y as (N, m) in float64, or an error that says ``why`` it is needed."""
    if table.y is None:
        raise ValueError(f"{why} `y` in the table; got None.")
    y = np.asarray(table.y, float).reshape(table.N, -1)
    bad = np.flatnonzero(~np.isfinite(y).all(1))
    if bad.size:
        raise ValueError(
            f"{why} finite `y`; {bad.size} of {table.N} rows are not (the first: {bad[0]}). Select others."
        )
    return y


def spread_or_one(x: np.ndarray) -> np.ndarray:
    """Standard deviation of each column, or 1 where a column is constant but for rounding."""
    spread = x.std(0)
    return np.where(spread > 1e-12 * np.abs(x).max(0), spread, 1.0)
