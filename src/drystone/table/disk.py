"""Tables as xarray datasets and as files: Zarr or netCDF, with a format version, never pickle.

A Zarr store has one chunk per member and stretch of rows, so that members can be written one by one and rows be
read a stretch at a time. Chunks are not compressed: the digits of densities and draws are noise.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import dimensions
from drystone._files import (
    open_hdf5,
    open_store,
    recover,
    regular_files,
    replacing,
    seal_file,
    seal_store,
    sealed,
    store_sealed,
    without_seal,
)
from drystone._messages import first_few, require
from drystone.errors import DamagedError
from drystone.table import blocks
from drystone.table.inputs import check_ordered
from drystone.table.sources import Store, StoredRows
from drystone.table.statistics import ROW_ARRAYS, SCHEMA, as_arguments

if TYPE_CHECKING:
    import xarray

    from drystone.table.table import Table

__all__ = [
    "BLOCK",
    "Writer",
    "check_format",
    "from_dataset",
    "lacking",
    "left_out",
    "likelihoods",
    "load",
    "named_axes",
    "open_rows",
    "reading",
    "rows_within",
    "save",
    "to_dataset",
]

# Version 1 had no seal, or one of the arrays alone.
FORMAT, VERSION, UNSEALED = "drystone-table", 2, 1
# Bytes of a block of rows of one statistic of all members: what is worked on at a time.
BLOCK = 2**26
# The axes of every array of a file. Data have further ones.
AXES = {**ROW_ARRAYS, **{name: statistic.axes for name, statistic in SCHEMA.items()}}


def named_axes(letters: str, ndim: int) -> tuple[str, ...]:
    """Return the names of an array's dimensions; those beyond its letters are of data."""
    return (*dimensions(letters), *(f"y_dim_{i}" for i in range(ndim - len(letters))))


def to_dataset(table: Table) -> xarray.Dataset:
    """Return a Dataset with dims member, simulation, draw, parameter, level."""
    require("xarray", "files", "to_xarray")
    import xarray

    arrays = _arrays(table)
    coords: dict[str, Any] = {"member": list(table.names), "parameter": list(table.parameters)}
    if "quantiles" in arrays:
        quantiles = arrays["quantiles"]
        coords["level"] = sorted(quantiles)
        arrays["quantiles"] = np.stack([quantiles[level] for level in coords["level"]])
    data = {name: (named_axes(AXES[name], array.ndim), array) for name, array in arrays.items()}
    attributes = _attributes(table.left_out, table.S, table.lacking, table.likelihoods)
    return xarray.Dataset(data, coords, {**attributes, "version": UNSEALED})


def from_dataset(dataset: xarray.Dataset) -> dict[str, Any]:
    """Return the arguments of the table that a Dataset holds."""
    return _arguments(dataset.attrs, {str(name): dataset[name].values for name in dataset.variables})


def _arrays(table: Table) -> dict[str, Any]:
    """Return all arrays of a table in memory, as arguments of :meth:`Writer.write`."""
    arrays: dict[str, Any] = {name: table._source.array(name) for name in table._source.row_arrays}
    if table.weighted:
        arrays["row_weights"] = table.row_weights
    return arrays | as_arguments({key: table._statistic(key) for key in table._source.keys})


def _attributes(
    left_out: Mapping[str, str],
    S: int | None,
    lacking: Mapping[str, Sequence[str]],
    likelihoods: Mapping[str, bool],
) -> dict[str, Any]:
    """Return the attributes of a file; names of members and parameters come besides."""
    attributes: dict[str, Any] = {"format": FORMAT, "version": VERSION, "lacking": json.dumps(dict(lacking))}
    if left_out:
        attributes["left_out"] = json.dumps(dict(left_out))
    if S is not None:
        attributes["S"] = S
    if likelihoods:
        attributes["likelihoods"] = json.dumps(dict(likelihoods))
    return attributes


def left_out(attributes: Mapping[Any, Any]) -> dict[str, str]:
    """Return the members that could not be tabulated, and why, from a file's attributes."""
    return json.loads(attributes.get("left_out", "{}"))


def lacking(attributes: Mapping[Any, Any]) -> dict[str, list[str]] | None:
    """Return the members without a statistic, by statistic; None if the file, of version 0.1, does not say."""
    return json.loads(attributes["lacking"]) if "lacking" in attributes else None


def likelihoods(attributes: Mapping[Any, Any]) -> dict[str, bool]:
    """Return the members that are likelihoods, and whether they are densities of y, from a file's attributes."""
    return json.loads(attributes.get("likelihoods", "{}"))


