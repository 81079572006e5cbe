"""The statistics of a table: axes of each, how it follows from draws, what it makes possible.

This is the one place that lists them. The constructor, selections, files, the checks for non-finite entries and
tabulation all read :data:`SCHEMA` and :data:`CAPABILITIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import LARGEST, in_range

__all__ = [
    "CAPABILITIES",
    "POINT_ARRAYS",
    "ROW_ARRAYS",
    "SCHEMA",
    "Key",
    "StoredStatistic",
    "as_arguments",
    "axes_of",
    "capabilities",
    "columns_for",
    "derive",
    "keys_from_draws",
    "level_key",
    "name_of",
    "quantile",
    "quantile_places",
    "share_below",
    "usable",
]

# Multiples of it, less their integer part, are spread evenly.
GOLDEN = (np.sqrt(5) - 1) / 2
# A statistic by name, or a level for the quantiles at it.
Key = str | float
A = TypeVar("A")


def share_below(draws: np.ndarray, truth: np.ndarray, axis: int) -> np.ndarray:
    """Return the share of draws ≤ truth; NaN where a draw is not finite, lest a broken member look calibrated.

    Of draws equal to the truth, as discrete parameters have them, a share u counts as below: none to all, evenly
    over the rows, so that ranks of an exact posterior are uniform.
    """
    if draws.dtype.kind == "f":
        with np.errstate(over="ignore"):
            truth = truth.astype(draws.dtype)  # or 0.1 and 0.1 in single precision would not be equal
    S, below, at_most = draws.shape[axis], (draws < truth).sum(axis), (draws <= truth).sum(axis)
    if (below < at_most).any():
        u = ((np.arange(below.size) + 0.5) * GOLDEN % 1.0).reshape(below.shape)
        at_most = below + np.floor(u * (at_most - below + 1))
    rank = at_most / S
    finite = np.isfinite(draws).all(axis)
    return rank if finite.all() else np.where(finite, rank, np.nan)


def _rank(draws: np.ndarray, theta: np.ndarray) -> np.ndarray:
    return share_below(draws, theta[:, None, :], 1)


def _mean(draws: np.ndarray, theta: np.ndarray) -> np.ndarray:
    return draws.mean(1, dtype=float)


def _covariance(draws: np.ndarray, theta: np.ndarray) -> np.ndarray:
    centred = draws - draws.mean(1, keepdims=True, dtype=float)
    with np.errstate(over="ignore", invalid="ignore"):  # infinite then, and named where it is used
        return centred.swapaxes(1, 2) @ centred / (draws.shape[1] - 1)


def _quantile(draws: np.ndarray, theta: np.ndarray, level: float) -> np.ndarray:
    return quantile(draws, level, 1)


def quantile(draws: np.ndarray, level: ArrayLike, axis: int) -> np.ndarray:
    """Return quantiles of draws, the i-th smallest of S standing at level i/(S + 1).

    A new draw of the same distribution lies below the i-th smallest with probability i/(S + 1) whatever the
    distribution is: so intervals cover what they say, for any S. This is the one definition of a quantile. Levels
    beyond 1/(S + 1) and S/(S + 1) get the outermost draws.

    Example:
        >>> quantile(np.array([3.0, 1.0, 2.0]), [0.25, 0.5, 0.625], 0)
        array([1. , 2. , 2.5])
    """
    return np.quantile(draws, np.asarray(level, float), axis=axis, method="weibull")


def quantile_places(levels: ArrayLike, S: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ordered draw (of S) below each level's quantile, and the share of the way to the next."""
    place = np.clip(np.asarray(levels, float) * (S + 1) - 1, 0, S - 1)
    below = np.minimum(place.astype(int), max(S - 2, 0))
    return below, place - below


def _density_is_usable(log_q: np.ndarray) -> np.ndarray:
    return ~np.isnan(log_q) & (log_q != np.inf)


def _covariance_is_usable(cov: np.ndarray) -> np.ndarray:
    return (cov > -(LARGEST**2)) & (cov < LARGEST**2)


def _always_usable(values: np.ndarray) -> np.ndarray:
    return np.ones(values.shape, bool)


@dataclass(frozen=True)
class StoredStatistic:
    """A statistic that a table can hold.

    Attributes:
        axes: One letter per axis: K members, N simulations, S draws, d parameters, M shared points; L levels, of
            which a table in memory holds one array each.
        from_draws: Of draws (N, S, d) and theta (N, d) of one member (and a level): the statistic, (N, ...); None
            if draws do not give it.
        usable: Which entries can be used, by entry.
        least_draws: How many draws it takes.
    """

    axes: str
    from_draws: Callable[..., np.ndarray] | None = None
    usable: Callable[[np.ndarray], np.ndarray] = in_range
    least_draws: int = 1


SCHEMA: Mapping[str, StoredStatistic] = {
    "log_q": StoredStatistic("KN", usable=_density_is_usable),  # −inf is fine
    "rank": StoredStatistic("KNd", _rank),
    "mean": StoredStatistic("KNd", _mean),
    "cov": StoredStatistic("KNdd", _covariance, _covariance_is_usable, least_draws=2),
    "quantiles": StoredStatistic("LKNd", _quantile),
    "draws": StoredStatistic("KNSd"),
    "log_f": StoredStatistic("KNM", usable=_density_is_usable),
    "effective": StoredStatistic("KN", usable=_always_usable),
    "pareto": StoredStatistic("KN", usable=_always_usable),  # NaN where too few points tell
    "width": StoredStatistic("KN", usable=_always_usable),  # +inf where no point explains the data
}

