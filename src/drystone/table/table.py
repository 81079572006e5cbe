r"""The table: what K approximate posteriors say of N simulations.

It is the one object that crosses from "K inferences" to "stack them": nothing after it knows what a network is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import as_numpy, checked, shareable
from drystone._messages import counted, html_table
from drystone.estimate import effective_rows
from drystone.table import blocks, disk
from drystone.table.inputs import (
    Selection,
    check_in_range,
    check_ordered,
    check_shares,
    check_symmetric,
    parameter_names,
    positions,
    scaled_weights,
    unique_names,
)
from drystone.table.join import joined
from drystone.table.sources import MemoryRows, StoredRows
from drystone.table.statistics import (
    CAPABILITIES,
    ROW_ARRAYS,
    SCHEMA,
    Key,
    axes_of,
    capabilities,
    level_key,
    name_of,
    share_below,
)

if TYPE_CHECKING:
    import xarray

    from drystone.table.disk import Writer

__all__ = ["Statistic", "Table"]

# A quantity of interest f(θ, y): theta (..., N, d) and y (N, ...) give (..., N).
Statistic = Callable[[np.ndarray, np.ndarray | None], np.ndarray]


class Table:
    r"""K members × N simulations (θ_n, y_n), and what each member says of each simulation.

    Arrays are held and not copied, where they are NumPy arrays of float64: do not change them afterwards.
    Any of the statistics may be missing; ``rank``, ``mean``, ``cov`` and ``quantiles`` are derived from
    ``draws`` when asked for, one member at a time, so deriving them never holds a second copy of the draws.

    Members may have different statistics (MCMC draws have no density, some densities no sampler): the rows of one
    that lacks a statistic are NaN, and :meth:`has` tells which members have it. Masked entries are NaN too.

    Args:
        theta: true parameters, (N, d).
        y: data, (N, ...). Only forms and statistics that look at the data need it.
        log_q: log densities log q_k(θ_n | y_n), (K, N).
        draws: draws θ̃_kns from q_k(· | y_n), (K, N, S, d). Kept as they come (dtype, NumPy or Zarr array).
        rank: share of draws ≤ θ_n (Eq. 3), (K, N, d), in [0, 1].
        quantiles: ``{level: (K, N, d)}``; they rise with the level.
        mean: posterior means, (K, N, d).
        cov: posterior covariances, (K, N, d, d).
        names: the members' names.
        parameters: the parameters' names; None for those of the columns, if ``theta`` is a pandas ``DataFrame`` or
            a labelled xarray ``DataArray``.
        row_weights: a_n ≥ 0, (N,); scaled to sum 1. Importance weights if θ came from a proposal.
        left_out: members that could not be tabulated, and why; for the record.
        S: how many draws stood behind ``rank``, if the draws are not given; calibration bands look at it.
        lacking: names of the members that cannot give a statistic, by statistic; None for those whose rows of it
            are all NaN, where other members have it.
        points: shared points θ_nm ~ r(· | y_n), (N, M, d), of which the first is θ_n itself: forms that must be
            normalized (:class:`~drystone.Product`) are normalized there. ``ds.tabulate(..., points=...)`` makes
            them.
        log_r: log r(θ_nm | y_n), (N, M).
        log_prior: log p(θ_nm), (N, M); None if the prior is not known.
        log_f: log density of each member at the points, (K, N, M): its posterior density log q_k(θ_nm | y_n) or,
            of a likelihood, log q_k(y_n | θ_nm).
        likelihoods: the members whose ``log_f`` is a log likelihood, and whether it is a normalized density of y.
        effective: effective number of points behind a member's normalization, (K, N); NaN for one that needs none.
        pareto: Pareto shape k̂ of the weights of these points, (K, N): above 0.7 they are not to be relied on.
        width: by how many nats ``log_q`` may err low, because the points at which it is normalized are too few or
            miss θ_n, (K, N).

    Attributes:
        names: The members' names.
        parameters: The parameters' names.
        S: How many draws per member and simulation, held or behind the ranks; None if that is not known.
        weighted: Whether row weights were given.
        left_out: Members that could not be tabulated, and why.
        lacking: Names of the members without a statistic, by statistic; those that all members have are not in it.
        likelihoods: Members whose ``log_f`` is a log likelihood, and whether it is a normalized density of y.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.normal(size=(5, 2))
        >>> Table(theta, draws=rng.normal(size=(3, 5, 100, 2)))
        Table(K=3 members, N=5 simulations, d=2 parameters; gives draws, interval, mean, moments, rank)
    """

    names: tuple[str, ...]
    parameters: tuple[str, ...]
    S: int | None
    weighted: bool
    left_out: dict[str, str]
    lacking: dict[str, tuple[str, ...]]
    likelihoods: dict[str, bool]

    def __init__(
        self,
        theta: ArrayLike,
        y: ArrayLike | None = None,
        log_q: ArrayLike | None = None,
        draws: ArrayLike | None = None,
        rank: ArrayLike | None = None,
        quantiles: Mapping[float, ArrayLike] | None = None,
        mean: ArrayLike | None = None,
        cov: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        parameters: Sequence[str] | None = None,
        row_weights: ArrayLike | None = None,
        left_out: Mapping[str, str] | None = None,
        S: int | None = None,
        lacking: Mapping[str, Sequence[str]] | None = None,
        points: ArrayLike | None = None,
        log_r: ArrayLike | None = None,
        log_prior: ArrayLike | None = None,
        log_f: ArrayLike | None = None,
        likelihoods: Mapping[str, bool] | None = None,
        effective: ArrayLike | None = None,
        pareto: ArrayLike | None = None,
        width: ArrayLike | None = None,
    ) -> None:
        sizes: dict[str, int] = {}
        arrays = {"theta": _checked_theta(theta, sizes)}
        arrays |= _checked_points({"points": points, "log_r": log_r, "log_prior": log_prior}, log_f, sizes)
        values = {"log_q": log_q, "rank": rank, "mean": mean, "cov": cov, "quantiles": quantiles, "draws": draws}
        values |= {"log_f": log_f, "effective": effective, "pareto": pareto, "width": width}
        # Every statistic has axes (K, N, ...), so that selecting members and rows is one rule for all.
        statistics = _checked_statistics(values, sizes)
        N, K = sizes["N"], sizes["K"]
        if y is not None:
            arrays["y"] = as_numpy(y)
            if arrays["y"].ndim == 0 or len(arrays["y"]) != N:
                raise ValueError(f"`y` must have N = {N} rows; got shape {arrays['y'].shape}.")
        names = unique_names("names", names, K, "member")
        _check_values(statistics, names)
        self._fill(
            MemoryRows(N, arrays, statistics),
            names,
            parameter_names(parameters, theta, sizes["d"]),
            None if row_weights is None else scaled_weights(row_weights, N),
            dict(left_out or {}),
            sizes.get("S", S),
            _without_rows(statistics, names) if lacking is None else lacking,
            likelihoods or {},
        )

    def _fill(
        self,
        source: MemoryRows | StoredRows,
        names: tuple[str, ...],
        parameters: tuple[str, ...],
        weights: np.ndarray | None,
        left_out: dict[str, str],
        S: int | None,
        lacking: Mapping[str, Sequence[str]],
        likelihoods: Mapping[str, bool],
    ) -> None:
        """Set all attributes. Weights are None for equal ones, which a table on disk does not hold."""
        self._source, self.names, self.parameters = source, names, parameters
        self._weights, self.weighted = weights, weights is not None
        self.left_out, self.S = left_out, S
        self.likelihoods = {name: bool(value) for name, value in likelihoods.items() if name in names}
        held = {name_of(key) for key in source.keys}
        derivable = [name for name, statistic in SCHEMA.items() if statistic.from_draws and name not in held]
        self.lacking = _in_order({**lacking, **dict.fromkeys(derivable, lacking.get("draws", ()))}, names)
        self._cache: dict[Any, Any] = {}

    def _with(self, source: MemoryRows | StoredRows, weights: np.ndarray | None) -> Table:
        """Return the table of the same members with other rows and weights, and a cache of its own."""
        other = copy(self)
        other._source, other._weights, other._cache = source, weights, {}
        return other

    # ── sizes ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def K(self) -> int:
        """How many members."""
        return len(self.names)

    @property
    def N(self) -> int:
        """How many simulations."""
        return self._source.N

    @property
    def d(self) -> int:
        """How many parameters."""
        return len(self.parameters)

    @property
    def effective_rows(self) -> float:
        """1 / Σ a_n²: the number of equally weighted rows that carry as much."""
        if self._weights is None and not blocks.in_memory(self):
            return float(self.N)
        return effective_rows(self.row_weights)

    @property
    def gives(self) -> frozenset[str]:
        """The statistics that a member can provide: of log_q, rank, mean, moments, interval, draws, points."""
        if not self.lacking:
            return capabilities(self._source.keys)
        return frozenset().union(*map(self._gives_of, self.names))

    def has(self, statistic: str) -> np.ndarray:
        """Return which members give a statistic, (K,) of bool.

        Args:
            statistic: of log_q, rank, mean, moments, interval, draws, points.

        Example:
            >>> log_q = np.array([[-1.0, -2.0], [np.nan, np.nan]])
            >>> Table(np.zeros((2, 1)), log_q=log_q, names=["flow", "chains"]).has("log_q")
            array([ True, False])
        """
        if statistic not in CAPABILITIES:
            raise ValueError(f"`statistic` must be one of {', '.join(CAPABILITIES)}; got {statistic!r}.")
        if not self.lacking:
            return np.full(self.K, statistic in self.gives)
        return np.array([statistic in self._gives_of(name) for name in self.names])

    def _gives_of(self, member: str) -> frozenset[str]:
        """Return what one member gives."""
        lacking = {name for name, members in self.lacking.items() if member in members}
        return capabilities([key for key in self._source.keys if name_of(key) not in lacking])

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def theta(self) -> np.ndarray:
        """True parameters, (N, d)."""
        return self._source.array("theta")

    @property
    def y(self) -> np.ndarray | None:
        """Data, (N, ...), or None."""
        return self._source.array("y") if "y" in self._source.row_arrays else None

    @property
    def row_weights(self) -> np.ndarray:
        """a_n, (N,), summing to one."""
        return blocks.cached(self, _equal_weights) if self._weights is None else self._weights

    # ── statistics ───────────────────────────────────────────────────────────────────────────────────────

    @property
    def log_q(self) -> np.ndarray:
        """log q_k(θ_n | y_n), (K, N); NaN for members without a density."""
        return self._held("log_q")

    @property
    def draws(self) -> Any:
        """θ̃_kns, (K, N, S, d): anything that slices to NumPy along its first axes."""
        return self._held("draws")

    @property
    def rank(self) -> np.ndarray:
        """Share of draws ≤ θ_n (Eq. 3), (K, N, d)."""
        return self._held_or_derived("rank")

    @property
    def mean(self) -> np.ndarray:
        """Posterior means, (K, N, d)."""
        return self._held_or_derived("mean")

    @property
    def cov(self) -> np.ndarray:
        """Posterior covariances, (K, N, d, d), with divisor S − 1."""
        if "draws" in self._source.keys and "cov" not in self._source.keys and (self.S or 0) < 2:
            raise ValueError("a covariance needs at least 2 draws per simulation; got 1.")
        return self._held_or_derived("cov")

    def quantile(self, level: float) -> np.ndarray:
        """Return posterior quantiles at ``level``, (K, N, d)."""
        if not 0 < level < 1:
            raise ValueError(f"a quantile's level must be in (0, 1); got {level}.")
        if level_key(level) not in self._source.keys and "draws" not in self._source.keys:
            raise ValueError(
                f"the table has neither draws nor quantiles at level {level:g} (it has {list(self.levels)}). "
                "Tabulate with that level, or give draws."
            )
        return self._statistic(level_key(level))

    @property
    def levels(self) -> tuple[float, ...]:
        """The levels at which quantiles are held."""
        return tuple(sorted(key for key in self._source.keys if isinstance(key, float)))

    @property
    def points(self) -> np.ndarray:
        """Shared points θ_nm, (N, M, d), the first of which is θ_n."""
        return self._point_array("points")

    @property
    def log_r(self) -> np.ndarray:
        """Log density of the proposal that the shared points were drawn from, (N, M)."""
        return self._point_array("log_r")

    @property
    def log_prior(self) -> np.ndarray | None:
        """Log prior density at the shared points, (N, M); None if it is not known."""
        return self._source.array("log_prior") if "log_prior" in self._source.row_arrays else None

    @property
    def log_f(self) -> np.ndarray:
        """Log density, or log likelihood, of each member at the shared points, (K, N, M)."""
        return self._held("log_f")

    @property
    def effective(self) -> np.ndarray:
        """Effective number of points behind each member's normalization, (K, N); NaN for one that needs none."""
        return self._held("effective")

    @property
    def pareto(self) -> np.ndarray:
        """Pareto shape k̂ of the weights of these points, (K, N)."""
        return self._held("pareto")

    @property
    def width(self) -> np.ndarray:
        """By how many nats ``log_q`` may err low where it is normalized at points, (K, N)."""
        return self._held("width")

    def _point_array(self, name: str) -> np.ndarray:
        if name not in self._source.row_arrays:
            raise ValueError("the table has no shared points; tabulate with points=1000, say.")
        return self._source.array(name)

    def rank_of(self, statistic: Statistic) -> np.ndarray:
        """Return ranks of a quantity of interest, (K, N, 1): the share of draws with f(θ̃, y) ≤ f(θ_n, y)."""
        if blocks.in_memory(self):
            return blocks.cached(self, _rank_of, statistic)
        return blocks.concatenated(self, 8 * self.K * self.N, "rank", _rank_of, statistic)

    def _held(self, name: str) -> Any:
        if name not in self._source.keys:
            raise ValueError(f"the table has no `{name}`; it gives: {', '.join(sorted(self.gives))}.")
        return self._statistic(name)

    def _held_or_derived(self, name: str) -> np.ndarray:
        if name not in self._source.keys and "draws" not in self._source.keys:
            raise ValueError(f"the table has neither `{name}` nor `draws` to derive it from.")
        return self._statistic(name)

    def _statistic(self, key: Key) -> Any:
        """Return a statistic that is held or can be derived from draws."""
        if isinstance(self._source, MemoryRows):
            return self._source.statistic(key)
        return blocks.statistic_of_all_rows(self, key)

    # ── parts ────────────────────────────────────────────────────────────────────────────────────────────

    def select(self, members: Selection = None, rows: Selection = None) -> Table:
        """Return the table of some members and some rows; of a table on disk nothing is read.

        Args:
            members: by name, position, mask or slice; None for all.
            rows: by position, mask or slice; None for all. Of a table on disk in increasing order.
        """
        return self._part(members, rows, self._source.select)

    def _part(self, members: Selection, rows: Selection, select: Callable[..., tuple[Any, Any]]) -> Table:
        """Return some members and rows, for which ``select`` finds the source and where the rows are."""
        k = positions("members", members, self.names)
        all_members = np.array_equal(k, np.arange(self.K))
        if rows is None and all_members:
            return self  # tables never change, and what was derived need not be derived again
        source, where = select(None if all_members else k, rows)
        weights = self._weights
        if rows is not None and self.weighted and weights is not None:
            weights = weights[where]
            if weights.sum() == 0:
                raise ValueError("all selected rows have `row_weights` 0.")
            weights = scaled_weights(weights, source.N)
        elif rows is not None:
            weights = None
        selected = self._with(source, weights)
        selected.names = tuple(self.names[i] for i in k)
        selected.lacking = _in_order(self.lacking, selected.names)
        selected.likelihoods = {
            name: self.likelihoods[name] for name in selected.names if name in self.likelihoods
        }
        return selected

    def join(self, other: Table) -> Table:
        """Return the table of the members of both, which must be of the same rows; in memory.

        A statistic that only one of them has is kept, with rows of NaN for the members of the other. Of the levels
        of quantiles, and of the draws if their numbers differ, those are kept that both have, with a warning.

        Args:
            other: a table with the same ``theta``, ``y``, row weights and parameters, and members of other names.
        """
        return Table(**joined(self, other))

    def split(self, fraction: float = 0.5, seed: int = 0) -> tuple[Table, Table]:
        """Return two tables of disjoint rows, ``fraction`` of them in the first, chosen at random by ``seed``."""
        first = round(fraction * self.N) if 0 < fraction < 1 else 0
        if not 0 < first < self.N:
            raise ValueError(f"`fraction` must leave rows on both sides; got {fraction} of N = {self.N} rows.")
        order = np.random.default_rng(seed).permutation(self.N)
        return self.select(rows=np.sort(order[:first])), self.select(rows=np.sort(order[first:]))

    def reweighted(self, row_weights: ArrayLike) -> Table:
        """Return the same table with other row weights (kernel weights near an observation, for one)."""
        other = self._with(self._source, scaled_weights(row_weights, self.N))
        other.weighted = True
        return other

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────

    def to_xarray(self) -> xarray.Dataset:
        """Return an xarray Dataset with dims member, simulation, draw, parameter, level."""
        return disk.to_dataset(self)

    @classmethod
    def from_xarray(cls, dataset: xarray.Dataset) -> Table:
        """Return the table of a Dataset as :meth:`to_xarray` makes it."""
        return cls(**disk.from_dataset(dataset))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to ``path``: a Zarr store (``.zarr``) or netCDF (``.nc``), whole or not at all."""
        disk.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Table:
        """Read what :meth:`save` wrote into memory."""
        with disk.reading(path):
            return cls(**disk.load(path))

    @classmethod
    def open(cls, path: str | os.PathLike[str], memory: int = 2**30) -> Table:
        """Return the table at ``path`` (``.zarr``) without reading it: for tables larger than memory.

        :func:`drystone.stack` works through it in blocks of rows; selecting rows or members reads nothing. Its
        checksum is verified if it would fit into ``memory``. A statistic of all rows (``table.rank``, say) is read
        if it takes at most ``memory`` bytes, else an error says how large it is and what to do instead.

        Args:
            path: what :meth:`save` or :meth:`create` wrote.
            memory: bytes that may be read at once. :func:`drystone.stack` takes no more than these, beyond a few
                blocks of rows of 64 MB, with all that it makes of them.
        """
        source = disk.open_rows(path, memory)
        attributes, store = source.store.attributes, source.store
        with disk.reading(path):
            weights = store.read_rows("row_weights", source.rows) if "row_weights" in store.group else None
            table = cls.__new__(cls)
            table._fill(
                source,
                unique_names("names", attributes["member"], len(source.members), "member"),
                unique_names("parameters", attributes["parameter"], store.array("theta").shape[1], "theta"),
                None if weights is None else scaled_weights(weights, source.N),
                disk.left_out(attributes),
                store.array("draws").shape[2] if "draws" in source.keys else attributes.get("S"),
                disk.lacking(attributes) or {},
                disk.likelihoods(attributes),
            )
        return table

    @staticmethod
    def create(
        path: str | os.PathLike[str],
        rows: int,
        names: Sequence[str],
        parameters: Sequence[str] | None = None,
    ) -> Writer:
        """Return a :class:`~drystone.table.disk.Writer` of a table at ``path`` (``.zarr``), in parts."""
        return disk.Writer(path, rows, names, parameters)

    def __repr__(self) -> str:
        gives = ", ".join(sorted(self.gives))
        sizes = (
            f"K={counted(self.K, 'member')}, N={counted(self.N, 'simulation')}, d={counted(self.d, 'parameter')}"
        )
        return f"Table({sizes}; gives {gives}{'' if blocks.in_memory(self) else '; on disk'})"

    def _repr_html_(self) -> str:
        """Return the members and what each of them gives; nothing is computed or read for it."""
        statistics = sorted(self.gives - {"points"})
        has = {name: self.has(name) for name in statistics}
        rows = [[name, *("✓" if has[s][k] else "" for s in statistics)] for k, name in enumerate(self.names)]
        left_out = [f"left out: {name} ({why})" for name, why in self.left_out.items()]
        return html_table(repr(self), ["member", *statistics], rows, left_out)


def _checked_theta(theta: ArrayLike, sizes: dict[str, int]) -> np.ndarray:
    """Return true parameters as a copy, or say what is wrong."""
    array = np.array(checked("theta", theta, "Nd", sizes), float)
    check_in_range("theta", array)
    return array


def _checked_points(
    values: Mapping[str, ArrayLike | None], log_f: ArrayLike | None, sizes: dict[str, int]
) -> dict[str, np.ndarray]:
    """Return those of the arrays of shared points that are not None, or say what is wrong."""
    arrays = {
        name: _float(checked(name, value, ROW_ARRAYS[name], sizes))
        for name, value in values.items()
        if value is not None
    }
    if arrays.keys() | ({"log_f"} if log_f is not None else set()) not in (
        set(),
        {"points", "log_r", "log_f"},
        {"points", "log_r", "log_prior", "log_f"},
    ):
        raise ValueError(
            "shared points need `points`, `log_r`, `log_f` and, if it is known, `log_prior`; got "
            f"{', '.join(sorted(arrays)) or 'none of the first three'}{'' if log_f is None else ' and log_f'}."
        )
    return arrays


def _checked_statistics(values: Mapping[str, Any], sizes: dict[str, int]) -> dict[Key, Any]:
    """Return those of the statistics that are not None, by key, or say what is wrong."""
    statistics: dict[Key, Any] = {}
    for name in SCHEMA:
        value = values[name]
        if name == "quantiles":
            for level, quantiles in (value or {}).items():
                if not 0 < level < 1:
                    raise ValueError(f"levels of `quantiles` must be in (0, 1); got {level}.")
                key = level_key(level)
                statistics[key] = _float(checked(f"quantiles[{level}]", quantiles, axes_of(key), sizes))
        elif name == "draws" and value is not None:
            statistics[name] = _checked_draws(value, sizes)
        elif value is not None:
            statistics[name] = _float(checked(name, value, axes_of(name), sizes))
    if "K" not in sizes:
        names = ", ".join(f"`{name}`" for name in SCHEMA)
        raise ValueError(f"a Table needs at least one of {names}; got none.")
    if 0 in sizes.values():
        raise ValueError(f"a Table needs at least one row of each kind; got sizes {sizes}.")
    return statistics


def _check_values(statistics: Mapping[Key, Any], names: Sequence[str]) -> None:
    """Raise if the values of a statistic cannot be what they are said to be."""
    if "rank" in statistics:
        check_shares(statistics["rank"])
    if "cov" in statistics:
        check_symmetric(statistics["cov"], names)
    check_ordered({key: array for key, array in statistics.items() if isinstance(key, float)}, names)


def _without_rows(statistics: Mapping[Key, Any], names: Sequence[str]) -> dict[str, list[str]]:
    """Return the members whose rows of a statistic are all NaN, where those of others are not, by statistic."""
    lacking: dict[str, list[str]] = {}
    for key, array in statistics.items():
        if not isinstance(array, np.ndarray):  # in files, which say themselves what they hold
            continue
        # The first row tells of most members that they have it; only of the others is more looked at.
        empty = [bool(np.isnan(rows[:1]).all() and np.isnan(rows).all()) for rows in array]
        if any(empty) and not all(empty):
            lacking[name_of(key)] = [name for name, without in zip(names, empty, strict=True) if without]
    return lacking


def _in_order(lacking: Mapping[str, Sequence[str]], names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the members without a statistic in the order of ``names``; those not among them are left out."""
    ordered = {key: tuple(name for name in names if name in set(members)) for key, members in lacking.items()}
    return {key: members for key, members in ordered.items() if members}