def _arguments(attributes: Mapping[Any, Any], arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    check_format(attributes)
    arguments: dict[str, Any] = {name: arrays[name] for name in AXES if name in arrays}
    if "quantiles" in arrays:
        arguments["quantiles"] = dict(zip(map(float, arrays["level"]), arrays["quantiles"], strict=True))
    arguments["names"], arguments["parameters"] = (
        [str(value) for value in np.atleast_1d(attributes.get(dim, arrays.get(dim, ())))]
        for dim in dimensions("Kd")
    )
    arguments["left_out"], arguments["lacking"] = left_out(attributes), lacking(attributes)
    arguments["likelihoods"] = likelihoods(attributes)
    arguments["S"] = int(attributes["S"]) if "S" in attributes else None
    return arguments


def check_format(attributes: Mapping[Any, Any]) -> None:
    """Raise if a file with these attributes is not a table, or was written by a later version."""
    kind, version = attributes.get("format"), int(attributes.get("version", 0))
    if kind != FORMAT:
        raise ValueError(f"not a Drystone table: attribute `format` is {kind!r}, expected {FORMAT!r}.")
    if version > VERSION:
        raise ValueError(
            f"the table has format version {version}; this Drystone reads up to {VERSION}. Upgrade it."
        )


def save(table: Table, path: str | os.PathLike[str]) -> None:
    """Write a table, whole or not at all."""
    if _suffix(path) == ".nc":
        # Names travel as attributes, as they do in Zarr, whose specification has no arrays of strings yet.
        dataset = to_dataset(table).drop_vars(["member", "parameter"])
        names = {"member": list(table.names), "parameter": list(table.parameters)}
        dataset = dataset.assign_attrs(version=VERSION, **names)
        with replacing(path) as temporary:
            dataset.to_netcdf(temporary, engine="h5netcdf")
            seal_file(temporary)
        return
    with Writer(path, table.N, table.names, table.parameters) as new:
        start, new.left_out, new.S, new.likelihoods = 0, table.left_out, table.S, table.likelihoods
        having = {
            name: [k for k, member in enumerate(table.names) if member not in members]
            for name, members in table.lacking.items()
        }
        for arrays in blocks.each(table, _arrays):
            draws = arrays.pop("draws", ())
            for name in arrays.keys() & having.keys():
                new.write(start, having[name], **{name: _of_members(arrays.pop(name), having[name])})
            new.write(start, **arrays)
            for k in having.get("draws", range(len(draws))):  # one by one: they may lie in files themselves
                new.write(start, [k], draws=np.asarray(draws[k])[None])
            start += len(arrays["theta"])


def _of_members(arrays: Any, members: list[int]) -> Any:
    """Return some members of a statistic (K, N, ...), or of each level of the quantiles."""
    if isinstance(arrays, Mapping):
        return {level: array[members] for level, array in arrays.items()}
    return arrays[members]


def open_rows(path: str | os.PathLike[str], memory: int) -> StoredRows:
    """Return the rows of a Zarr store, of which at most ``memory`` bytes may be read at once."""
    path = Path(path)
    if path.suffix != ".zarr":
        raise ValueError(f"only a `.zarr` table can be opened without reading it; got '{path}'. Use Table.load.")
    require("zarr", "files", "a `.zarr` table")
    store = Store(str(path.resolve()))
    with reading(path):
        open_store(path)
        attributes = store.attributes
        check_format(attributes)
        has_seal = "seal" in attributes
        if sum(regular_files(path).values()) <= memory:  # a larger one would be read twice
            has_seal = store_sealed(path)
        _check_sealed(path, has_seal, attributes)
        _check_shapes(store)
        rows = range(store.array("theta").shape[0])
    return StoredRows(store, np.arange(len(attributes["member"])), rows, memory)


def _check_sealed(path: Path, has_seal: bool, attributes: Mapping[Any, Any]) -> None:
    """Raise if a table has no seal although its version has one."""
    if not has_seal and int(attributes.get("version", 0)) > UNSEALED:
        raise without_seal(path)


def _check_shapes(store: Store) -> None:
    """Raise if the arrays of a store do not fit each other and the names in its attributes."""
    sizes: dict[str, int] = {
        letter: len(store.attributes[dim]) for letter, dim in zip("Kd", dimensions("Kd"), strict=True)
    }
    for name, axes in {**AXES, "level": "L"}.items():
        if name in store.group:
            shape = store.array(name).shape
            if len(shape) < len(axes) or (name != "y" and len(shape) > len(axes)):
                raise ValueError(f"`{name}` has shape {shape}; expected {len(axes)} axes.")
            for letter, size in zip(axes, shape, strict=False):
                if sizes.setdefault(letter, size) != size:
                    raise ValueError(f"`{name}` has shape {shape}; expected {letter} = {sizes[letter]}.")


class Writer:
    """A table on disk that is written in parts, as :meth:`drystone.Table.create` gives it.

    Args:
        path: where; nothing is there until the end of the ``with`` statement, and then all of it.
        rows: N.
        names: the members' names.
        parameters: the parameters' names.
        block: bytes of a block of rows of all members.

    Example:
        >>> import tempfile
        >>> from drystone import Table
        >>> path = tempfile.mkdtemp() + "/table.zarr"
        >>> with Table.create(path, rows=4, names=["a", "b"]) as new:
        ...     for start in (0, 2):
        ...         new.write(start, theta=np.ones((2, 1)), log_q=np.zeros((2, 2)))
        >>> Table.open(path)
        Table(K=2 members, N=4 simulations, d=1 parameter; gives log_q; on disk)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        rows: int,
        names: Sequence[str],
        parameters: Sequence[str] | None = None,
        block: int = BLOCK,
    ) -> None:
        if _suffix(path) != ".zarr":
            raise ValueError(f"a table is written in parts as `.zarr`; got {os.fspath(path)!r}.")
        self.path, self.rows, self.names, self.parameters, self.block = path, rows, list(names), parameters, block
        self.left_out: Mapping[str, str] = {}
        self.S: int | None = None
        self.likelihoods: Mapping[str, bool] = {}
        self._written: dict[str, np.ndarray] = {}  # whether: (K, N), or (1, N) without members
        self._levels: list[float] = []
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        import zarr

        with ExitStack() as stack:
            self._temporary = stack.enter_context(replacing(self.path))
            self._group = zarr.create_group(self._temporary)
            self._exit = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if error is None:
            try:
                self._finish()
            except BaseException as problem:
                self._exit.__exit__(type(problem), problem, problem.__traceback__)
                raise
        return self._exit.__exit__(kind, error, trace)

    def write(
        self,
        start: int,
        members: Sequence[int] | slice = slice(None),
        *,
        quantiles: Mapping[float, ArrayLike] | None = None,
        **arrays: ArrayLike,
    ) -> None:
        """Write rows from ``start`` on; those that were written before are replaced.

        Args:
            start: the first row.
            members: positions of the members whose statistics ``arrays`` hold. A member for which a statistic is
                never written is one that lacks it.
            quantiles: ``{level: (members, rows, d)}``, the same levels always; they rise with the level.
            arrays: any of theta, y, row_weights, log_q, rank, mean, cov, draws, points, log_r, log_prior, log_f,
                with the axes of :class:`drystone.Table`.
        """
        if quantiles:
            levels = sorted(quantiles)
            self._levels = self._levels or levels
            if levels != self._levels:
                raise ValueError(f"`quantiles` must have the levels {self._levels} always; got {levels}.")
            arrays["quantiles"] = np.stack([np.asarray(quantiles[level]) for level in levels])
        chosen = np.arange(len(self.names))[members]
        for name, values in arrays.items():
            if name not in AXES:
                raise TypeError(f"a table has no `{name}`; it has {', '.join(AXES)}.")
            self._put(name, np.asarray(values), start, chosen)
        if quantiles:
            by_level = dict(zip(self._levels, np.asarray(arrays["quantiles"]), strict=True))
            check_ordered(by_level, [self.names[k] for k in chosen], start)

    def _put(self, name: str, values: np.ndarray, start: int, members: np.ndarray) -> None:
        axis = AXES[name].index("N")
        n = values.shape[axis] if values.ndim > axis else 0
        if axis and values.shape[axis - 1] != len(members):
            raise ValueError(
                f"`{name}` must be of {len(members)} members; got shape {values.shape}. Is it transposed?"
            )
        if not 0 <= start <= start + n <= self.rows or n == 0:
            raise ValueError(f"`{name}` has rows {start} to {start + n} of a table of {self.rows}.")
        if name not in self._group:
            self._create(name, values, axis)
            self._written[name] = np.zeros((len(self.names) if axis else 1, self.rows), bool)
        array: Any = self._group[name]
        stretch = slice(start, start + n)
        if axis == 0:
            array[stretch] = values
        elif len(members) == len(self.names):
            array[(slice(None),) * axis + (stretch,)] = values
        else:
            array.oindex[(slice(None),) * (axis - 1) + (members, stretch)] = values
        self._written[name][members if axis else 0, stretch] = True

    def _create(self, name: str, values: np.ndarray, axis: int) -> None:
        before = (*values.shape[: axis - 1], len(self.names)) if axis else ()
        rest = values.shape[axis + 1 :]
        # As if every array had members: then theta and y come in stretches like those of the statistics.
        bytes_per_row = values.dtype.itemsize * int(np.prod(rest, dtype=int)) * len(self.names)
        chunk = min(rows_within(self.block, bytes_per_row), self.rows)
        self._group.create_array(
            name,
            shape=(*before, self.rows, *rest),
            dtype=values.dtype,
            chunks=(*(1 for _ in before), chunk, *rest),
            compressors=None,
            fill_value=np.nan if values.dtype.kind == "f" else 0,  # what Zarr reads if a chunk is lost
            config={"write_empty_chunks": True},  # so that none that is missing was meant to be
            dimension_names=named_axes(AXES[name], values.ndim),
        )

    def _finish(self) -> None:
        lacking: dict[str, list[str]] = {}
        for name, written in self._written.items():
            without = ~written.any(1)
            for k in np.flatnonzero(~without & ~written.all(1)):
                of_member = f" of {self.names[k]!r}" if "K" in AXES[name] else ""
                raise ValueError(
                    f"`{name}`{of_member} was not written at {_stretches(~written[k])}; write all rows of a "
                    "member, or none."
                )
            if without.any():
                lacking[name] = [self.names[k] for k in np.flatnonzero(without)]
        if "theta" not in self._written or len(self._written) == 1:
            raise ValueError("a Table needs `theta` and at least one statistic of the members; got none.")
        theta: Any = self._group["theta"]
        parameters = self.parameters or [f"theta_{i}" for i in range(theta.shape[1])]
        if self._levels:
            levels = np.array(self._levels)
            self._group.create_array("level", data=levels, dimension_names=("level",))
        named = dict(zip(dimensions("Kd"), (self.names, list(parameters)), strict=True))
        self._group.attrs.update({**_attributes(self.left_out, self.S, lacking, self.likelihoods), **named})
        seal_store(self._temporary)


def _stretches(missing: np.ndarray) -> str:
    """Return how many rows are missing, and the first few stretches of them."""
    rows = np.flatnonzero(missing)
    stretches = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    shown = first_few([f"{s[0]} to {s[-1]}" if len(s) > 1 else f"{s[0]}" for s in stretches], most=3)
    return f"{len(rows)} of {len(missing)} rows ({shown})"


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the arguments of the table that a file holds."""
    read = _read_zarr if _suffix(path) == ".zarr" else _read_netcdf
    return _arguments(*read(Path(path)))


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Read a table in the body: raise if there is none, and turn any error into one that says it is damaged."""
    _suffix(path)
    recover(path)
    if not Path(path).exists():
        raise FileNotFoundError(f"no table at {os.fspath(path)!r}.")
    try:
        yield
    except (DamagedError, ImportError, PermissionError):
        raise
    except Exception as error:  # each library has errors of its own for files it cannot make sense of
        raise DamagedError(f"{os.fspath(path)!r} cannot be read as a table: {error}") from error


def _read_zarr(path: Path) -> tuple[Mapping[Any, Any], dict[str, np.ndarray]]:
    """Read attributes and arrays by Zarr alone: importing xarray and pandas would take half a second more."""
    group = open_store(path)
    attributes = group.attrs.asdict()
    check_format(attributes)
    _check_sealed(path, store_sealed(path), attributes)
    return attributes, {name: np.asarray(array[...]) for name, array in group.arrays()}


def _read_netcdf(path: Path) -> tuple[Mapping[Any, Any], dict[str, np.ndarray]]:
    has_seal = sealed(path)
    with open_hdf5(path):
        pass
    import xarray

    with xarray.open_dataset(path, engine="h5netcdf") as dataset:
        check_format(dataset.attrs)
        _check_sealed(path, has_seal, dataset.attrs)
        known = (*AXES, "level", *dimensions("Kd"))
        return dataset.attrs, {name: dataset[name].values for name in known if name in dataset.variables}


def _suffix(path: str | os.PathLike[str]) -> str:
    suffix = Path(path).suffix
    if suffix not in (".zarr", ".nc"):
        raise ValueError(f"a table is saved as `.zarr` or `.nc`; got {os.fspath(path)!r}.")
    for module in ("zarr",) if suffix == ".zarr" else ("xarray", "h5netcdf"):
        require(module, "files", f"a `{suffix}` table")
    return suffix


def rows_within(size: int, bytes_per_row: int) -> int:
    """Return how many rows take ``size`` bytes: a power of two, so that stretches of all statistics are nested."""
    return 1 << max(0, (size // max(bytes_per_row, 1)).bit_length() - 1)
