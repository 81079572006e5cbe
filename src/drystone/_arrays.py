"""Arrays as users hold them (NumPy, torch, xarray, lists) to NumPy, with their shapes checked.

Shapes are written with the letters of the paper: K members, N simulations, S draws, d parameters, L levels,
M shared points.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drystone._messages import count_and_first_few

__all__ = [
    "LARGEST",
    "as_integer",
    "as_numpy",
    "checked",
    "dimensions",
    "distinct_rows",
    "entropy_of",
    "frozen",
    "in_range",
    "labels_of_columns",
    "not_finite",
    "rows_not_in_range",
    "rows_of_data",
    "seed_of",
    "shareable",
    "shared_rows",
]

# Sums of squares of larger numbers, and the products of these that solvers form, may overflow.
LARGEST = 1e60

_DIMENSIONS = {"K": "member", "N": "simulation", "S": "draw", "d": "parameter", "L": "level", "M": "point"}


def as_numpy(value: ArrayLike) -> np.ndarray:
    """View ``value`` as a NumPy array; a torch tensor is detached and brought to the CPU first.

    Masked entries are missing values and become NaN, which needs floating numbers.

    Example:
        >>> as_numpy(np.ma.masked_equal([1, 2, 3], 2))
        array([ 1., nan,  3.])
    """
    array: Any = value
    if type(array).__module__.partition(".")[0] == "torch":
        array = array.detach().cpu()
        # NumPy has no bfloat16.
        array = (array.float() if str(array.dtype) == "torch.bfloat16" else array).numpy()
    array = np.asarray(_without_masks(array))
    # JAX's bfloat16, by way of ml_dtypes. The name of a type is slow to look up, its kind is not.
    return array.astype(np.float32) if array.dtype.kind == "V" and array.dtype.name == "bfloat16" else array


def _without_masks(value: Any) -> Any:
    """Return an array, or a list of arrays, with NaN for masked entries; NumPy would use what is below them."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        return np.ma.filled(value if value.dtype.kind == "f" else value.astype(float), np.nan)
    if isinstance(value, list | tuple) and any(isinstance(v, np.ma.MaskedArray | list | tuple) for v in value):
        return [_without_masks(item) for item in value]
    return value


def in_range(values: np.ndarray) -> np.ndarray:
    """Return which numbers are finite and small enough to be squared and added up, entry by entry.

    Example:
        >>> in_range(np.array([1.0, np.nan, -np.inf, 1e200]))
        array([ True, False, False, False])
    """
    if values.dtype != np.float64:  # single precision ends before the largest number
        return np.isfinite(values)
    return (values > -LARGEST) & (values < LARGEST)


def dimensions(letters: str) -> tuple[str, ...]:
    """Return the names of axes in labelled files, no name twice.

    Example:
        >>> dimensions("KNdd")
        ('member', 'simulation', 'parameter', 'parameter_2')
    """
    names = [_DIMENSIONS[letter] for letter in letters]
    return tuple(
        name if i == names.index(name) else f"{name}_{1 + names[:i].count(name)}" for i, name in enumerate(names)
    )


def checked(name: str, value: ArrayLike, letters: str, sizes: dict[str, int]) -> np.ndarray:
    """Return ``value`` as an array whose axes have the ``letters`` of its shape, or say what is wrong.

    Sizes that are not known yet are read off ``value`` and added to ``sizes``, so that the first array to name
    an axis decides and later ones must agree. With one parameter the last axis may be missing. An xarray
    ``DataArray`` with our dimension names is transposed to our order.

    Args:
        name: the argument's name, for the message.
        value: the array.
        letters: one letter per axis, such as ``"KNd"``.
        sizes: known sizes by letter; extended in place.
    """
    labelled: Any = value
    if type(value).__name__ == "DataArray" and set(labelled.dims) == set(dimensions(letters)):
        value = labelled.transpose(*dimensions(letters))
    array = as_numpy(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"`{name}` must hold real numbers; got dtype {array.dtype}.")
    if letters.endswith("d") and array.ndim == len(letters) - 1 and sizes.get("d", 1) == 1:
        array = array[..., None]
    expected = tuple(sizes.get(letter) for letter in letters)
    if not _fits(array.shape, expected):
        named = ", ".join(letters)
        wanted = ", ".join(
            letter if size is None else str(size) for letter, size in zip(letters, expected, strict=True)
        )
        hint = _hint(name, letters, expected, array.shape)
        raise ValueError(f"`{name}` must have shape ({named}) = ({wanted}); got {array.shape}.{hint}")
    for letter, size in zip(letters, array.shape, strict=True):
        sizes.setdefault(letter, size)
    return array


def labels_of_columns(value: ArrayLike) -> tuple[str, ...] | None:
    """Return the names of a pandas ``DataFrame``'s columns, or of a ``DataArray``'s parameters; None if without.

    Example:
        >>> import pandas as pd
        >>> labels_of_columns(pd.DataFrame({"beta": [0.4], "gamma": [0.1]}))
        ('beta', 'gamma')
    """
    labelled: Any = value
    labels: Any = ()
    if type(value).__name__ == "DataFrame":
        labels = labelled.columns
    elif type(value).__name__ == "DataArray" and "parameter" in labelled.coords:
        labels = labelled.coords["parameter"].values
    labels = tuple(labels)
    # Columns without names are numbered.
    return tuple(map(str, labels)) if labels and all(isinstance(label, str) for label in labels) else None


