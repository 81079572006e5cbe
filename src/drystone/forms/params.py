"""Checks of the parameters of a form, in words that name what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

__all__ = ["check_array", "check_names", "check_not_negative", "check_simplex"]

# How far a sum of weights may be from one, and a weight below zero.
TOLERANCE = 1e-6


def check_names(params: Mapping[str, np.ndarray], names: Sequence[str], optional: Sequence[str] = ()) -> None:
    """Raise unless the parameters have these names."""
    missing, unknown = sorted(set(names) - set(params)), sorted(set(params) - {*names, *optional})
    if missing or unknown:
        raise ValueError(f"the parameters must be {', '.join(names)}; got {', '.join(sorted(params)) or 'none'}.")


def check_array(name: str, array: np.ndarray, shape: Sequence[int], *, infinite: bool = False) -> None:
    """Raise unless an array has this shape and its numbers are finite; with ``infinite``, unless none is NaN."""
    if array.dtype.kind not in "fiub":
        raise ValueError(f"`{name}` must hold real numbers; got dtype {array.dtype}.")
    if array.shape != tuple(shape):
        raise ValueError(f"`{name}` must have shape {tuple(shape)}; got {array.shape}.")
    if np.isnan(array).any() or not (infinite or np.isfinite(array).all()):
        raise ValueError(f"`{name}` must be {'numbers' if infinite else 'finite'}; got {_first_bad(array)}.")


def check_not_negative(name: str, weights: np.ndarray) -> None:
    """Raise unless weights are ≥ 0."""
    if (weights < -TOLERANCE).any():
        raise ValueError(f"`{name}` must be ≥ 0; got {weights.min():.6g}.")


def check_simplex(name: str, weights: np.ndarray) -> None:
    """Raise unless weights (..., K) are ≥ 0 and sum to one."""
    check_not_negative(name, weights)
    sums = weights.sum(-1)
    if (np.abs(sums - 1) > TOLERANCE).any():
        raise ValueError(f"`{name}` must sum to 1; got {sums.flat[np.abs(sums - 1).argmax()]:.6g}.")


def _first_bad(array: np.ndarray) -> float:
    bad = array[np.isnan(array)] if np.isnan(array).any() else array[~np.isfinite(array)]
    return float(bad[0])
