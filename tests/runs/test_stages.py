"""Tests for drystone.runs.stages: what is done again, what is refused, what is recognised as damaged."""

import errno
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

import drystone as ds
from drystone import DamagedError, LockedError, StaleError
from drystone._files import locked
from drystone.runs import Run, outputs, stages
from drystone.runs.config import Fit
from drystone.runs.evaluation import evaluate
from drystone.runs.manifest import Manifest
from helpers import tiny_run as tiny


def log_lines(run):
    return [json.loads(line)["stage"] for line in (run.path / "log.jsonl").read_text().splitlines()]


# ── what the stages write ────────────────────────────────────────────────────────────────────────────────────


def test_the_table_holds_the_stacking_rows_then_the_test_rows(run):
    drawn = ds.Simulations.load(run.path)
    validation, test = outputs.load_split(run, tiny.CONFIG)
    np.testing.assert_array_equal(validation.theta, drawn.theta[120:170])
    np.testing.assert_array_equal(test.theta, drawn.theta[170:])


def test_members_were_trained_on_the_training_rows_alone(run):
    drawn = ds.Simulations.load(run.path)
    task = ds.tasks.get("two_moons")
    again = ds.train(drawn.theta[:120], drawn.y[:120], members=3, family="maf", epochs=2, seed=2, prior=task.prior)
    np.testing.assert_array_equal(
        again[1].flow.parameters, outputs.load_members(run, tiny.CONFIG)[1].flow.parameters
    )


def test_a_fit_of_a_run_is_that_of_its_stacking_rows(run):
    validation, _ = outputs.load_split(run, tiny.CONFIG)
    np.testing.assert_array_equal(outputs.load_fits(run, tiny.CONFIG)["log"].weights, ds.stack(validation).weights)


def test_nothing_is_done_twice(run):
    before = log_lines(run)
    config = run.config
    stages.simulate(run, config)
    stages.tabulate(run, config)
    tiny.stack(run, config)
    assert log_lines(run) == before


def test_more_members_are_added_to_those_there_are(run):
    files = {path: path.read_bytes() for path in run.members.glob("maf-*")}
    config = tiny.CONFIG.changed("train", members=4)
    assert len(stages.train(run, config)) == 4
    assert all(path.read_bytes() == content for path, content in files.items())
    assert run.config.train.members == 4
    with pytest.raises(StaleError, match="members changed"):
        outputs.load_split(run, config)
    assert stages.tabulate(run, config).K == 4
    with pytest.raises(StaleError, match=r"the fit 'log' .*table.zarr changed"):
        outputs.load_fits(run, config)
    tiny.stack(run, config)
    assert len(outputs.load_fits(run, config)["log"].names) == 4


def test_the_exact_posterior_is_the_nearest_to_itself(run):
    evaluation = evaluate(run, tiny.CONFIG, exact=True)
    task = ds.tasks.get("two_moons")
    log_q = outputs.load_fits(run, tiny.CONFIG)["log"].apply(evaluation.test).log_q
    expected = (task.log_posterior(evaluation.test.theta, np.asarray(evaluation.test.y)) - log_q).mean()
    assert evaluation.gaps["log"].value == pytest.approx(expected)
    assert evaluation.gaps.keys() == {"best", "uniform", "log", "hybrid"}


# ── what was made from something else ────────────────────────────────────────────────────────────────────────


def test_simulations_and_members_are_not_replaced_unless_forced(run):
    other = tiny.CONFIG.changed("simulate", seed=4)
    with pytest.raises(StaleError, match=r"simulate.seed was 3 and is 4.*--force"):
        stages.simulate(run, other)
    assert run.config == tiny.CONFIG
    longer = tiny.CONFIG.changed("train", epochs=3)
    with pytest.raises(StaleError, match=r"train.epochs was 2 and is 3.*--force"):
        stages.train(run, longer)
    assert len(stages.train(run, longer, force=True)[0].history.losses) == 3
    stages.simulate(run, other, force=True)
    with pytest.raises(StaleError, match=r"the members .*simulations.zarr changed"):
        stages.tabulate(run, other.changed("train", epochs=3))


def test_a_table_of_other_settings_is_refused_by_readers_and_made_again_by_its_stage(run):
    config = tiny.CONFIG.changed("tabulate", draws=13)
    with pytest.raises(StaleError, match=r"tabulate.draws was 11 and is 13"):
        outputs.load_split(run, config)
    assert stages.tabulate(run, config).S == 13


