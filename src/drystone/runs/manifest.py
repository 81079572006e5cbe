"""``manifest.json``: the settings and inputs of each stage, and the checksums of its outputs.

From it a run tells whether a stage is done, was interrupted, is out of date, or was damaged. It holds no times, so
an interrupted run and an uninterrupted one end with the same manifest. A file that is not in it was made
elsewhere, and is used without these checks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from drystone._files import ROOT, digest, read_json, replacing, store_sealed
from drystone._resume import Record
from drystone.errors import DamagedError
from drystone.runs.config import Config, Likelihoods
from drystone.runs.run import MANIFEST, Run

__all__ = ["MANIFEST", "Manifest", "StageRecord", "pending"]

# Version 1 had no checksums of the records.
FORMAT, VERSION, UNSEALED = "drystone-run", 2, 1


@dataclass(frozen=True)
class StageRecord(Record):
    """The settings and inputs of a stage, with the checksums of its outputs.

    Attributes:
        outputs: Checksums of the files of the stage, by path in the run; None while it is not finished. For a Zarr
            store it is the checksum of its root file, which holds that of its arrays (version 0.1 recorded the
            checksum of the whole store).
        rows: Of a table, the numbers of stacking rows and of test rows, in this order. Of a fit, the number of
            rows that the memory limit allowed; earlier versions did not record it.
    """

    outputs: Mapping[str, str] | None = None
    rows: Sequence[int] = ()


def pending(stage: str) -> str:
    """Return the name of the record of files that will replace those of a stage."""
    return f"new {stage}"


class Manifest:
    """The records of a run by stage: read once, then changed in memory and on disk together.

    Args:
        run: The run, locked by this process.
    """

    def __init__(self, run: Run) -> None:
        self.run, self._path = run, run.path / MANIFEST
        self.stages = _read(self._path) if self._path.exists() else {}
        self._made_elsewhere: dict[Path, str] = {}

    def get(self, stage: str) -> StageRecord | None:
        """Return the record of a stage; None if it was never started, or its files were made elsewhere."""
        return self.stages.get(stage)

    def note(self, stage: str, record: StageRecord) -> None:
        """Write the record of a stage; once it is finished nothing is pending."""
        before = self._plain()
        self.stages[stage] = record
        if record.outputs is not None:
            self.stages.pop(pending(stage), None)
        if self._plain() != before:
            self._write()

    def finish(self, stage: str, record: StageRecord, output: Path) -> None:
        """Write the record of a finished stage with one output, a file or a Zarr store."""
        file = output / ROOT if output.is_dir() else output
        self.note(stage, replace(record, outputs={file.relative_to(self.run.path).as_posix(): digest(file)}))

    def forget(self, *stages: str) -> None:
        """Remove the records of stages."""
        for stage in stages:
            self.stages.pop(stage, None)
        self._write()

    def done(self, stage: str, current: StageRecord) -> bool:
        """Return whether a stage is finished, from the same settings and inputs, and undamaged."""
        record = self.get(stage)
        if record is None or record.outputs is None or record.differences(current):
            return False
        self.check_outputs(stage, "Remove it and repeat the command to make it again.")
        return all((self.run.path / name).exists() for name in record.outputs)

    def check_outputs(self, stage: str, remedy: str) -> None:
        """Raise, naming the file, if an output of a stage exists but its checksum differs."""
        for name, expected in (self.stages[stage].outputs or {}).items():
            file = self.run.path / name
            path = file.parent if file.name == ROOT else file
            if file.exists() and digest(file) != expected:
                raise DamagedError(
                    f"{path} was damaged or replaced: its checksum differs from the one in {MANIFEST}. "
                    f"{remedy} If you replaced it on purpose, remove its stage from {MANIFEST}."
                )
            if file.name == ROOT and file.exists():
                try:
                    store_sealed(path)
                except DamagedError as error:
                    raise DamagedError(f"{error} {remedy}") from None

    # ── current settings and inputs of each stage ────────────────────────────────────────────────────────────

    def of_simulate(self, config: Config) -> StageRecord:
        """Return the record of the simulations: task, seed and number of rows; later stages record the split."""
        section = config.simulate
        n = section.train + section.stack + section.test
        return StageRecord(
            {"simulate.task": section.task, "simulate.seed": section.seed, "the number of simulations": n}
        )

    def of_train(self, config: Config) -> StageRecord:
        """Return the record of the training, without the number of members: more may be trained later."""
        settings = _settings("train", config.train)
        del settings["train.members"]
        if not config.train.lr_drops:  # as version 0.1 wrote it
            del settings["train.lr_drops"]
        settings["simulate.train"] = config.simulate.train
        return StageRecord(settings, self._inputs(("simulate", self.run.simulations)))

    def of_likelihoods(self, config: Config) -> StageRecord:
        """Return the record of the training of likelihoods, without their number: more may be trained later."""
        settings = _settings("likelihoods", config.likelihoods or Likelihoods())
        del settings["likelihoods.members"]
        settings |= {"train.lower": config.train.lower, "train.upper": config.train.upper}
        settings["simulate.train"] = config.simulate.train
        return StageRecord(settings, self._inputs(("simulate", self.run.simulations)))

    def of_tabulate(self, config: Config) -> StageRecord:
        """Return the record of the table: the members, and the rows that they are evaluated on."""
        settings = _settings("tabulate", config.tabulate)
        if not config.tabulate.points:  # as version 0.1 wrote it
            del settings["tabulate.points"]
        settings |= {f"simulate.{name}": getattr(config.simulate, name) for name in ("train", "stack", "test")}
        inputs = self._inputs(("simulate", self.run.simulations))
        if members := self.member_checksums() | self.member_checksums("likelihoods"):
            inputs["members"] = hashlib.sha256(repr(members).encode()).hexdigest()
        return StageRecord(settings, inputs)

    def of_fit(self, config: Config, name: str) -> StageRecord:
        """Return the record of a fit: its form, its score, and the table.

        The configuration splits the rows of a table that was made elsewhere. Its numbers are inputs, because those
        of only one record do not count: fits of versions that did not record them stay up to date.
        """
        settings = _settings(f"fits.{name}", config.fits[name])
        inputs = self._inputs(("tabulate", self.run.table))
        if self.get("tabulate") is None:
            inputs["simulate.stack or simulate.test"] = f"{config.simulate.stack}, {config.simulate.test}"
        return StageRecord(settings, inputs)

    def member_checksums(self, directory: str = "members") -> dict[str, str]:
        """Return the checksums of the members' descriptions, which hold the checksums of their arrays."""
        paths = sorted((self.run.path / directory).glob("*.json"))
        return {f"{directory}/{path.name}": digest(path) for path in paths}

    def _inputs(self, *stores: tuple[str, Path]) -> dict[str, str | None]:
        """Return the checksums of stores: as recorded when they were written, or computed if made elsewhere."""
        checksums: dict[str, str | None] = {}
        for stage, path in stores:
            record = self.get(stage)
            if record is not None and record.outputs:
                (checksums[path.name],) = record.outputs.values()
            elif path.exists():
                if path not in self._made_elsewhere:
                    self._made_elsewhere[path] = digest(path)
                checksums[path.name] = self._made_elsewhere[path]
        return checksums

    def _plain(self) -> dict[str, Any]:
        """Return the records as JSON holds them."""
        stages = {}
        for stage, record in sorted(self.stages.items()):
            plain = asdict(record)
            plain |= {"files": plain.pop("inputs"), "rows": list(record.rows)}
            stages[stage] = {**plain, "checksum": _checksum(stage, plain)}
        return stages

    def _write(self) -> None:
        content = {"format": FORMAT, "version": VERSION, "stages": self._plain()}
        with replacing(self._path) as temporary:
            temporary.write_text(json.dumps(content, indent=1, sort_keys=True))


def _read(path: Path) -> dict[str, StageRecord]:
    try:
        plain = read_json(path)
        if plain["format"] != FORMAT or plain["version"] > VERSION:
            raise ValueError(f"it is {plain['format']!r} version {plain['version']}")
        for stage, record in plain["stages"].items():
            checksum = record.pop("checksum", None)
            if checksum != _checksum(stage, record) and not (checksum is None and plain["version"] <= UNSEALED):
                raise ValueError(f"the checksum of {stage!r} differs from the recorded one")
        return {
            stage: StageRecord(**{"inputs" if key == "files" else key: value for key, value in record.items()})
            for stage, record in plain["stages"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(
            f"{path} is damaged ({error}). Remove it: the files of the run then count as made elsewhere."
        ) from None


def _checksum(stage: str, record: Mapping[str, Any]) -> str:
    """Return the checksum of one record, so that another may be removed from the file by hand."""
    return hashlib.sha256(json.dumps([stage, record], sort_keys=True).encode()).hexdigest()


def _settings(section: str, values: Any) -> dict[str, Any]:
    """Return the values of a section of the configuration by dotted name."""
    return {f"{section}.{key}": value for key, value in asdict(values).items()}
