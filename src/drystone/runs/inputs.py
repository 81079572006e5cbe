"""What each stage is made from, as things are now: settings of ``config.toml`` and checksums of files."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from drystone._files import digest
from drystone.runs import manifest
from drystone.runs.config import Config
from drystone.runs.manifest import Record
from drystone.runs.run import Run

__all__ = ["member_checksums", "of_fit", "of_simulate", "of_tabulate", "of_train"]


def of_simulate(config: Config) -> Record:
    """The task, its seed, and how many rows; how they are split is for later stages."""
    asked = config.simulate
    n = asked.train + asked.stack + asked.test
    return Record({"simulate.task": asked.task, "simulate.seed": asked.seed, "the number of simulations": n}, {})


def of_train(run: Run, config: Config) -> Record:
    """The training rows and the settings, but not how many members: more may be trained later."""
    settings = _settings("train", config.train)
    del settings["train.members"]
    settings["simulate.train"] = config.simulate.train
    return Record(settings, {"simulations.zarr": _checksum(run, "simulate", run.simulations)})


def of_tabulate(run: Run, config: Config) -> Record:
    """The members and the rows they speak of."""
    settings = _settings("tabulate", config.tabulate)
    settings |= {f"simulate.{name}": getattr(config.simulate, name) for name in ("train", "stack", "test")}
    members = member_checksums(run)
    together = hashlib.sha256(repr(members).encode()).hexdigest() if members else None
    return Record(settings, {"members": together, "simulations.zarr": _checksum(run, "simulate", run.simulations)})


def of_fit(run: Run, config: Config, name: str) -> Record:
    """The form, the score, and the table."""
    settings = _settings(f"fits.{name}", config.fits[name])
    return Record(settings, {"table.zarr": _checksum(run, "tabulate", run.table)})


def member_checksums(run: Run) -> dict[str, str]:
    """Those of the members' descriptions, which hold those of their arrays."""
    return {f"members/{path.name}": digest(path) for path in sorted(run.members.glob("*.json"))}


def _settings(section: str, values: Any) -> dict[str, Any]:
    """A section of the configuration, with lists for tuples as JSON has them."""
    plain = asdict(values)
    return {f"{section}.{key}": list(v) if isinstance(v, tuple) else v for key, v in plain.items()}


def _checksum(run: Run, stage: str, path: Path) -> str | None:
    """The checksum of a store: as noted when it was written, or of what is there if it was made elsewhere."""
    record = manifest.read(run.path).get(stage)
    if record is not None and record.outputs:
        return record.outputs[path.name]
    return digest(path) if path.exists() else None