def _checked_draws(draws: Any, sizes: dict[str, int]) -> Any:
    """Return draws as they come, those in files unread, or say what is wrong."""
    if type(draws).__module__.partition(".")[0] in ("zarr", "h5py", "drystone"):
        checked("draws", np.broadcast_to(np.zeros((), draws.dtype), draws.shape), axes_of("draws"), sizes)
        return draws
    array = checked("draws", draws, axes_of("draws"), sizes)
    if array.dtype == bool:  # which cannot be subtracted
        return array.astype(np.int8)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _float(array: np.ndarray) -> np.ndarray:
    """Return an array in float64 that torch can share."""
    return shareable(np.asarray(array, float))


def _equal_weights(table: Table) -> np.ndarray:
    return np.full(table.N, 1 / table.N)


def quantity_at_truth(table: Table, statistic: Statistic) -> np.ndarray:
    """Return a quantity of interest of the true parameters, (N,)."""
    truth = as_numpy(statistic(table.theta, table.y))
    if truth.shape != (table.N,):
        raise ValueError(
            "`statistic` must map theta (..., N, d) and y to (..., N); "
            f"for theta {table.theta.shape} it gave {truth.shape}."
        )
    return truth


def _rank_of(table: Table, statistic: Statistic) -> np.ndarray:
    """Return the ranks of a quantity of interest in a table in memory, (K, N, 1)."""
    truth = quantity_at_truth(table, statistic)
    members = (np.asarray(table.draws[k]) for k in range(table.K))
    of_draws = (as_numpy(statistic(np.moveaxis(draws, 1, 0), table.y)) for draws in members)
    return np.stack([share_below(values, truth, 0) for values in of_draws])[..., None]