def _fits(shape: Sequence[int], expected: Sequence[int | None]) -> bool:
    """Return whether a shape is the expected one, where None stands for any size."""
    return len(shape) == len(expected) and all(
        want in (None, size) for want, size in zip(expected, shape, strict=True)
    )


def _hint(name: str, letters: str, expected: tuple[int | None, ...], shape: tuple[int, ...]) -> str:
    """Return how an array of another shape might be meant."""
    if letters[0] == "K" and _fits(shape, expected[1:]):
        return f" Of one member? Give {name}[None]."
    if _fits(shape[::-1], expected):
        return " Is it transposed?"
    for i, j in combinations(range(len(shape)), 2):
        order = list(range(len(shape)))
        order[i], order[j] = j, i
        if _fits([shape[axis] for axis in order], expected):
            return f" Are {letters[i]} and {letters[j]} exchanged? Give {name}.swapaxes({i}, {j})."
    return ""


def rows_of_data(name: str, y: ArrayLike) -> np.ndarray:
    """Return data as one observation per row, (N, ...) with at least two axes; N numbers become (N, 1)."""
    array = as_numpy(y)
    if array.ndim == 0:
        raise ValueError(f"`{name}` must hold one observation per row, (N, ...); got a single number.")
    return array[:, None] if array.ndim == 1 else array


def rows_not_in_range(array: np.ndarray) -> np.ndarray:
    """Return the rows of an array (N, ...) that have an entry which is NaN, infinite or too large."""
    if not np.issubdtype(array.dtype, np.inexact):
        return np.empty(0, int)
    return np.flatnonzero(~in_range(array).reshape(len(array), -1).all(axis=1))


def not_finite(name: str, rows: np.ndarray, array: np.ndarray) -> str:
    """Return the sentence that names rows of simulations which are not in range, and says how to drop them."""
    shape = "" if array.ndim == 2 else f".reshape({len(array)}, -1)"
    return (
        f"`{name}` must be finite; {count_and_first_few(rows)} of {len(array)} rows are not, where numbers above "
        f"{LARGEST:g} count as infinite. Drop these simulations, good = (abs({name}) < {LARGEST:g}){shape}.all(1) "
        "and theta, y = theta[good], y[good], or choose other units."
    )


def distinct_rows(y: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield each distinct row of y (N, ...), as (1, ...), and the places where it stands."""
    # Bytes rather than numbers, in which NaN is equal to itself. Most often all rows are one and the same.
    content = np.ascontiguousarray(y).view(np.uint8).reshape(len(y), -1) if y.size else np.empty((len(y), 0))
    if len(y) and (content == content[0]).all():
        return iter([(y[:1], np.arange(len(y)))])
    places: dict[bytes, list[int]] = {}
    for n in range(len(y)):
        places.setdefault(content[n].tobytes(), []).append(n)
    return ((y[rows[0]][None], np.array(rows)) for rows in places.values())


def entropy_of(y: np.ndarray) -> tuple[int, ...]:
    """Return eight numbers that derive from y, to seed what must be a function of the data alone."""
    digest = hashlib.sha256(np.ascontiguousarray(y, float).tobytes()).digest()
    return tuple(np.frombuffer(digest, np.uint32).tolist())


def seed_of(sequence: np.random.SeedSequence) -> int:
    """Return a seed of 62 bits, which members of every library take, out of a sequence."""
    return int(sequence.generate_state(1, np.uint64)[0] >> 2)


def as_integer(name: str, value: object, least: int = 1) -> int:
    """Return an argument as an integer that is large enough, or say what is wrong."""
    if not isinstance(value, int | np.integer):
        raise TypeError(f"`{name}` must be an integer; got {value!r}.")
    if value < least:
        raise ValueError(f"`{name}` must be at least {least}; got {value}.")
    return int(value)


def frozen(array: np.ndarray) -> np.ndarray:
    """Return a copy that cannot be written to."""
    array = np.array(array)
    array.flags.writeable = False
    return array


def shareable(array: np.ndarray) -> np.ndarray:
    """Return an array that torch can share, writeable and without negative strides; copied only if it is not."""
    array = np.require(array, requirements="W")
    return array.copy() if any(stride < 0 for stride in array.strides) else array


def shared_rows(theta: np.ndarray, others: np.ndarray) -> int:
    """Return how many rows of ``others`` have the parameters of a row of ``theta`` (N, d).

    0 where rows cannot be told apart by their parameters, because these repeat.
    """
    known, asked = ([row.tobytes() for row in np.ascontiguousarray(of, float)] for of in (theta, others))
    distinct = set(known)
    return sum(row in distinct for row in asked) if len(distinct) == len(known) else 0
