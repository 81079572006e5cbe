r"""The table: what K approximate posteriors say of N simulations.

It is the one object that crosses from "K inferences" to "stack them": nothing after it knows what a network is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from drystone import table_files
from drystone.arrays import as_numpy, checked

if TYPE_CHECKING:
    import xarray

__all__ = ["Statistic", "Table"]

# A quantity of interest f(θ, y): theta (..., N, d) and y (N, ...) give (..., N).
Statistic = Callable[[np.ndarray, np.ndarray | None], np.ndarray]
T = TypeVar("T")


class Table:
    r"""K members × N simulations (θ_n, y_n), and what each member says of each simulation.

    Any of the statistics may be missing; ``rank``, ``mean``, ``cov`` and ``quantiles`` are derived from
    ``draws`` when asked for, one member at a time, so deriving them never holds a second copy of the draws.

    Args:
        theta: true parameters, (N, d).
        y: data, (N, ...). Only forms and statistics that look at the data need it.
        log_q: log densities log q_k(θ_n | y_n), (K, N).
        draws: draws θ̃_kns from q_k(· | y_n), (K, N, S, d). Kept as they come (dtype, NumPy or Zarr array).
        rank: share of draws ≤ θ_n (Eq. 3), (K, N, d), in [0, 1].
        quantiles: ``{level: (K, N, d)}``.
        mean: posterior means, (K, N, d).
        cov: posterior covariances, (K, N, d, d).
        names: the members' names.
        parameters: the parameters' names.
        row_weights: a_n ≥ 0, (N,); scaled to sum 1. Importance weights if θ came from a proposal.
        left_out: members that could not be tabulated, and why; for the record.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.normal(size=(5, 2))
        >>> Table(theta, draws=rng.normal(size=(3, 5, 100, 2)))
        Table(K=3 members, N=5 simulations, d=2 parameters; gives draws, interval, mean, moments, rank)
    """

    def __init__(
        self,
        theta: Any,
        y: Any = None,
        log_q: Any = None,
        draws: Any = None,
        rank: Any = None,
        quantiles: Mapping[float, Any] | None = None,
        mean: Any = None,
        cov: Any = None,
        names: Sequence[str] | None = None,
        parameters: Sequence[str] | None = None,
        row_weights: Any = None,
        left_out: Mapping[str, str] | None = None,
    ) -> None:
        sizes: dict[str, int] = {}
        self.theta = np.array(checked("theta", theta, "Nd", sizes), float)
        if not np.isfinite(self.theta).all():
            rows = np.flatnonzero(~np.isfinite(self.theta).all(1))
            raise ValueError(f"`theta` must be finite; {_some(rows)} of {self.N} rows are not.")

        # Every statistic has axes (K, N, ...), so that selecting members and rows is one rule for all.
        self._statistics: dict[str | float, Any] = {}
        for name, value, letters in (
            ("log_q", log_q, "KN"),
            ("rank", rank, "KNd"),
            ("mean", mean, "KNd"),
            ("cov", cov, "KNdd"),
        ):
            if value is not None:
                self._statistics[name] = _float(checked(name, value, letters, sizes))
        for level, value in (quantiles or {}).items():
            if not 0 < level < 1:
                raise ValueError(f"levels of `quantiles` must be in (0, 1); got {level}.")
            array = checked(f"quantiles[{level}]", value, "KNd", sizes)
            self._statistics[_level(level)] = _float(array)
        if draws is not None:
            lazy = type(draws).__module__.partition(".")[0] in ("zarr", "h5py", "drystone")
            shape_only = np.broadcast_to(np.zeros((), draws.dtype), draws.shape) if lazy else draws
            array = checked("draws", shape_only, "KNSd", sizes)
            native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
            self._statistics["draws"] = draws if lazy else native
        if "K" not in sizes:
            raise ValueError(
                "a Table needs at least one of `log_q`, `draws`, `rank`, `quantiles`, `mean`, `cov`; got none."
            )
        if 0 in sizes.values():
            raise ValueError(f"a Table needs at least one row of each kind; got sizes {sizes}.")
        if "rank" in self._statistics and not _within_unit(self.rank):
            raise ValueError(
                "`rank` must be in [0, 1]: the share of draws ≤ theta; got values from "
                f"{np.nanmin(self.rank):g} to {np.nanmax(self.rank):g}. Divide integer ranks by S."
            )

        self.K: int = sizes["K"]
        self.y = None if y is None else as_numpy(y)
        if self.y is not None and (self.y.ndim == 0 or len(self.y) != self.N):
            raise ValueError(f"`y` must have N = {self.N} rows; got shape {self.y.shape}.")
        self.names = _names("names", names, self.K, "member")
        self.parameters = _names("parameters", parameters, self.d, "theta")
        self.weighted = row_weights is not None
        self.row_weights = _row_weights(row_weights, self.N)
        self.left_out = dict(left_out or {})
        self._memory: dict[Any, Any] = {}

    # ── sizes ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def N(self) -> int:
        """How many simulations."""
        return len(self.theta)

    @property
    def d(self) -> int:
        """How many parameters."""
        return self.theta.shape[1]

    @property
    def S(self) -> int | None:
        """How many draws a member and simulation, or None without draws."""
        return self.draws.shape[2] if "draws" in self._statistics else None

    @property
    def effective_rows(self) -> float:
        """1 / Σ a_n²: the number of equally weighted rows that carry as much."""
        return float(1 / (self.row_weights**2).sum())

    @cached_property
    def gives(self) -> frozenset[str]:
        """The statistics this table can provide: of log_q, rank, mean, moments, interval, draws."""
        have = self._statistics
        given = {name for name in ("log_q", "rank", "mean", "draws") if name in have}
        if "mean" in have and "cov" in have:
            given |= {"moments"}
        if any(isinstance(key, float) for key in have):
            given |= {"interval"}
        if "draws" in have:
            given |= {"rank", "mean", "moments", "interval"}
        return frozenset(given)

    # ── statistics ───────────────────────────────────────────────────────────────────────────────────────

    @property
    def log_q(self) -> np.ndarray:
        """log q_k(θ_n | y_n), (K, N)."""
        return self._given("log_q")

    @property
    def draws(self) -> Any:
        """θ̃_kns, (K, N, S, d): anything that slices to NumPy along its first axes."""
        return self._given("draws")

    @property
    def rank(self) -> np.ndarray:
        """Share of draws ≤ θ_n (Eq. 3), (K, N, d)."""
        return self._derived("rank", lambda draws: _rank(draws, self.theta[:, None, :], 1))

    @property
    def mean(self) -> np.ndarray:
        """Posterior means, (K, N, d)."""
        return self._derived("mean", lambda draws: draws.mean(1, dtype=float))

    @property
    def cov(self) -> np.ndarray:
        """Posterior covariances, (K, N, d, d), with divisor S − 1."""
        if "draws" in self._statistics and "cov" not in self._statistics and (self.S or 0) < 2:
            raise ValueError("a covariance needs at least 2 draws a simulation; got 1.")
        return self._derived("cov", _covariance)

    def quantile(self, level: float) -> np.ndarray:
        """Posterior quantiles at ``level``, (K, N, d)."""
        if not 0 < level < 1:
            raise ValueError(f"a quantile's level must be in (0, 1); got {level}.")
        if _level(level) not in self._statistics and "draws" not in self._statistics:
            raise ValueError(
                f"the table has neither draws nor quantiles at level {level:g} (it has {list(self.levels)}). "
                "Tabulate with that level, or give draws."
            )
        return self._derived(_level(level), lambda draws: np.quantile(draws, level, axis=1))

    @property
    def held(self) -> Mapping[str | float, Any]:
        """Statistics given or derived so far, by name; quantiles by level."""
        return self._statistics

    @property
    def levels(self) -> tuple[float, ...]:
        """The levels at which quantiles are held."""
        return tuple(sorted(key for key in self._statistics if isinstance(key, float)))

    def rank_of(self, statistic: Statistic) -> np.ndarray:
        """Ranks of a quantity of interest f(θ, y): the share of draws with f(θ̃, y) ≤ f(θ_n, y), (K, N, 1)."""

        def ranks() -> np.ndarray:
            truth = as_numpy(statistic(self.theta, self.y))
            if truth.shape != (self.N,):
                raise ValueError(
                    "`statistic` must map theta (..., N, d) and y to (..., N); "
                    f"for theta {self.theta.shape} it gave {truth.shape}."
                )
            of_draws = (as_numpy(statistic(np.moveaxis(draws, 1, 0), self.y)) for draws in self._members_draws())
            return np.stack([_rank(values, truth, 0) for values in of_draws])[..., None]

        return self.remember(("rank", statistic), ranks)

    def remember(self, key: Any, make: Callable[[], T]) -> T:
        """Return what ``make()`` gave the first time it was asked for under ``key``."""
        if key not in self._memory:
            self._memory[key] = make()
        return self._memory[key]

    def _given(self, name: str) -> Any:
        if name not in self._statistics:
            raise ValueError(f"the table has no `{name}`; it gives: {', '.join(sorted(self.gives))}.")
        return self._statistics[name]

    def _derived(self, key: str | float, of_draws: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The statistic ``key``; the first time it is derived from draws (N, S, d), member by member."""
        if key not in self._statistics:
            if "draws" not in self._statistics:
                raise ValueError(f"the table has neither `{key}` nor `draws` to derive it from.")
            derived = [of_draws(draws) for draws in self._members_draws()]
            self._statistics[key] = np.stack(derived).astype(float, copy=False)
        return self._statistics[key]

    def _members_draws(self) -> Iterator[np.ndarray]:
        """Draws of each member, (N, S, d)."""
        draws = self.draws
        return (np.asarray(draws[k]) for k in range(self.K))

    # ── parts ────────────────────────────────────────────────────────────────────────────────────────────

    def select(self, members: Any = None, rows: Any = None) -> Table:
        """The table of some members (by name, index, mask or slice) and some rows (index, mask or slice)."""
        k = _positions("members", members, self.names)
        n = _positions("rows", rows, range(self.N))
        if rows is None and np.array_equal(k, np.arange(self.K)):
            return self  # tables never change, and what was derived need not be derived again

        def part(array: Any) -> np.ndarray:
            if isinstance(array, np.ndarray):
                return array[k] if rows is None else array[:, n] if members is None else array[np.ix_(k, n)]
            return np.stack([np.asarray(array[int(i)])[n] for i in k])

        chosen = self._bare(self.theta[n], None if self.y is None else self.y[n])
        chosen.K, chosen.names = len(k), tuple(self.names[i] for i in k)
        chosen._statistics = {key: part(array) for key, array in self._statistics.items()}
        weights = self.row_weights[n]
        if weights.sum() == 0:
            raise ValueError("all selected rows have `row_weights` 0.")
        chosen.weighted, chosen.row_weights = self.weighted, weights / weights.sum()
        return chosen

    def split(self, fraction: float = 0.5, seed: int = 0) -> tuple[Table, Table]:
        """Two tables of disjoint rows, the first with ``fraction`` of them, chosen at random by ``seed``."""
        first = round(fraction * self.N)
        if not 0 < first < self.N:
            raise ValueError(f"`fraction` must leave rows on both sides; got {fraction} of N = {self.N} rows.")
        order = np.random.default_rng(seed).permutation(self.N)
        return self.select(rows=np.sort(order[:first])), self.select(rows=np.sort(order[first:]))

    def reweighted(self, row_weights: np.ndarray) -> Table:
        """The same table with other row weights (kernel weights near an observation, for one)."""
        other = self._bare(self.theta, self.y)
        other.K, other.names, other._statistics = self.K, self.names, self._statistics
        other.weighted, other.row_weights = True, _row_weights(row_weights, self.N)
        return other

    def _bare(self, theta: np.ndarray, y: np.ndarray | None) -> Table:
        """A table with these rows, our parameters, and no members yet; checked already, so not checked again."""
        table = object.__new__(Table)
        table.theta, table.y, table.parameters, table._memory = theta, y, self.parameters, {}
        table.left_out = self.left_out
        return table

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────

    def to_xarray(self) -> xarray.Dataset:
        """An xarray Dataset with dims member, simulation, draw, parameter, level."""
        return table_files.to_dataset(self)

    @classmethod
    def from_xarray(cls, dataset: xarray.Dataset) -> Table:
        """The table of a Dataset as :meth:`to_xarray` makes it."""
        return cls(**table_files.from_dataset(dataset))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to ``path``: a Zarr store (``.zarr``) or netCDF (``.nc``), whole or not at all."""
        table_files.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Table:
        """Read what :meth:`save` wrote."""
        return cls(**table_files.load(path))

    def __repr__(self) -> str:
        gives = ", ".join(sorted(self.gives))
        return f"Table(K={self.K} members, N={self.N} simulations, d={self.d} parameters; gives {gives})"


def _rank(draws: np.ndarray, truth: np.ndarray, axis: int) -> np.ndarray:
    """Share of draws ≤ truth; NaN where a draw is not finite, lest a broken member pass for a calibrated one."""
    rank = (draws <= truth).mean(axis)
    finite = np.isfinite(draws).all(axis)
    return rank if finite.all() else np.where(finite, rank, np.nan)


def _covariance(draws: np.ndarray) -> np.ndarray:
    """Covariance over S of draws (N, S, d): (N, d, d)."""
    centred = draws - draws.mean(1, keepdims=True, dtype=float)
    return np.einsum("nsi,nsj->nij", centred, centred) / (draws.shape[1] - 1)


def _float(array: np.ndarray) -> np.ndarray:
    """In float64 and writeable, which torch asks of arrays it shares; copied only if it is not."""
    return np.require(array, float, "W")


def _level(level: float) -> float:
    """A level as a key: 1 − 0.1/2 and 0.95 are the same level."""
    return round(float(level), 12)


def _within_unit(rank: np.ndarray) -> bool:
    finite = rank[np.isfinite(rank)]
    return finite.size == 0 or bool(finite.min() >= 0 and finite.max() <= 1)


def _row_weights(row_weights: Any, N: int) -> np.ndarray:
    if row_weights is None:
        return np.full(N, 1 / N)
    weights = np.array(checked("row_weights", row_weights, "N", {"N": N}), float)
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ValueError("`row_weights` must be finite, ≥ 0 and not all 0.")
    total = weights.sum()
    return weights if abs(total - 1) < 1e-12 else weights / total  # weights read back from disk keep their bits


def _names(argument: str, names: Sequence[str] | None, size: int, stem: str) -> tuple[str, ...]:
    if names is None:
        return tuple(f"{stem}_{i}" for i in range(size))
    if isinstance(names, str):
        raise TypeError(f"`{argument}` must be a sequence of strings; got the string {names!r}.")
    names = tuple(str(name) for name in names)
    if len(names) != size:
        raise ValueError(f"`{argument}` must have {size} entries; got {len(names)}.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"`{argument}` must be different; {', '.join(map(repr, twice))} stand more than once.")
    return names


def _positions(argument: str, chosen: Any, universe: Sequence[Any]) -> np.ndarray:
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
        positions = np.array([universe.index(name) for name in chosen], int)
    elif chosen.dtype == bool and chosen.shape != (len(universe),):
        raise ValueError(f"a mask of `{argument}` must have length {len(universe)}; got shape {chosen.shape}.")
    elif chosen.dtype.kind not in "biu":
        raise TypeError(f"`{argument}` must be names, positions, a mask or a slice; got dtype {chosen.dtype}.")
    else:
        positions = np.arange(len(universe))[np.atleast_1d(chosen)]
    if argument == "members" and len(set(positions.tolist())) < len(positions):
        raise ValueError("`members` must be different; some are selected twice.")
    return _some_positions(argument, positions)


def _some_positions(argument: str, positions: np.ndarray) -> np.ndarray:
    if positions.size == 0:
        raise ValueError(f"no `{argument}` selected.")
    return positions


def _some(rows: np.ndarray) -> str:
    """Row numbers for a message: all of a few, or the first of many."""
    listed = ", ".join(str(row) for row in rows[:5])
    return f"{len(rows)} ({listed}{', …' if len(rows) > 5 else ''})"
