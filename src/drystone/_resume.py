"""What files were made from: whether work found on disk is continued or refused.

Simulations, members, tables and runs keep a :class:`Record` beside their files: the settings, and digests of the
inputs. When the work is begun again the record of now is compared with the one on disk. If they are the same the
work continues, if there is none it begins, and if they differ :func:`check_same` raises
:class:`~drystone.StaleError`, which names the differences.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from drystone._files import replacing
from drystone.errors import DamagedError, StaleError

__all__ = ["Record", "check_same", "continue_or_begin", "digest_array"]


@dataclass(frozen=True)
class Record:
    """What something was made from.

    Attributes:
        settings: Values by name, held as JSON gives them back: lists for tuples.
        inputs: Digests of data and files, by name.

    Example:
        >>> Record({"seed": 1}, {"y": "8b1a"}).differences(Record({"seed": 2}, {"y": "0f3c"}))
        ['seed was 1 and is 2', 'y changed']
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", json.loads(json.dumps(dict(self.settings))))

    def differences(self, now: Record) -> list[str]:
        """Say what is different now, a phrase each; an input that only one of the two knows is no difference."""
        changed = [
            f"{name} was {self.settings.get(name)!r} and is {now.settings.get(name)!r}"
            for name in sorted({*self.settings, *now.settings})
            if self.settings.get(name) != now.settings.get(name)
        ]
        shared = sorted(self.inputs.keys() & now.inputs.keys())
        return changed + [f"{name} changed" for name in shared if self.inputs[name] != now.inputs[name]]


def check_same(recorded: Record | None, now: Record, what: str, remedy: str) -> None:
    """Raise :class:`~drystone.StaleError` if something was made from something else than is there now.

    Args:
        recorded: What it was made from; None if that is not known, and nothing is refused.
        now: What it would be made from now.
        what: The subject of the message: ``"the members in RUN"``.
        remedy: What to do about it, a sentence.
    """
    differences = [] if recorded is None else recorded.differences(now)
    if differences:
        raise StaleError(f"out of date: {what} ({'; '.join(differences)}). {remedy}")


def continue_or_begin(path: Path, now: Record, what: str, remedy: str) -> None:
    """Compare with the record in a JSON file, as :func:`check_same`; write it if there is none.

    The file holds settings and inputs side by side; those named in ``now.inputs`` are its inputs.
    """
    if not path.exists():
        with replacing(path) as temporary:
            temporary.write_text(json.dumps({**now.settings, **now.inputs}, indent=1))
        return
    try:
        values = dict(json.loads(path.read_text()))
    except (TypeError, ValueError) as error:
        raise DamagedError(f"{path} is damaged ({error}). {remedy}") from None
    inputs = {name: values.pop(name, None) for name in now.inputs}
    check_same(Record(values, inputs), now, what, remedy)


def digest_array(array: np.ndarray) -> str:
    """Return the SHA-256 of an array's shape, dtype and bytes."""
    header = f"{array.shape}{array.dtype.str}".encode()
    return hashlib.sha256(header + np.ascontiguousarray(array).tobytes()).hexdigest()