def test_a_fit_asked_for_in_other_words_is_made_again(run):
    config = tiny.CONFIG.with_fit("log", Fit(form="mixture(concentration=1.5)"))
    with pytest.raises(StaleError, match=r"fits.log.form was 'mixture' and is"):
        outputs.load_fits(run, config)
    tiny.stack(run, config)
    assert outputs.load_fits(run, config)["log"].form == ds.Mixture(concentration=1.5)


def test_a_fit_to_a_few_rows_is_made_again_when_more_are_allowed(run):
    objectives = {name: (ds.Mixture(), score) for name, score in (("log", ds.LogScore()), ("rank", ds.RankCvM()))}
    config = tiny.CONFIG.with_fit("rank", Fit(score="rank"))

    def fitted(memory):
        with pytest.warns(UserWarning, match="ranks alone"):
            fit = stages.stack(run, config, objectives, memory=memory)["rank"]
        return [note for note in fit.notes if note.startswith("fitted to")]

    few, more = 2_000, 4_000
    (note,) = fitted(few)
    assert "of 50 rows" in note
    (longer,) = fitted(more)
    assert longer != note
    assert fitted(2**30) == []
    done = log_lines(run)
    assert done[-3:] == ["fits/rank"] * 3, "what is fitted in blocks is fitted to all rows, whatever the limit"
    assert stages.stack(run, config, objectives, memory=few)["rank"].notes == (), "a fit to all rows is kept"
    assert log_lines(run) == done


def test_a_table_made_elsewhere_is_taken_as_it_is_and_never_overwritten(original, tmp_path):
    run = Run(tmp_path / "bare")
    run.path.mkdir()
    table = ds.Table.load(original.table)
    table.save(run.table)
    config = tiny.CONFIG
    validation, test = outputs.load_split(run, config)
    assert (validation.N, test.N) == (50, 30)
    validation, test = outputs.load_split(run, config.changed("simulate", stack=7))  # not the counts of this table
    assert (validation.N, test.N) == (40, 40)
    tiny.stack(run, config)
    assert outputs.load_fits(run, config).keys() == {"log", "hybrid"}
    complete = tiny.copy(original, tmp_path / "complete")
    (complete.path / "manifest.json").unlink()
    with pytest.raises(ValueError, match=r"table.zarr was made elsewhere and is not overwritten"):
        stages.tabulate(complete, config)


def test_a_fit_to_other_rows_of_a_table_made_elsewhere_is_refused_and_made_again(original, tmp_path):
    run = Run(tmp_path / "bare")
    run.path.mkdir()
    ds.Table.load(original.table).save(run.table)
    tiny.stack(run, tiny.CONFIG)
    other = tiny.CONFIG.changed("simulate", stack=35, test=45)
    with pytest.raises(StaleError, match=r"the fit 'log' .*simulate.stack or simulate.test changed"):
        outputs.load_fits(run, other)
    tiny.stack(run, other)
    validation, _ = outputs.load_split(run, other)
    expected = ds.stack(validation).weights
    np.testing.assert_array_equal(outputs.load_fits(run, other)["log"].weights, expected)

    manifest = Manifest(run)  # as earlier versions wrote it
    record = manifest.stages["fits/log"]
    manifest.note("fits/log", replace(record, inputs={"table.zarr": record.inputs["table.zarr"]}))
    assert outputs.load_fits(run, other).keys() == {"log", "hybrid"}


def test_a_stage_killed_between_its_file_and_its_record_is_continued(run):
    for stage, again in (
        ("fits/log", lambda: tiny.stack(run, tiny.CONFIG)),
        ("tabulate", lambda: stages.tabulate(run, tiny.CONFIG)),
        ("simulate", lambda: stages.simulate(run, tiny.CONFIG)),
    ):
        before = Manifest(run).stages
        Manifest(run).note(stage, replace(before[stage], outputs=None))
        again()
        assert Manifest(run).stages == before


# ── damage ───────────────────────────────────────────────────────────────────────────────────────────────────


def truncate(path):
    path.write_bytes(path.read_bytes()[:-3])


