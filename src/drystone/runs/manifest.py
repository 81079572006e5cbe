"""``manifest.json``: what each stage was made from, and the checksums of what it wrote.

It is how a run knows that a stage is done, was interrupted, is out of date, or was damaged. It holds no times, so
an interrupted run and an uninterrupted one end with the same manifest. A file that is not in it was made
elsewhere, and is taken as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drystone._files import digest, replacing
from drystone.errors import DamagedError

__all__ = ["MANIFEST", "Record", "check_outputs", "differences", "forget", "note", "read"]

MANIFEST = "manifest.json"
FORMAT, VERSION = "drystone-run", 1


@dataclass(frozen=True)
class Record:
    """A stage.

    Attributes:
        settings: what it was told, by name.
        files: the checksums of the files it was made from, None for one that was not there.
        outputs: the checksums of the files it wrote, by path in the run; None while it is not finished.
        rows: how many rows of a table are for stacking and for testing, in this order.
    """

    settings: Mapping[str, Any]
    files: Mapping[str, str | None]
    outputs: Mapping[str, str] | None = None
    rows: Sequence[int] = ()


def read(directory: Path) -> dict[str, Record]:
    """The records of a run by stage; empty if it has no manifest."""
    path = directory / MANIFEST
    if not path.exists():
        return {}
    try:
        plain = json.loads(path.read_text())
        if plain["format"] != FORMAT or plain["version"] > VERSION:
            raise ValueError(f"it is {plain['format']!r} version {plain['version']}")
        return {stage: Record(**record) for stage, record in plain["stages"].items()}
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(
            f"{path} is damaged ({error}). Remove it: what the run holds is then taken as made elsewhere."
        ) from None


def note(directory: Path, stage: str, record: Record) -> None:
    """Write the record of one stage."""
    _write(directory, {**read(directory), stage: record})


def forget(directory: Path, stage: str) -> None:
    """Remove the record of one stage."""
    _write(directory, {name: record for name, record in read(directory).items() if name != stage})


def _write(directory: Path, records: Mapping[str, Record]) -> None:
    stages = {stage: asdict(record) for stage, record in sorted(records.items())}
    plain = {"format": FORMAT, "version": VERSION, "stages": stages}
    with replacing(directory / MANIFEST) as temporary:
        temporary.write_text(json.dumps(plain, indent=1, sort_keys=True))


def check_outputs(directory: Path, record: Record, remedy: str) -> None:
    """Raise, naming the file, if something that a stage wrote is there but is not what it wrote."""
    for name, expected in (record.outputs or {}).items():
        path = directory / name
        if path.exists() and digest(path) != expected:
            raise DamagedError(
                f"{path} is not what was written (its checksum differs): it was damaged or exchanged. {remedy} "
                f"If you exchanged it on purpose, remove its stage from {MANIFEST}."
            )


def differences(recorded: Record, now: Record) -> list[str]:
    """What a stage was made from that is different now, in words; a file that is not there now is no change."""
    words = [
        f"{name} was {recorded.settings.get(name)!r} and is {now.settings.get(name)!r}"
        for name in sorted({*recorded.settings, *now.settings})
        if recorded.settings.get(name) != now.settings.get(name)
    ]
    changed = [n for n, checksum in now.files.items() if checksum and recorded.files.get(n, checksum) != checksum]
    return words + [f"{name} changed" for name in sorted(changed)]
