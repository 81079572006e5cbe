"""Arrays as users hold them (NumPy, torch, xarray, lists) to NumPy, with their shapes checked.

Shapes are written with the letters of the paper: K members, N simulations, S draws, d parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

__all__ = ["as_integer", "as_numpy", "checked", "rows_of_data"]

DIMS = {"K": "member", "N": "simulation", "S": "draw", "d": "parameter"}


def as_numpy(value: Any) -> np.ndarray:
    """View ``value`` as a NumPy array; a torch tensor is detached and brought to the CPU first."""
    if type(value).__module__.partition(".")[0] == "torch":
        value = value.detach().cpu().numpy()
    return np.asarray(value)


def checked(name: str, value: Any, letters: str, sizes: dict[str, int]) -> np.ndarray:
    """Return ``value`` as an array whose axes have the ``letters`` of its shape, or say what is wrong.

    Sizes that are not known yet are read off ``value`` and added to ``sizes``, so that the first array to name
    an axis decides and later ones must agree. With one parameter the last axis may be missing. An xarray
    ``DataArray`` with our dimension names is transposed to our order.

    Args:
        name: the argument's name, for the message.
        value: the array.
        letters: one letter an axis, such as ``"KNd"``.
        sizes: known sizes by letter; extended in place.
    """
    if type(value).__name__ == "DataArray" and set(value.dims) == {DIMS[letter] for letter in set(letters)}:
        value = value.transpose(*(DIMS[letter] for letter in letters))
    array = as_numpy(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"`{name}` must hold real numbers; got dtype {array.dtype}.")
    if letters.endswith("d") and array.ndim == len(letters) - 1 and sizes.get("d", 1) == 1:
        array = array[..., None]
    expected = tuple(sizes.get(letter) for letter in letters)
    fits = len(expected) == array.ndim and all(
        want in (None, have) for want, have in zip(expected, array.shape, strict=False)
    )
    if not fits:
        named = ", ".join(letters)
        wanted = ", ".join(
            letter if size is None else str(size) for letter, size in zip(letters, expected, strict=True)
        )
        hint = _hint(name, letters, expected, array.shape)
        raise ValueError(f"`{name}` must have shape ({named}) = ({wanted}); got {array.shape}.{hint}")
    for letter, size in zip(letters, array.shape, strict=True):
        sizes.setdefault(letter, size)
    return array


def _hint(name: str, letters: str, expected: tuple[int | None, ...], shape: tuple[int, ...]) -> str:
    """How an array of another shape might be meant."""

    def fits(sizes: Sequence[int], wanted: Sequence[int | None]) -> bool:
        return len(sizes) == len(wanted) and all(w in (None, s) for w, s in zip(wanted, sizes, strict=True))

    if letters[0] == "K" and fits(shape, expected[1:]):
        return f" Of one member? Give {name}[None]."
    if fits(shape[::-1], expected):
        return " Is it transposed?"
    for i, j in combinations(range(len(shape)), 2):
        order = list(range(len(shape)))
        order[i], order[j] = j, i
        if fits([shape[axis] for axis in order], expected):
            return f" Are {letters[i]} and {letters[j]} exchanged? Give {name}.swapaxes({i}, {j})."
    return ""


def rows_of_data(name: str, y: Any) -> np.ndarray:
    """Data as an observation a row, (N, ...) with at least two axes; N numbers are N observations of one each."""
    array = as_numpy(y)
    if array.ndim == 0:
        raise ValueError(f"`{name}` must hold an observation a row, (N, ...); got a single number.")
    return array[:, None] if array.ndim == 1 else array


def as_integer(name: str, value: Any, least: int = 1) -> int:
    """Return an argument as an integer that is large enough, or say what is wrong."""
    if not isinstance(value, int | np.integer):
        raise TypeError(f"`{name}` must be an integer; got {value!r}.")
    if value < least:
        raise ValueError(f"`{name}` must be at least {least}; got {value}.")
    return int(value)
