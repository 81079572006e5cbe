"""Names, row weights, selections, levels and data as users give them, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import LARGEST, as_numpy, checked, in_range, labels_of_columns
from drystone._messages import count_and_first_few
from drystone.table.statistics import level_key

if TYPE_CHECKING:
    from drystone.table.table import Table

__all__ = [
    "Levels",
    "Selection",
    "as_levels",
    "check_in_range",
    "check_ordered",
    "check_shares",
    "check_symmetric",
    "each_level",
    "first_crossing",
    "flat_data",
    "parameter_names",
    "positions",
    "scaled_weights",
    "spread_or_one",
    "unique_names",
]

# Relative error of single precision, with a margin; that of quantiles interpolated in it.
TOLERANCE, INTERPOLATION = 1e-4, 1e-6
# Members (by name, position, mask or slice) or rows (by position, mask or slice); None for all.
Selection = ArrayLike | slice | None


def scaled_weights(row_weights: ArrayLike, N: int) -> np.ndarray:
    """Return row weights that sum to one, (N,)."""
    weights = np.array(checked("row_weights", row_weights, "N", {"N": N}), float)
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
        came = f"rows that are not: {count_and_first_few(bad)}" if bad.size else "all are 0"
        raise ValueError(f"`row_weights` must be finite, ≥ 0 and not all 0; {came}.")
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not np.isfinite(total):
        weights = weights / weights.max()
        total = weights.sum()
    return weights if abs(total - 1) < 1e-12 else weights / total  # weights read back from disk keep their bits


def check_in_range(name: str, values: np.ndarray) -> None:
    """Raise if numbers (N, d) are not finite, or too large to be squared and added up."""
    good = in_range(values)
    if good.all():
        return
    bad = count_and_first_few(np.flatnonzero(~good.all(1)))
    if np.isfinite(values).all():
        j = int(np.flatnonzero(~good.all(0))[0])
        raise ValueError(
            f"`{name}` must be below {LARGEST:g} in absolute value; column {j} reaches "
            f"{np.abs(values[:, j]).max():.3g}, and rows {bad} of {len(values)} are larger. Choose other units."
        )
    raise ValueError(f"`{name}` must be finite; {bad} of {len(values)} rows are not.")


def check_shares(rank: np.ndarray) -> None:
    """Raise if ranks are not shares, in [0, 1]; those that are not finite are not looked at."""
    finite = rank[np.isfinite(rank)]
    if finite.size and not 0 <= finite.min() <= finite.max() <= 1:
        raise ValueError(
            "`rank` must be in [0, 1]: the share of draws ≤ theta; got values from "
            f"{finite.min():g} to {finite.max():g}. Divide integer ranks by S."
        )


def check_symmetric(cov: np.ndarray, names: Sequence[str]) -> None:
    """Raise if covariances are not symmetric, beyond single precision; what is not finite is not looked at."""
    with np.errstate(invalid="ignore", over="ignore"):
        for name, of_member in zip(names, cov, strict=True):  # one by one, as they may be large
            spread = np.sqrt(np.abs(np.diagonal(of_member, axis1=1, axis2=2)))
            allowed = TOLERANCE * spread[:, :, None] * spread[:, None, :]
            bad = (np.abs(of_member - of_member.swapaxes(1, 2)) > allowed).any((1, 2))
            if bad.any():
                rows = count_and_first_few(np.flatnonzero(bad))
                raise ValueError(f"`cov` must be symmetric; that of {name!r} is not in rows {rows}.")


class Crossing(NamedTuple):
    """Rows in which a member's quantiles at one level lie above those at a higher one."""

    lower: float
    upper: float
    member: int
    rows: np.ndarray

    def error(self, names: Sequence[str], first_row: int = 0) -> ValueError:
        """Return the error that names the member, the levels and the rows, counted from ``first_row``."""
        return ValueError(
            f"`quantiles` must not cross; those of {names[self.member]!r} at level {self.lower:g} lie above those "
            f"at {self.upper:g} in rows {count_and_first_few(self.rows + first_row)}. Exchange levels that were "
            "confused, or sort the quantiles of each row."
        )


