"""Files made anew beside the old ones, which they replace once they are complete.

The work is done in ``.new-STAGE``, as it would be done in the run, while the manifest holds what it is made from
under :func:`~drystone.runs.manifest.pending`. When it is finished

1. ``config.toml`` with the new settings is put beside the new files,
2. ``.new-STAGE`` is renamed to ``.ready-STAGE``,
3. each file in it is exchanged for the old one,
4. the record of the stage becomes that of the new files, nothing is pending, and ``.ready-STAGE`` is removed.

A process that is killed or fails before 2 leaves the old files with the old settings, as if it had not begun; one
killed later leaves new files that are complete. In both cases the same stage, called again, continues.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from drystone._files import naming, put_in_place, recover, remove
from drystone.runs.config import Config
from drystone.runs.manifest import Manifest, StageRecord, pending

__all__ = ["Replacement"]


@dataclass(frozen=True)
class Replacement:
    """The new files of a stage.

    Attributes:
        manifest: Manifest of the run.
        stage: Name of the stage.
        current: Settings and inputs of the new files.
    """

    manifest: Manifest
    stage: str
    current: StageRecord

    @property
    def unfinished(self) -> bool:
        """Whether an earlier process began to make these files in the place of others, and did not finish."""
        record = self.manifest.get(pending(self.stage))
        return record is not None and not record.differences(self.current)

    @property
    def ready(self) -> bool:
        """Whether an earlier process was killed while it exchanged files, so that those of the run are mixed."""
        return self._ready.exists()

    def directory(self, anew: bool) -> Path:
        """Return the directory to work in: that of the run, or of new files if there are others to replace.

        Args:
            anew: Begin new files, whatever is there.
        """
        if anew or not self.unfinished:
            self.give_up()
        if anew:
            self._new.mkdir()
            self.manifest.note(pending(self.stage), self.current)
        if self._new.exists():
            return self._new
        self._exchange()
        return self._run

    def install(self, config: Config, *obsolete: Path) -> None:
        """Put the new files, which are complete, in the place of the old ones, and remove what is obsolete."""
        staged = self._new / self.manifest.run.config_file.name
        config.write(staged, like=self.manifest.run.config_file)
        with naming(self._ready):
            os.rename(self._new, self._ready)
        self._exchange()
        for path in obsolete:
            remove(path)

    def finish(self) -> None:
        """End the replacement, after the record of the stage has become that of the new files."""
        remove(self._ready)

    def give_up(self) -> None:
        """Remove what an earlier process began; what it had finished takes its place."""
        begun = self.manifest.get(pending(self.stage))
        if self.ready:
            self._exchange()
            if begun is not None:
                self.manifest.note(self.stage, begun)
        if begun is not None:
            self.manifest.forget(pending(self.stage))
        remove(self._ready)
        remove(self._new)

    def _exchange(self) -> None:
        if self.ready:
            for new in sorted(path for path in self._ready.rglob("*") if self._unit(path)):
                path = self._run / new.relative_to(self._ready)
                recover(path)
                path.parent.mkdir(exist_ok=True)
                put_in_place(new, path)

    def _unit(self, path: Path) -> bool:
        """Return whether a path is exchanged as a whole: a store, the members, a single fit."""
        depth = len(path.relative_to(self._ready).parts)
        return depth == 2 if path.relative_to(self._ready).parts[0] == "fits" else depth == 1

    @property
    def _run(self) -> Path:
        return self.manifest.run.path

    @property
    def _new(self) -> Path:
        return self._run / f".new-{self.stage.replace('/', '-')}"

    @property
    def _ready(self) -> Path:
        return self._run / f".ready-{self.stage.replace('/', '-')}"
