"""Replacing the files of a run can be continued, or given up; see also tests/adversary/test_faults.py."""

import errno
import os
import shutil

import pytest

import drystone as ds
from drystone import StaleError
from drystone.cli.main import main
from drystone.runs import outputs, stages
from drystone.runs.config import Fit
from drystone.training import disk
from helpers import tiny_run as tiny
from helpers.faults import injected
from helpers.killing import contents

# Verbs that replace files, with the configuration they are called with.
OTHER = {
    "simulate": tiny.CONFIG.changed("simulate", seed=4),
    "train": tiny.CONFIG.changed("train", epochs=3),
    "tabulate": tiny.CONFIG.changed("tabulate", draws=13),
    "stack": tiny.CONFIG.with_fit("log", Fit(form="mixture(concentration=1.5)")),
}


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


def of_files(run):
    """The checksums of simulations, members, table and fits."""
    whole = contents(run.path)
    return {
        part: {name: value for name, value in whole.items() if name.startswith(f"{part}/")}
        for part in ("simulations.zarr", "members", "table.zarr", "fits")
    }


def test_forced_work_that_was_interrupted_continues_without_force(run, monkeypatch):
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
        outputs.load_members(run, config)
    assert [len(member.history.losses) for member in outputs.load_members(run, tiny.CONFIG)] == [2, 2, 2]
    trained.clear()
    perform(run, "train", config)
    assert len(trained) == 1
    assert [len(member.history.losses) for member in outputs.load_members(run, config)] == [3, 3, 3]


def test_forced_work_is_given_up_when_the_old_settings_are_put_back(run):
    whole = contents(run.path)
    with pytest.raises(OSError, match="No space"), injected(run.path, 14):
        perform(run, "simulate", OTHER["simulate"], force=True)
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


def test_other_space_than_the_disks_is_named_as_what_it_is(run, monkeypatch, capsys):
    def no_shared_memory(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("drystone.train", no_shared_memory, raising=False)
    assert main(["train", str(run.path), "--force"]) == 1
    said = capsys.readouterr().err
    assert "not for a file of the run: shared memory (/dev/shm)" in said
    assert "the disk is full" not in said


@pytest.mark.parametrize("verb", OTHER)
def test_settings_of_work_that_failed_are_not_those_of_the_run(run, verb):
    before, config = contents(run.path), run.config_file.read_text()
    with pytest.raises(OSError, match="No space"), injected(run.path, 14):  # in the midst of the work
        perform(run, verb, OTHER[verb], force=True)
    assert run.config_file.read_text() == config
    outputs.load_members(run, run.config)
    outputs.load_split(run, run.config)
    outputs.load_fits(run, run.config)
    perform(run, verb, tiny.CONFIG)  # given up
    assert contents(run.path) == before
