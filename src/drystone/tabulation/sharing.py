"""Likelihoods that share points: if one hangs or ends its process, the others begin again without it.

All likelihoods of one :func:`drystone.normalize` are asked when points are searched for, so one that hangs does so
in the jobs of all. It is left out, and every finished part of the others is made again: their numbers are those of
a call without it, at whichever row and in whosever job it hung.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from drystone.adapters.member import CheckedMember

__all__ = ["Sharing"]


class Sharing:
    """Members, some of which share points.

    Args:
        members: All members by name.

    Attributes:
        members: As they are now: without those likelihoods that were left out.
        to_repeat: Names of those whose points have changed since :meth:`begin_again`.
    """

    def __init__(self, members: Mapping[str, CheckedMember]) -> None:
        self.members = dict(members)
        self.to_repeat: list[str] = []
        self._without: dict[str, tuple[str, ...]] = {}

    @property
    def any(self) -> bool:
        """Whether any members share points."""
        return any(len(group) > 1 for group in self.groups(list(self.members)))

    def groups(self, names: Sequence[str]) -> list[list[str]]:
        """Return the names in groups that share points; other members are each alone."""
        groups: dict[object, list[str]] = {}
        for name in names:
            normalizer = self._normalizer(name)
            groups.setdefault(name if normalizer is None else id(normalizer), []).append(name)
        return list(groups.values())

    def without(self, name: str) -> tuple[str, ...]:
        """Return the likelihoods that shared the points of a member and were left out."""
        return self._without.get(name, ())

    @property
    def left_out(self) -> list[str]:
        """All likelihoods that were left out; some may be none of the members."""
        return list(dict.fromkeys(name for names in self._without.values() for name in names))

    def leave_out(self, name: str, likelihood: str) -> list[str] | None:
        """Leave out a likelihood that hung or died in the job of a member.

        Args:
            name: The member.
            likelihood: The likelihood, which may be that of the member.

        Returns:
            The names of the members that are this likelihood; None if it is none, or if it shares points with no
            other.
        """
        normalizer = self._normalizer(name)
        if normalizer is None or likelihood not in normalizer.names or len(normalizer.names) == 1:
            return None
        others, failed = normalizer.without(likelihood), []
        for each, member in self.members.items():
            if self._normalizer(each) is not normalizer:
                continue
            own: Any = member.posterior
            if own.name == likelihood:
                failed.append(each)
            else:
                self.members[each] = replace(member, posterior=others[own.name])
                self._without[each] = (*self.without(each), likelihood)
                self.to_repeat.append(each)
        return failed

    def begin_again(self) -> list[str]:
        """Return the members to repeat, and forget that they are."""
        names, self.to_repeat = self.to_repeat, []
        return names

    def _normalizer(self, name: str) -> Any:
        """Return what holds the shared points of a member, or None if it is no likelihood."""
        member = self.members[name]
        return getattr(member.posterior, "normalizer", None) if member.is_likelihood else None
