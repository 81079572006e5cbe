"""Records of settings and inputs, by which interrupted work on disk is continued or refused.

Simulations, members, tables and runs store a :class:`Record` beside their files: the settings, and digests of the
inputs. When the work is started again the current record is compared with the one on disk. If they are the same
the work continues, if there is none it starts, and if they differ :func:`check_same` raises
:class:`~drystone.StaleError`, which names the differences.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from drystone._files import read_sealed_json, without_seal, write_sealed_json
from drystone.errors import DamagedError, StaleError

__all__ = ["Record", "check_same", "continue_or_start", "digest_array", "read_record"]

FORMAT = 2


@dataclass(frozen=True)
class Record:
    """The settings and inputs that files were made from.

    Attributes:
        settings: Values by name, converted to what JSON reads back: lists for tuples.
        inputs: Digests of data and files, by name.

    Example:
        >>> Record({"seed": 1}, {"y": "8b1a"}).differences(Record({"seed": 2}, {"y": "0f3c"}))
        ['seed was 1 and is 2', 'y changed']
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", json.loads(json.dumps(dict(self.settings))))

    def differences(self, current: Record) -> list[str]:
        """Return one phrase per difference from the current record; inputs of only one record do not count."""
        changed = [
            f"{name} was {self.settings.get(name)!r} and is {current.settings.get(name)!r}"
            for name in sorted({*self.settings, *current.settings})
            if self.settings.get(name) != current.settings.get(name)
        ]
        shared = sorted(self.inputs.keys() & current.inputs.keys())
        return changed + [f"{name} changed" for name in shared if self.inputs[name] != current.inputs[name]]


def check_same(recorded: Record | None, current: Record, what: str, remedy: str) -> None:
    """Raise :class:`~drystone.StaleError` if the recorded settings or inputs differ from the current ones.

    Args:
        recorded: The record on disk; None if there is none, and the check passes.
        current: The record of the work to be done.
        what: The subject of the message: ``"the members in RUN"``.
        remedy: A sentence that tells what to do.
    """
    differences = [] if recorded is None else recorded.differences(current)
    if differences:
        raise StaleError(f"out of date: {what} ({'; '.join(differences)}). {remedy}")


def continue_or_start(path: Path, current: Record, what: str, remedy: str, growing: str = "") -> None:
    """Compare with the record in a JSON file by :func:`check_same`; write the file if there is none.

    The file holds settings and inputs side by side; the names in ``current.inputs`` tell which are inputs.

    Args:
        path: The file.
        current: The record of the work to be done.
        what: See :func:`check_same`.
        remedy: See :func:`check_same`.
        growing: Name of a setting, a list, to which entries may be added; the file is then written again.
    """
    if not path.exists():
        _write(path, current)
        return
    try:
        before = read_record(path, current.inputs)
    except DamagedError as error:
        raise DamagedError(f"{error} {remedy}") from None
    values = dict(before.settings)
    recorded = values.get(growing)
    grown = growing and set(recorded or ()) <= set(current.settings[growing])
    if grown:
        values[growing] = current.settings[growing]
    check_same(Record(values, before.inputs), current, what, remedy)
    if grown and recorded != current.settings[growing]:
        _write(path, current)


def read_record(path: Path, inputs: Collection[str]) -> Record:
    """Return the record in a JSON file, in which these names are inputs; raise if it was changed."""
    values, has_checksum = read_sealed_json(path)
    # Versions up to 0.2 wrote neither a format nor a checksum.
    if "format" in values and not has_checksum:
        raise without_seal(path)
    if values.pop("format", FORMAT) != FORMAT:
        raise DamagedError(f"{path} is not of format {FORMAT}; was it written by a later version?")
    return Record({k: v for k, v in values.items() if k not in inputs}, {k: values.get(k) for k in inputs})


def _write(path: Path, record: Record) -> None:
    write_sealed_json(path, {"format": FORMAT, **record.settings, **record.inputs})


def digest_array(array: np.ndarray) -> str:
    """Return the SHA-256 of an array's shape, dtype and bytes."""
    header = f"{array.shape}{array.dtype.str}".encode()
    return hashlib.sha256(header + np.ascontiguousarray(array).tobytes()).hexdigest()