def first_crossing(quantiles: Mapping[float, np.ndarray]) -> Crossing | None:
    """Return where quantiles (K, N, d) by level cross by more than rounding, of the first member that has it.

    What is not finite is not looked at.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        for lower, upper in pairwise(sorted(quantiles)):
            for k, (below, above) in enumerate(zip(quantiles[lower], quantiles[upper], strict=True)):
                crossed = below > above
                if crossed.any():  # rarely: most rows need no more than this
                    size = np.maximum(np.abs(below), np.abs(above))
                    crossed &= below - above > INTERPOLATION * size
                if crossed.any():
                    return Crossing(lower, upper, k, np.flatnonzero(crossed.any(1)))
    return None


def check_ordered(quantiles: Mapping[float, np.ndarray], names: Sequence[str], first_row: int = 0) -> None:
    """Raise if quantiles (K, N, d) by level, of rows from ``first_row`` on, cross by more than rounding."""
    crossing = first_crossing(quantiles)
    if crossing is not None:
        raise crossing.error(names, first_row)


def unique_names(argument: str, names: Sequence[str] | None, size: int, stem: str) -> tuple[str, ...]:
    """Return names as strings, no two the same; ``stem``_0, ``stem``_1, … if None."""
    if names is None:
        return tuple(f"{stem}_{i}" for i in range(size))
    if isinstance(names, str):
        raise TypeError(f"`{argument}` must be a sequence of strings; got the string {names!r}.")
    names = tuple(str(name) for name in names)
    if len(names) != size:
        raise ValueError(f"`{argument}` must have {size} entries; got {len(names)}.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"`{argument}` must be unique; duplicated: {', '.join(map(repr, twice))}.")
    return names


def parameter_names(parameters: Sequence[str] | None, theta: ArrayLike, d: int) -> tuple[str, ...]:
    """Return names of θ: those given, else those that ``theta`` has itself, else theta_0, theta_1 and so on."""
    names = labels_of_columns(theta) if parameters is None else parameters
    return unique_names("parameters", names, d, "theta")


def positions(argument: str, selection: Selection, universe: Sequence[Any]) -> np.ndarray:
    """Return the positions of a selection (None for all, names, indices, a mask, a slice) in ``universe``."""
    if selection is None:
        return np.arange(len(universe))
    if isinstance(selection, slice):
        selected = np.arange(len(universe))[selection]
    else:
        selected = _listed_positions(argument, np.atleast_1d(as_numpy(selection)), universe)
    if selected.size == 0:
        raise ValueError(f"no `{argument}` selected; select at least one of {len(universe)}.")
    return selected


def _listed_positions(argument: str, selection: np.ndarray, universe: Sequence[Any]) -> np.ndarray:
    """Return the positions of what is selected by an array of names or indices, or by a mask."""
    if selection.size == 0:
        return np.empty(0, int)
    if selection.dtype.kind in "UO":
        unknown = [str(name) for name in selection if name not in universe]
        if unknown:
            raise ValueError(f"unknown `{argument}` {unknown}; known: {', '.join(map(str, universe))}.")
        selected = np.array([universe.index(name) for name in selection], int)
    elif selection.dtype == bool and selection.shape != (len(universe),):
        raise ValueError(f"a mask of `{argument}` must have length {len(universe)}; got shape {selection.shape}.")
    elif selection.dtype.kind not in "biu":
        raise TypeError(f"`{argument}` must be names, positions, a mask or a slice; got dtype {selection.dtype}.")
    elif selection.dtype != bool and not -len(universe) <= selection.min() <= selection.max() < len(universe):
        raise IndexError(
            f"`{argument}` must be positions below {len(universe)}; got {selection.min()} to {selection.max()}."
        )
    else:
        selected = np.arange(len(universe))[selection]
    if argument == "members" and len(set(selected.tolist())) < len(selected):
        twice = sorted({str(universe[k]) for k in selected if (selected == k).sum() > 1})
        raise ValueError(f"`members` must be unique; duplicated: {', '.join(map(repr, twice))}.")
    return selected


Levels = float | Sequence[float]


def as_levels(alpha: ArrayLike) -> Levels:
    """Return one level or several, as a user gives them (numbers, lists, arrays), checked to be in (0, 1)."""
    levels = tuple(level_key(level) for level in np.atleast_1d(alpha))
    if not levels:
        raise ValueError("`alpha` must hold at least one level; got none.")
    for level in levels:
        if not 0 < level < 1:
            percent = level if level < 50 else 100 - level
            hint = (
                f" Did you mean alpha={percent / 100:g} for a {100 - percent:g} % interval?" if level > 1 else ""
            )
            raise ValueError(f"alpha must be in (0, 1); got {level:g}.{hint}")
    return levels[0] if np.ndim(alpha) == 0 else levels


def each_level(alpha: Levels) -> tuple[float, ...]:
    """Return the levels one by one."""
    return (alpha,) if isinstance(alpha, int | float) else tuple(alpha)


def flat_data(table: Table, why: str) -> np.ndarray:
    """Return y as (N, m) in float64, or raise an error that says ``why`` it is needed."""
    if table.y is None:
        raise ValueError(f"{why} `y` in the table; got None.")
    y = np.asarray(table.y, float).reshape(table.N, -1)
    bad = np.flatnonzero(~in_range(y).all(1))
    if bad.size:
        raise ValueError(
            f"{why} finite `y`; {bad.size} of {table.N} rows are not (the first: {bad[0]}), where numbers above "
            f"{LARGEST:g} count as infinite. Select others, or choose other units."
        )
    return y


def spread_or_one(x: np.ndarray) -> np.ndarray:
    """Return the standard deviation of each column, or 1 where a column is constant but for rounding."""
    spread = x.std(0)
    return np.where(spread > 1e-12 * np.abs(x).max(0), spread, 1.0)
