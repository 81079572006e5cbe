"""Files made anew beside the old ones, which they replace once they are complete.

The work is done in ``.new-STAGE``, as it would be done in the run, while the manifest holds what it is made from
under :func:`~drystone.runs.manifest.pending`. When it is finished

1. the record of the stage becomes an unfinished one,
2. ``.new-STAGE`` is renamed to ``.ready-STAGE``,
3. each file in it is exchanged for the old one,
4. the record becomes a finished one, and nothing is pending.

A process killed before 2 leaves the old files, and one killed later new files that are complete; in both cases
the same stage, called again, continues.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from drystone._files import put_in_place, recover, remove
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

    def directory(self, anew: bool) -> Path:
        """Return the directory to work in: that of the run, or of new files if there are others to replace.

        Args:
            anew: Begin new files, whatever is there.
        """
        if anew or not self.unfinished:
            self._give_up()
        if anew:
            self._new.mkdir()
            self.manifest.note(pending(self.stage), self.current)
        if self._new.exists():
            return self._new
        self._exchange()
        return self.manifest.run.path

    def install(self, *obsolete: Path) -> None:
        """Put the new files, which are complete, in the place of the old ones, and remove what is obsolete."""
        self.manifest.note(self.stage, self.current)
        os.rename(self._new, self._ready)
        self._exchange()
        for path in obsolete:
            remove(path)

    def _give_up(self) -> None:
        """Remove what an earlier process began; what it had finished takes its place."""
        self._exchange()
        if self.manifest.get(pending(self.stage)) is not None:
            self.manifest.forget(pending(self.stage))
        remove(self._new)

    def _exchange(self) -> None:
        if self._ready.exists():
            for new in sorted(self._ready.iterdir()):
                recover(self.manifest.run.path / new.name)
                put_in_place(new, self.manifest.run.path / new.name)
            self._ready.rmdir()

    @property
    def _new(self) -> Path:
        return self.manifest.run.path / f".new-{self.stage}"

    @property
    def _ready(self) -> Path:
        return self.manifest.run.path / f".ready-{self.stage}"
