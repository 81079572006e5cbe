"""What has come of the jobs so far: who is left out, and who gives what."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from drystone.tabulation.job import Job, Part, too_slow

__all__ = ["Tally"]

Key = str | float


class Tally:
    """Counts parts as they come in.

    Args:
        members: the names of all.

    Attributes:
        left_out: those that failed, and why.
    """

    def __init__(self, members: list[str]) -> None:
        self.left_out: dict[str, str] = {}
        self._members = members
        self._seconds: dict[str, float] = defaultdict(float)
        self._types: dict[Key, np.dtype] = {}
        self._without: dict[Key, set[str]] = defaultdict(set)

    def count(self, job: Job, part: Part) -> None:
        """Take note of what came of a job."""
        name, limit = job.member.name, job.plan.limit
        self._seconds[name] += part.seconds
        reason = part.reason or (too_slow(limit) if limit is not None and self._seconds[name] > limit else "")
        if reason:
            self.left_out.setdefault(name, reason)
            return
        for key in job.plan.statistics:
            if key not in part.statistics:
                self._without[key].add(name)
            else:
                self._types[key] = np.result_type(part.statistics[key], self._types.get(key, np.bool_))

    @property
    def names(self) -> list[str]:
        """The members that did not fail."""
        return [name for name in self._members if name not in self.left_out]

    @property
    def dtypes(self) -> dict[Key, np.dtype]:
        """The statistics that all of these give, each with a type wide enough for all."""
        return {key: dtype for key, dtype in self._types.items() if self._without[key].isdisjoint(self.names)}

    def lacking(self) -> dict[tuple[Key, ...], list[str]]:
        """The statistics that only some of these give, with those who do not."""
        keys_by_names: dict[tuple[str, ...], list[Key]] = defaultdict(list)
        for key in self._types:
            keys_by_names[tuple(name for name in self.names if name in self._without[key])].append(key)
        return {tuple(keys): list(names) for names, keys in keys_by_names.items() if names}
