"""The tables and the fit of an inference on disk: of one set of members, and replaced together.

``made_of.json`` holds digests of the members. If others are asked for (further ones, say) the new tables and the
new fit are made in ``.new``. When they are complete ``.new`` is renamed to ``.ready``, and each of its files is
exchanged for the old one. A process that is killed before the renaming leaves the old results; one that is killed
later leaves new ones, which :func:`settle` puts in place.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from drystone._files import check_regular, naming, put_in_place, recover, regular_files, remove, working_in
from drystone._resume import Record, continue_or_start, digest_array, read_record
from drystone.likelihood.normalize import NormalizedMember
from drystone.runs.normalizer import RunNormalizer

__all__ = [
    "FIT",
    "LIKELIHOODS_IN",
    "MEMBERS_IN",
    "NEW",
    "NORMALIZER",
    "RECORD",
    "REFITTED_IN",
    "STACKING",
    "TEST",
    "install",
    "made_of",
    "refuse_links",
    "settle",
    "without_test",
    "working_directory",
]

RECORD = "inference.json"
MEMBERS_IN, LIKELIHOODS_IN, REFITTED_IN = "members", "likelihoods", "refitted"
STACKING, TEST, NORMALIZER, FIT = "stacking", "test", "normalizer.json", "fit.json"
# How tables are made: those of earlier versions (other points of likelihoods) are made again.
TABLES = "3"
MADE_OF, NEW, READY = "made_of.json", ".new", ".ready"


def refuse_links(home: Path, names: Iterable[str]) -> None:
    """Raise if something of an inference, or in it, is a link, a pipe or a device: nothing outside is written."""
    for name in (*names, STACKING, TEST, NEW, READY):
        path = home / name
        if path.is_symlink():
            check_regular(path)
        regular_files(path)
    for name in (NORMALIZER, FIT, MADE_OF):
        check_regular(home / name)


def made_of(members: Mapping[str, Any], normalizer: RunNormalizer) -> Record:
    """Return digests of the networks of members, and of how likelihoods are normalized."""
    digests = {"tables": TABLES, "normalizer": hashlib.sha256(json.dumps(asdict(normalizer)).encode()).hexdigest()}
    for name, member in members.items():
        of_likelihood = isinstance(member, NormalizedMember)
        network: Any = member.normalizer.likelihoods[member.k].member if of_likelihood else member
        digests[f"member {name}"] = digest_array(network.flow.parameters)
    return Record(inputs=digests)


def working_directory(home: Path, members: Record) -> Path:
    """Return where the results of these members are made: ``home``, or a directory in it if that has others'."""
    settle(home)
    if _has_results_of(home, members):
        remove(home / NEW)
        return home
    place = home / NEW if (home / FIT).exists() else home
    if not _has_results_of(place, members):
        remove(place / MADE_OF)  # first: without it the rest is taken for results of others
        for name in (FIT, NORMALIZER, STACKING, TEST):
            remove(place / name)
        for name in (STACKING, TEST):  # without test rows the old table of them goes as well
            (place / name).mkdir(parents=True)
        continue_or_start(place / MADE_OF, members, f"the tables in {place}", "Remove them.")
    return place


def without_test(place: Path) -> None:
    """Remove the table of the test rows of an earlier call, on which the results are not measured any more."""
    remove(place / TEST)
    (place / TEST).mkdir()


def install(home: Path, place: Path) -> None:
    """Put results, which are complete, in the place of the old ones."""
    if place != home:
        with naming(home / READY):
            os.rename(place, home / READY)
    settle(home)


def settle(home: Path) -> None:
    """Finish the exchange of results that an earlier process was killed in."""
    ready = home / READY
    if ready.exists():
        with working_in(home, own=True):
            for new in sorted(ready.iterdir()):
                recover(home / new.name)
                put_in_place(new, home / new.name)
            remove(ready)


def _has_results_of(place: Path, members: Record) -> bool:
    path = place / MADE_OF
    return path.exists() and read_record(path, members.inputs) == members
