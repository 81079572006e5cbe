"""Two tables of the same rows as one: the members of both."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from drystone.table import blocks
from drystone.table.statistics import SCHEMA, Key, as_arguments, name_of

if TYPE_CHECKING:
    from drystone.table.table import Table

__all__ = ["joined"]


def joined(first: Table, second: Table) -> dict[str, Any]:
    """Return the arguments of the table with the members of both, or raise if they are not of the same rows.

    What one table holds and the other can derive from draws is derived; of what the other cannot give it has NaN.
    """
    _check_rows(first, second)
    twice = sorted(set(first.names) & set(second.names))
    if twice:
        raise ValueError(f"names of members must be unique; both tables have {', '.join(map(repr, twice[:5]))}.")
    first, second = blocks.load(first), _with_points_of(first, blocks.load(second))
    owner = first if "points" in first.gives else second
    arrays = {key: _both(key, first, second) for key in _keys(first, second)}
    lacking = {
        name: [member for table in (first, second) for member in _lacking(name, table)]
        for name in {name_of(key) for key in arrays}
    }
    names = (*first.names, *second.names)
    left_out = {**first.left_out, **second.left_out}
    draws_behind = [table.S or 0 for table in (first, second) if "rank" in table.gives]  # 0 if not known
    return {
        "theta": first.theta,
        "y": first.y,
        "names": names,
        "parameters": first.parameters,
        "row_weights": first.row_weights if first.weighted else None,
        # One of the tables may have a member that could not be tabulated for the other.
        "left_out": {name: why for name, why in left_out.items() if name not in names},
        "S": min(draws_behind, default=0) or None,
        "lacking": {name: members for name, members in lacking.items() if members},
        "likelihoods": {**first.likelihoods, **second.likelihoods},
        **as_arguments(arrays),
        **({name: owner._source.array(name) for name in blocks.point_arrays(owner)} if "log_f" in arrays else {}),
    }


def _check_rows(first: Table, second: Table) -> None:
    """Raise unless parameters, θ, y and row weights are the same."""
    if first.parameters != second.parameters:
        raise ValueError(
            f"both tables must have the same parameters; got {first.parameters}, {second.parameters}."
        )
    if first.N != second.N:
        raise ValueError(f"both tables must have the same rows; got {first.N} and {second.N} of them.")
    if (first.y is None) != (second.y is None):
        raise ValueError("both tables must have the same `y`; one of them has none.")
    rows = [("theta", first.theta, second.theta), ("row_weights", first.row_weights, second.row_weights)]
    if first.y is not None and second.y is not None:
        rows.append(("y", first.y, second.y))
    for name, one, other in rows:
        if one.shape != other.shape:
            raise ValueError(
                f"`{name}` of both tables must be the same; got shapes {one.shape} and {other.shape}."
            )
        same = (one == other) | ((one != one) & (other != other))  # data may be missing, NaN
        differing = np.flatnonzero(~same.reshape(len(one), -1).all(1))
        if differing.size:
            raise ValueError(
                f"`{name}` of both tables must be the same; it differs in {differing.size} of {len(one)} rows "
                f"(the first: {differing[0]}). Were they made from other simulations?"
            )


def _with_points_of(first: Table, second: Table) -> Table:
    """Return the second table, without its shared points, and with a warning, if the first has others."""
    if not {"points"} <= first.gives & second.gives:
        return second
    names = blocks.point_arrays(first)
    if names == blocks.point_arrays(second) and all(
        np.array_equal(first._source.array(name), second._source.array(name)) for name in names
    ):
        return second
    warnings.warn(
        "the tables have different shared points: the joined one has those of the first, and its members alone "
        "have values there.",
        stacklevel=4,
    )
    return blocks.extract(second, second.gives - {"points"}, slice(None))


def _keys(first: Table, second: Table) -> list[Key]:
    """Return the statistics of the joined table; a warning names the levels that only one of them can give."""
    keys = list(dict.fromkeys([*first._source.keys, *second._source.keys]))
    partial = [
        key for key in keys if isinstance(key, float) for table in (first, second) if _lacks_level(key, table)
    ]
    if partial:
        warnings.warn(
            f"quantiles at levels {sorted(partial)} are not in the joined table: only one of the two has them.",
            stacklevel=4,
        )
    return [key for key in keys if key not in partial]


def _lacks_level(level: float, table: Table) -> bool:
    """Return whether a table has quantiles, but not at this level."""
    keys = table._source.keys
    return bool(table.levels) and level not in keys and "draws" not in keys


def _both(key: Key, first: Table, second: Table) -> Any:
    """Return a statistic of the members of both, (K, N, ...)."""
    parts = [np.asarray(table._statistic(key)) if _can_give(key, table) else None for table in (first, second)]
    if key == "draws":
        parts = _thinned(parts)
    shape = next(part.shape[1:] for part in parts if part is not None)
    empty = (np.full((table.K, *shape), np.nan) for table in (first, second))
    return np.concatenate([blank if part is None else part for part, blank in zip(parts, empty, strict=True)])


def _thinned(parts: list[np.ndarray | None]) -> list[np.ndarray | None]:
    """Return draws (K, N, S, d) of the smaller number S, evenly thinned where there are more."""
    sizes = {part.shape[2] for part in parts if part is not None}
    if len(sizes) == 1:
        return parts
    S = min(sizes)
    warnings.warn(f"the tables hold {max(sizes)} and {S} draws: the joined one holds {S} of each.", stacklevel=5)
    return [None if part is None else part[:, :, np.arange(S) * part.shape[2] // S] for part in parts]


def _can_give(key: Key, table: Table) -> bool:
    """Return whether a table holds a statistic, or draws to derive it from."""
    keys = table._source.keys
    return key in keys or (_from_draws(name_of(key)) and "draws" in keys)


def _from_draws(name: str) -> bool:
    return SCHEMA[name].from_draws is not None


def _lacking(name: str, table: Table) -> Collection[str]:
    """Return the members of a table that lack a statistic, by its name."""
    keys = {name_of(key) for key in table._source.keys}
    if name in keys:
        return table.lacking.get(name, ())
    if _from_draws(name) and "draws" in keys:
        return table.lacking.get("draws", ())
    return table.names
