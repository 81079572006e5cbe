"""Replacing the files of a run loses nothing when the disk is full or the process killed, and can be continued."""

import errno
import os
import shutil
from dataclasses import dataclass, field
from typing import Any

import pytest

import drystone as ds
from drystone import StaleError
from drystone.cli.main import main
from drystone.runs import stages
from drystone.runs.config import Fit
from drystone.training import disk
from helpers import tiny_run as tiny
from helpers.killing import contents

# Verbs that replace files, with the configuration they are called with.
OTHER = {
    "simulate": tiny.CONFIG.changed("simulate", seed=4),
    "train": tiny.CONFIG.changed("train", epochs=3),
    "tabulate": tiny.CONFIG.changed("tabulate", draws=13),
    "stack": tiny.CONFIG.with_fit("log", Fit(form="mixture(concentration=1.5)")),
}
SAME = dict.fromkeys(OTHER, tiny.CONFIG)
CASES = [
    *((verb, config, True) for verb, config in OTHER.items()),
    *((verb, config, True) for verb, config in SAME.items()),
    ("tabulate", OTHER["tabulate"], False),
    ("stack", OTHER["stack"], False),
]
NAMES = [f"{v}-{'other' if c != tiny.CONFIG else 'same'}-{'force' if f else 'plain'}" for v, c, f in CASES]


class Killed(BaseException):
    """The process ends: nothing that follows in it has an effect on files."""


@dataclass
class Events:
    """The module ``os``, with an error for the n-th renaming or flushing; if killed, for all later ones too."""

    n: int = -1
    error: type[BaseException] = OSError
    count: int = field(default=0, init=False)

    def _event(self, function: Any, *arguments: Any) -> Any:
        self.count += 1
        if self.count == self.n or (self.count > self.n > 0 and self.error is Killed):
            raise Killed if self.error is Killed else OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return function(*arguments)

    def __getattr__(self, name: str) -> Any:
        function = getattr(os, name)
        if name not in ("rename", "replace", "fsync"):
            return function
        return lambda *arguments: self._event(function, *arguments)


def perform(run, verb, config, force=False):
    with run.opened():
        if verb == "stack":
            objectives = {"log": (form_of(config), ds.LogScore())}
            stages.stack(run, config, objectives, memory=2**30, force=force)
        else:
            {"simulate": stages.simulate, "train": stages.train, "tabulate": stages.tabulate}[verb](
                run, config, force=force
            )


def form_of(config):
    return ds.Mixture() if config.fits["log"].form == "mixture" else ds.Mixture(concentration=1.5)


@pytest.fixture
def events(monkeypatch):
    """Count the events of a call, and have the n-th of them fail."""

    def install(n=-1, error=OSError):
        injected = Events(n, error)
        for module in ("drystone._files", "drystone.runs.replacement"):
            monkeypatch.setattr(f"{module}.os", injected)
        return injected

    return install


def of_files(run):
    """The checksums of simulations, members, table and fits."""
    whole = contents(run.path)
    return {
        part: {name: value for name, value in whole.items() if name.startswith(f"{part}/")}
        for part in ("simulations.zarr", "members", "table.zarr", "fits")
    }


@pytest.mark.parametrize(("verb", "config", "force"), CASES, ids=NAMES)
def test_replacing_files_loses_nothing_when_a_write_fails(verb, config, force, original, tmp_path, events):
    undisturbed = tiny.copy(original, tmp_path / "undisturbed")
    counted = events()
    perform(undisturbed, verb, config, force)
    expected, before, complete = contents(undisturbed.path), of_files(original), of_files(undisturbed)
    assert not [name for name in expected if name.startswith(".")]
    assert counted.count > 5
    # The last eight events, where files are exchanged, and some of those before.
    moments = {*range(1, counted.count, max(1, counted.count // 3)), *range(counted.count - 7, counted.count + 1)}
    for n in sorted(n for n in moments if n > 0):
        for error in (OSError, Killed):
            run = tiny.copy(original, tmp_path / "disturbed")
            events(n, error)
            with pytest.raises(error):
                perform(run, verb, config, force)
            events()
            with run.opened():  # as every verb does
                pass
            for part, files in of_files(run).items():
                assert files in (before[part], complete[part]), (n, error, part)
            try:
                perform(run, verb, config, force and error is OSError)
            except StaleError:  # the forced work had not begun
                perform(run, verb, config, force)
            assert contents(run.path) == expected, (n, error)
            shutil.rmtree(run.path)


def test_forced_work_that_was_interrupted_continues_without_force(run, monkeypatch, events):
    config, trained = tiny.CONFIG.changed("train", epochs=3), []
    whole = contents(run.path)
    save = disk.save

    def third_fails(member, directory, fingerprint=""):
        if len(trained) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        trained.append(member.name)
        save(member, directory, fingerprint)

    monkeypatch.setattr("drystone.training.disk.save", third_fails)
    with pytest.raises(OSError, match="No space"):
        perform(run, "train", config, force=True)
    assert all(contents(run.path)[name] == whole[name] for name in whole if name.startswith("members/"))
    with pytest.raises(StaleError, match=r"unfinished: the members .*continue with `drystone train"):
        stages.load_members(run, config)
    assert [len(member.history.losses) for member in stages.load_members(run, tiny.CONFIG)] == [2, 2, 2]
    trained.clear()
    perform(run, "train", config)
    assert len(trained) == 1
    assert [len(member.history.losses) for member in stages.load_members(run, config)] == [3, 3, 3]


def test_forced_work_is_given_up_when_the_old_settings_are_put_back(run, events):
    whole = contents(run.path)
    events(8)
    with pytest.raises(OSError, match="No space"):
        perform(run, "simulate", OTHER["simulate"], force=True)
    events()
    perform(run, "simulate", tiny.CONFIG)
    assert contents(run.path) == whole


def test_members_that_are_a_link_are_replaced_by_a_directory(run, tmp_path):
    shutil.move(run.members, tmp_path / "elsewhere")
    run.members.symlink_to(tmp_path / "elsewhere")
    perform(run, "train", tiny.CONFIG, force=True)
    assert not run.members.is_symlink()
    assert sorted(p.name for p in run.members.iterdir()) == sorted(
        p.name for p in (tmp_path / "elsewhere").iterdir()
    )


@pytest.mark.parametrize("verb", ["simulate", "train", "tabulate", "stack"])
def test_a_full_disk_is_said_to_be_full_and_the_sentence_is_true(run, verb, events, capsys):
    before = of_files(run)
    events(12)
    assert main([verb, str(run.path), "--force"]) == 1
    said = capsys.readouterr().err
    assert f"the disk is full: {run.path}" in said
    assert "No simulations, members, table or fit that was there before is lost or changed" in said
    assert of_files(run) == before


def test_other_space_than_the_disks_is_named_as_what_it_is(run, monkeypatch, capsys):
    def no_shared_memory(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("drystone.train", no_shared_memory, raising=False)
    assert main(["train", str(run.path), "--force"]) == 1
    said = capsys.readouterr().err
    assert "not for a file of the run: shared memory (/dev/shm)" in said
    assert "the disk is full" not in said
