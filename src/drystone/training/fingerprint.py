"""Fingerprints of members: one SHA-256 of the data and settings of a training.

A fingerprint is the digest of a text with an explicit list of fields. The text is that of version 0.1, so that its
directories are continued: the names in it are those of 0.1, whatever the code calls them. A setting that is added
later is appended to the text only where it differs from its default.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from drystone.simulation.support import Support
from drystone.training.engines.loop import Schedule
from drystone.training.recipe import Recipe
from drystone.training.sweep import Configuration
from drystone.training.warp import LogY

__all__ = ["fingerprint_of_data", "fingerprint_of_member", "fingerprint_of_refit"]


def fingerprint_of_data(
    theta: NDArray,
    y: NDArray,
    *,
    support: Support,
    validation: float | tuple[NDArray, NDArray],
    log_y: LogY,
    clip_y: float,
    components: int | None,
    schedule: Schedule,
    engine: str,
    embedding: str,
    target: str = "posterior",
    augment: str = "",
) -> str:
    """Return the fingerprint of the data and the settings that all members of a training share.

    ``validation`` is a share of the rows, or rows (theta, y) of their own, whose bytes count; ``augment`` and
    ``embedding`` are names of code.
    """
    rows = validation if isinstance(validation, tuple) else ()
    texts = [
        _text("Support", lower=_array(support.lower), upper=_array(support.upper)),
        f"{len(rows[0])} rows" if rows else repr(validation),
        repr(log_y),
        repr(clip_y),
        repr(components),
        _text(
            "Schedule",
            epochs=repr(schedule.epochs),
            patience=repr(schedule.patience),
            snapshots=repr(schedule.snapshots),
            cuts=repr(schedule.lr_drops),
        ),
        repr(engine),
        repr(embedding),
    ]
    if support.linear:
        texts.append(f"linear={support.linear!r}")
    if target != "posterior":
        texts.append(repr(target))
    if augment:
        texts.append(f"augment={augment!r}")
    digest = hashlib.sha256(f"({', '.join(texts)})".encode())
    for array in (theta, y, *rows):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def fingerprint_of_member(common: str, seed: int, k: int, configuration: Configuration) -> str:
    """Return the fingerprint of the k-th member from the common fingerprint."""
    text = _text(
        "Configuration",
        family=repr(configuration.family),
        transforms=repr(configuration.transforms),
        units=repr(configuration.units),
        layers=repr(configuration.layers),
        activation=repr(configuration.activation),
        bins=repr(configuration.bins),
        shuffle=repr(configuration.shuffle),
        dropout=repr(configuration.dropout),
        batch_size=repr(configuration.batch_size),
        learning_rate=repr(configuration.learning_rate),
        averaging=repr(configuration.ema_decay),
    )
    if configuration.bounds != "map":
        text += f", bounds={configuration.bounds!r}"
    if configuration.trend:
        text += ", trend=True"
    return hashlib.sha256(f"({common!r}, {seed!r}, {k!r}, {text})".encode()).hexdigest()


def fingerprint_of_refit(
    parameters: NDArray, recipe: Recipe, theta: NDArray, y: NDArray, row_weights: NDArray | None = None
) -> str:
    """Return the fingerprint of a member that is trained again, from its parameters, on these rows."""
    digest = hashlib.sha256(f"refit, {recipe!r}".encode())
    for array in (parameters, theta, y, *(() if row_weights is None else (row_weights,))):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _text(name: str, **fields: str) -> str:
    return f"{name}({', '.join(f'{field}={value}' for field, value in fields.items())})"


def _array(array: NDArray[np.float64]) -> str:
    """Return an array as NumPy prints it by default, whatever the caller's print options are."""
    with np.printoptions(
        precision=8, threshold=1000, edgeitems=3, linewidth=75, suppress=False, nanstr="nan", infstr="inf",
        formatter=None, sign="-", floatmode="maxprec", legacy=False,
    ):  # fmt: skip
        return repr(array)
