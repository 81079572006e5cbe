r"""The table: what K approximate posteriors say of N simulations.

It is the one object that crosses from "K inferences" to "stack them": nothing after it knows what a network is.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from drystone._arrays import as_numpy, checked
from drystone._messages import count_and_first_few
from drystone.estimate import effective_rows
from drystone.table import disk as table_files
from drystone.table.inputs import columns_for, different_names, level_key, positions, scaled_weights
from drystone.table.statistics import check_shares, covariance, share_below

if TYPE_CHECKING:
    import xarray

    from drystone._parallel import Executor
    from drystone.table.blocks import StoredTable
    from drystone.table.disk import Writer

__all__ = ["Statistic", "Table"]

# A quantity of interest f(θ, y): theta (..., N, d) and y (N, ...) give (..., N).
Statistic = Callable[[np.ndarray, np.ndarray | None], np.ndarray]
T = TypeVar("T")


class Table:
    r"""K members × N simulations (θ_n, y_n), and what each member says of each simulation.

    Arrays are held and not copied, where they are NumPy arrays of float64: do not change them afterwards.
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
        S: how many draws stood behind ``rank``, if the draws are not given; calibration bands look at it.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.normal(size=(5, 2))
        >>> Table(theta, draws=rng.normal(size=(3, 5, 100, 2)))
        Table(K=3 members, N=5 simulations, d=2 parameters; gives draws, interval, mean, moments, rank)
    """

    # Whether its arrays are in memory; see :meth:`open` for tables that are read as they are worked through.
    resident: bool = True

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
        S: int | None = None,
    ) -> None:
        sizes: dict[str, int] = {}
        self.theta = np.array(checked("theta", theta, "Nd", sizes), float)
        if not np.isfinite(self.theta).all():
            rows = np.flatnonzero(~np.isfinite(self.theta).all(1))
            raise ValueError(f"`theta` must be finite; {count_and_first_few(rows)} of {self.N} rows are not.")

        # Every statistic has axes (K, N, ...), so that selecting members and rows is one rule for all.
        self._statistics: MutableMapping[str | float, Any] = {}
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
            self._statistics[level_key(level)] = _float(array)
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
        if "rank" in self._statistics:
            check_shares(self.rank)

        self.K: int = sizes["K"]
        self.y = None if y is None else as_numpy(y)
        if self.y is not None and (self.y.ndim == 0 or len(self.y) != self.N):
            raise ValueError(f"`y` must have N = {self.N} rows; got shape {self.y.shape}.")
        self.names = different_names("names", names, self.K, "member")
        self.parameters = different_names("parameters", parameters, self.d, "theta")
        self.weighted = row_weights is not None
        self.row_weights = scaled_weights(row_weights, self.N)
        self.left_out, self._S = dict(left_out or {}), S
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
        """How many draws a member and simulation, kept or behind the ranks; None if that is not known."""
        return self.draws.shape[2] if "draws" in self._statistics else self._S

    @property
    def effective_rows(self) -> float:
        """1 / Σ a_n²: the number of equally weighted rows that carry as much."""
        return effective_rows(self.row_weights)

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
        return self._derived("rank", lambda draws: share_below(draws, self.theta[:, None, :], 1))

    @property
    def mean(self) -> np.ndarray:
        """Posterior means, (K, N, d)."""
        return self._derived("mean", lambda draws: draws.mean(1, dtype=float))

    @property
    def cov(self) -> np.ndarray:
        """Posterior covariances, (K, N, d, d), with divisor S − 1."""
        if "draws" in self._statistics and "cov" not in self._statistics and (self.S or 0) < 2:
            raise ValueError("a covariance needs at least 2 draws a simulation; got 1.")
        return self._derived("cov", covariance)

    def quantile(self, level: float) -> np.ndarray:
        """Posterior quantiles at ``level``, (K, N, d)."""
        if not 0 < level < 1:
            raise ValueError(f"a quantile's level must be in (0, 1); got {level}.")
        if level_key(level) not in self._statistics and "draws" not in self._statistics:
            raise ValueError(
                f"the table has neither draws nor quantiles at level {level:g} (it has {list(self.levels)}). "
                "Tabulate with that level, or give draws."
            )
        return self._derived(level_key(level), lambda draws: np.quantile(draws, level, axis=1))

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
            return np.stack([share_below(values, truth, 0) for values in of_draws])[..., None]

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
        k = positions("members", members, self.names)
        n = positions("rows", rows, range(self.N))
        if rows is None and np.array_equal(k, np.arange(self.K)):
            return self  # tables never change, and what was derived need not be derived again

        def part(array: Any) -> np.ndarray:
            if isinstance(array, np.ndarray):
                # All in C order: sums go along memory, and in another layout their last digits would be others.
                return array[k] if rows is None else array.take(n, 1) if members is None else array[np.ix_(k, n)]
            return np.stack([np.asarray(array[int(i)])[n] for i in k])

        chosen = self._bare(self.theta[n], None if self.y is None else self.y[n])
        chosen.K, chosen.names = len(k), tuple(self.names[i] for i in k)
        chosen._statistics = {key: part(array) for key, array in self._statistics.items()}
        weights = self.row_weights[n] if self.weighted else None
        if weights is not None and weights.sum() == 0:
            raise ValueError("all selected rows have `row_weights` 0.")
        chosen.weighted, chosen.row_weights = self.weighted, scaled_weights(weights, len(n))
        return chosen

    def carrying(self) -> Table:
        """The rows that carry weight: 0 · (−∞) of another would be NaN."""
        none = self.weighted and self.row_weights == 0
        return self.select(rows=np.flatnonzero(~none)) if np.any(none) else self

    def split(self, fraction: float = 0.5, seed: int = 0) -> tuple[Table, Table]:
        """Two tables of disjoint rows, the first with ``fraction`` of them, chosen at random by ``seed``."""
        first = round(fraction * self.N)
        if not 0 < first < self.N:
            raise ValueError(f"`fraction` must leave rows on both sides; got {fraction} of N = {self.N} rows.")
        order = np.random.default_rng(seed).permutation(self.N)
        return self.select(rows=np.sort(order[:first])), self.select(rows=np.sort(order[first:]))

    def reweighted(self, row_weights: np.ndarray) -> Table:
        """The same table with other row weights (kernel weights near an observation, for one)."""
        other = self.scratch()
        other.weighted, other.row_weights = True, scaled_weights(row_weights, self.N)
        return other

    def scratch(self) -> Table:
        """The same table with a memory of its own: what is remembered on it goes when it goes."""
        other = self._bare(self.theta, self.y)
        other.K, other.names, other._statistics = self.K, self.names, self._statistics
        other.weighted, other.row_weights = self.weighted, self.row_weights
        return other

    def _bare(self, theta: np.ndarray, y: np.ndarray | None) -> Table:
        """A table with these rows, our parameters, and no members yet; checked already, so not checked again."""
        table = object.__new__(Table)
        table.theta, table.y, table.parameters, table._memory = theta, y, self.parameters, {}
        table.left_out, table._S = self.left_out, self._S
        return table

    # ── sums over rows ───────────────────────────────────────────────────────────────────────────────────

    def each(self, part: Callable[..., T], *arguments: Any) -> Iterator[T]:
        """``part(block, *arguments)`` for every block of rows, in order; a table in memory is the one block.

        A block is a table whose ``row_weights`` are those its rows have in the whole, so what is a mean over rows
        here is, there, the block's share of it.
        """
        yield part(self, *arguments)

    def total(self, part: Callable[..., tuple[Any, ...]], *arguments: Any) -> tuple[Any, ...]:
        """The sum of ``part(block, *arguments)`` over the blocks, entry by entry of the tuples it returns."""
        return part(self, *arguments)

    def reading(self, needs: Iterable[str], client: Executor | None = None) -> Table:
        """The same table, ready to be worked through for these statistics, by a ``client`` if there is one.

        A table in memory is ready: there is nothing to send away.
        """
        return self

    def in_memory(self, needs: Iterable[str] | None = None) -> Table:
        """The table with its arrays in memory; of one on disk, with what these statistics take (None: all)."""
        return self

    def part(self, needs: Iterable[str], rows: slice | np.ndarray) -> Table:
        """A table of some rows in memory, with what it takes for these statistics alone."""
        part = self.scratch()
        part._statistics = {key: self._statistics[key] for key in columns_for(needs, self._statistics)}
        return part.select(rows=rows)

    def bytes_of_row(self, needs: Iterable[str]) -> int:
        """What a row takes, of what these statistics take."""
        columns = [self._statistics[key] for key in columns_for(needs, self._statistics)]
        return sum(array.dtype.itemsize * math.prod(array.shape) // self.N for array in columns)

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
        """Read what :meth:`save` wrote into memory."""
        return cls(**table_files.load(path))

    @staticmethod
    def open(path: str | os.PathLike[str], memory: int = 2**30) -> StoredTable:
        """The table at ``path`` (``.zarr``) without reading it: for tables larger than memory.

        :func:`drystone.stack` works through it in blocks of rows; selecting rows or members reads nothing. Its
        checksum is looked at if it would fit into ``memory``.

        Args:
            path: what :meth:`save` or :meth:`create` wrote.
            memory: bytes that what is asked for as a whole (``table.rank``, say) may take.
        """
        from drystone.table.blocks import StoredTable

        return StoredTable.at(path, memory)

    @staticmethod
    def create(
        path: str | os.PathLike[str],
        rows: int,
        names: Sequence[str],
        parameters: Sequence[str] | None = None,
    ) -> Writer:
        """A table at ``path`` (``.zarr``) to be written in parts; see :class:`drystone.table.disk.Writer`."""
        return table_files.Writer(path, rows, names, parameters)

    def __repr__(self) -> str:
        gives = ", ".join(sorted(self.gives))
        sizes = f"K={self.K} members, N={self.N} simulations, d={self.d} parameters"
        return f"{type(self).__name__}({sizes}; gives {gives})"


def _float(array: np.ndarray) -> np.ndarray:
    """In float64 and writeable, which torch asks of arrays it shares; copied only if it is not."""
    return np.require(array, float, "W")