def chunk(store, name):
    return max((p for p in (store / name).rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)


@pytest.mark.parametrize(
    "damage", [truncate, lambda path: path.unlink(), lambda path: path.write_bytes(b"0" * 99)]
)
@pytest.mark.parametrize("noted", [True, False], ids=["of a run", "made elsewhere"])
def test_a_damaged_table_is_named(run, damage, noted):
    if not noted:
        (run.path / "manifest.json").unlink()
    damage(chunk(run.table, "log_q"))
    with pytest.raises(DamagedError, match=r"table\.zarr"):
        outputs.load_split(run, tiny.CONFIG)


def test_damaged_simulations_are_named(run):
    truncate(chunk(run.simulations, "y"))
    with pytest.raises(DamagedError, match=r"simulations.zarr is damaged.*drystone simulate"):
        outputs.load_simulations(run, tiny.CONFIG)
    with pytest.raises(DamagedError, match=r"simulations.zarr is damaged"):
        ds.Simulations.load(run.path)


def test_a_damaged_member_is_named_and_can_be_trained_again(run):
    member = run.members / "maf-001.safetensors"
    whole = member.read_bytes()
    truncate(member)
    with pytest.raises(DamagedError, match=r"maf-001.safetensors is damaged.*Remove it and maf-001.json"):
        stages.train(run, tiny.CONFIG)
    with pytest.raises(DamagedError, match=r"maf-001.safetensors"):
        outputs.load_members(run, tiny.CONFIG)[1]
    member.unlink()
    with pytest.raises(DamagedError, match=r"maf-001.safetensors is missing"):
        stages.train(run, tiny.CONFIG)
    (run.members / "maf-001.json").unlink()
    stages.train(run, tiny.CONFIG)
    assert member.read_bytes() == whole


def test_an_edited_member_or_fit_is_named(run):
    for path, read in (
        (run.members / "maf-000.json", outputs.load_members),
        (run.fit("log"), outputs.load_fits),
    ):
        path.write_text(path.read_text().replace("0.", "0.1", 1))
        with pytest.raises(DamagedError, match=f"{path.name} was damaged or replaced"):
            read(run, tiny.CONFIG)


def test_a_damaged_manifest_is_named(run):
    truncate(run.path / "manifest.json")
    with pytest.raises(DamagedError, match=r"manifest.json is damaged"):
        outputs.load_split(run, tiny.CONFIG)


def test_a_full_disk_loses_nothing(run, monkeypatch):
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"), run.opened():
        stages.stack(run, tiny.CONFIG, {"log": (ds.Mixture(), ds.LogScore())}, memory=2**30, force=True)
    monkeypatch.undo()
    after = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    assert {p: c for p, c in after.items() if p.name != ".lock"} == {
        p: c for p, c in before.items() if p.name != ".lock"
    }
    assert outputs.load_fits(run, tiny.CONFIG)


# ── locks ────────────────────────────────────────────────────────────────────────────────────────────────────


HOLD = """
import pathlib, sys, time
from drystone._files import locked
with locked(pathlib.Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(600)
"""


def test_a_run_is_used_by_one_process_at_a_time(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(LockedError, match=rf"in use by process {other.pid} on .* since"), locked(tmp_path):
            pass
        other.kill()  # a killed process leaves no lock behind
    with locked(tmp_path):
        assert json.loads((tmp_path / ".lock").read_text())["pid"] == os.getpid()
    assert (tmp_path / ".lock").read_text() == ""


def test_what_a_killed_process_left_half_done_is_cleared_away(run):
    (run.members / f".maf-002.json.{'0f' * 16}.tmp").write_text("{")
    (run.path / f".table.zarr.{'0f' * 16}.tmp").mkdir()
    run.table.rename(run.path / f".table.zarr.{'1f' * 16}.old")
    with run.opened():
        assert stages.tabulate(run, tiny.CONFIG).K == 3
    assert not [path for path in run.path.rglob(".*") if path.name != ".lock"]


def test_times_are_kept_in_logs_and_nowhere_else(run):
    assert np.isfinite(outputs.load_members(run, tiny.CONFIG)[0].history.seconds)
    assert np.isnan(outputs.load_fits(run, tiny.CONFIG)["log"].seconds)
    assert "seconds" not in run.fit("log").read_text()
    assert "seconds" not in (run.members / "maf-000.json").read_text()


def test_only_what_a_killed_process_left_in_a_run_is_cleared_away(run, tmp_path):
    mine, left = ".notes.tmp", f".config.toml.{'0' * 32}.tmp"
    (tmp_path / "other").mkdir()
    for directory in (run.path, tmp_path / "other"):
        for name in (mine, left):
            (directory / name).write_text("")
        with Run(directory).opened():
            pass
        assert (directory / mine).exists()
    assert not (run.path / left).exists()
    assert (tmp_path / "other" / left).exists()


def test_a_run_that_can_only_be_read_is_not_locked(run, monkeypatch):
    @contextmanager
    def refused(path, mode):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        yield

    monkeypatch.setattr("drystone._files.lock.open_regular", refused)
    with pytest.raises(PermissionError), run.opened():
        pass
    monkeypatch.setattr("drystone._files.lock.os.access", lambda *_: False)
    with run.opened():
        assert evaluate(run, run.config).comparison.fits.keys() == {"log", "hybrid"}