# What a table can provide, by the statistics that it takes; those with `from_draws` can be derived instead.
CAPABILITIES: Mapping[str, tuple[str, ...]] = {
    "log_q": ("log_q",),
    "rank": ("rank",),
    "mean": ("mean",),
    "moments": ("mean", "cov"),
    "interval": ("quantiles",),
    "draws": ("draws",),
    "points": ("log_f",),
}

# Arrays with one entry per simulation and no members; data may have any number of further axes.
ROW_ARRAYS: Mapping[str, str] = {
    "theta": "Nd",
    "y": "N",
    "row_weights": "N",
    "points": "NMd",
    "log_r": "NM",
    "log_prior": "NM",
}
# Those that come with the shared points.
POINT_ARRAYS = ("points", "log_r", "log_prior")


def level_key(level: float) -> float:
    """Return the key of a level, so that 1 − 0.9 and 0.1 are the same."""
    return round(float(level), 12)


def name_of(key: Key) -> str:
    """Return the name of a statistic by key: ``"quantiles"`` for a level."""
    return key if isinstance(key, str) else "quantiles"


def axes_of(key: Key) -> str:
    """Return the axes of a statistic by key; quantiles at one level have no axis of levels."""
    return _of_key(key).axes.removeprefix("L")


def usable(key: Key, values: np.ndarray) -> np.ndarray:
    """Return which rows of a statistic of some members, (K, N, ...), can be used, (K, N)."""
    entries = _of_key(key).usable(values)
    return entries if entries.ndim == 2 else np.all(entries, axis=tuple(range(2, entries.ndim)))


def derive(key: Key, draws: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Return a statistic of one member's draws (N, S, d) at theta (N, d): (N, ...), in float64."""
    from_draws = _of_key(key).from_draws
    assert from_draws is not None, key
    level = (key,) if isinstance(key, float) else ()
    return from_draws(draws, theta, *level).astype(float, copy=False)


def keys_from_draws(draws: int, levels: Iterable[float]) -> tuple[Key, ...]:
    """Return the keys of all statistics that so many draws per simulation give, quantiles at these levels.

    Example:
        >>> keys_from_draws(1, [0.5]), keys_from_draws(9, [])
        (('rank', 'mean', 0.5), ('rank', 'mean', 'cov'))
    """
    names = [name for name, s in SCHEMA.items() if s.from_draws is not None and draws >= s.least_draws]
    return tuple(key for name in names for key in _keys(name, levels))


def columns_for(needs: Iterable[str], held: Collection[Key]) -> set[Key]:
    """Return which of the statistics that a table holds are read to provide the capabilities needed.

    Example:
        >>> columns_for({"mean"}, ["log_q", "mean", "draws"]), columns_for({"rank"}, ["log_q", "draws"])
        ({'mean'}, {'draws'})
    """
    levels = [key for key in held if isinstance(key, float)]
    columns: set[Key] = set()
    for need in needs:
        keys = [key for name in CAPABILITIES[need] for key in _keys(name, levels)]
        complete = bool(keys) and all(key in held for key in keys)
        if complete:
            columns.update(keys)
        derivable = all(SCHEMA[name].from_draws is not None for name in CAPABILITIES[need])
        # Intervals of a mixture are more accurate from draws than from a few levels.
        if "draws" in held and derivable and (need == "interval" or not complete):
            columns.add("draws")
    return columns


def derivable(needs: Iterable[str], held: Collection[Key]) -> list[Key]:
    """Return the statistics, other than quantiles, that draws give for the capabilities needed and are not held.

    Example:
        >>> derivable({"moments", "log_q"}, ["log_q", "draws"]), derivable({"rank"}, ["rank", "draws"])
        (['mean', 'cov'], [])
    """
    if "draws" not in held:
        return []
    names = [name for need in needs for name in CAPABILITIES[need] if name not in held and name != "quantiles"]
    return [name for name in dict.fromkeys(names) if SCHEMA[name].from_draws is not None]


def capabilities(held: Collection[Key]) -> frozenset[str]:
    """Return what a table that holds these statistics can provide."""
    return frozenset(need for need in CAPABILITIES if columns_for([need], held))


def as_arguments(columns: Mapping[Key, A]) -> dict[str, Any]:
    """Return arrays by key as arguments of :class:`drystone.Table`: ``quantiles`` is a dictionary by level.

    Example:
        >>> as_arguments({"mean": 1, 0.05: 2, 0.95: 3})
        {'mean': 1, 'quantiles': {0.05: 2, 0.95: 3}}
    """
    arguments: dict[str, Any] = {str(key): array for key, array in columns.items() if not isinstance(key, float)}
    quantiles = {key: array for key, array in columns.items() if isinstance(key, float)}
    return {**arguments, "quantiles": quantiles} if quantiles else arguments


def _of_key(key: Key) -> StoredStatistic:
    return SCHEMA[name_of(key)]


def _keys(name: str, levels: Iterable[float]) -> tuple[Key, ...]:
    return tuple(levels) if name == "quantiles" else (name,)
