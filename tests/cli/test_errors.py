"""Every mistake a user can make at the command line is one sentence, a code that is not 0, and no traceback."""

import json
import os

import numpy as np
import pytest

from drystone._files import locked
from drystone.cli.main import main
from helpers.tables import make_table


@pytest.fixture
def table(tmp_path):
    make_table(K=4, N=30).save(tmp_path / "table.zarr")
    return tmp_path / "table.zarr"


@pytest.fixture
def fails(capsys):
    """Runs a command that must fail, and returns its sentence."""

    def failing(*arguments, code=1):
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == code
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        lines = [line for line in said.err.splitlines() if line and not line.startswith(("Usage:", "Try "))]
        assert len(lines) == 1, said.err
        return lines[0]

    return failing


def test_missing_files(fails, tmp_path):
    assert "there is no run at" in fails("train", tmp_path / "nowhere")
    assert "there is no run at" in fails("sample", tmp_path / "nowhere", "--row", 0, "--out", tmp_path / "x.npz")
    assert "no table at" in fails("stack", tmp_path / "nowhere.zarr")
    assert "no table at" in fails("compare", tmp_path / "nowhere.nc")
    assert "*.npz" in fails("stack", tmp_path / "*.npz")
    assert "there is no file" in fails(
        "simulate", tmp_path / "run", "--theta", tmp_path / "theta.npy", "--y", tmp_path / "y.npy"
    )
    files = ["--theta", tmp_path / "theta.npy", "--y", tmp_path / "y.npy"]
    assert "there is no file" in fails("infer", tmp_path / "inferred", *files, "--lower=0", "--upper=1")
    assert not (tmp_path / "inferred").exists()


def test_stages_that_have_not_been_done(fails, tmp_path):
    (tmp_path / "run").mkdir()
    assert "there is no simulations.zarr" in fails("train", tmp_path / "run")
    assert "`drystone simulate" in fails("tabulate", tmp_path / "run")
    assert "there is no table.zarr" in fails("stack", tmp_path / "run")
    assert "there is no table.zarr" in fails("compare", tmp_path / "run")
    assert "there is no fits/log.json" in fails(
        "sample", tmp_path / "run", "--row", 0, "--out", tmp_path / "x.npz"
    )


def test_no_members(fails, run):
    for path in run.members.iterdir():
        path.unlink()
    assert "there is no members" in fails("tabulate", run.path)


def test_words_that_are_not_scores_or_forms(fails, table, run):
    assert "Did you mean 'energy'?" in fails("stack", table, "--score", "enrgy")
    assert "unknown form 'mix'" in fails("stack", table, "--form", "mix")
    assert "arguments of 'interval' must be named" in fails("stack", table, "--score", "interval(0.2)")
    assert "alpha must be in (0, 1)" in fails("stack", table, "--score", "interval(alpha=20)")
    assert "use names, numbers" in fails("stack", table, "--score", "__import__('os').getcwd()")
    assert "unknown score 'rnk'" in fails("compare", table, "--score", "log + rnk")
    run.config_file.write_text(run.config_file.read_text().replace("0.1*rank", "0.1*rnak"))
    assert "[fits.hybrid]" in fails("train", run.path)  # before anything long is begun


def test_a_form_that_cannot_be_scored_so(fails, table):
    assert "SampleAggregation" in fails("stack", table, "--form", "sample", "--score", "log")


def test_unknown_tasks_verbs_and_options(fails, tmp_path):
    assert "Did you mean 'two_moons'?" in fails("simulate", tmp_path / "run", "--task", "twomoons")
    assert "no task: give one with --task" in fails("simulate", tmp_path / "run")
    assert "cannot be imported" in fails("simulate", tmp_path / "run", "--task", "nowhere:task")
    assert "must be a drystone.Task" in fails("simulate", tmp_path / "run", "--task", "json:dumps")
    assert "Did you mean 'stack'?" in fails("stak", code=2)
    assert "--membrs" in fails("train", tmp_path, "--membrs", 3, code=2)
    assert "is not one of" in fails("train", tmp_path, "--family", "nfs", code=2)


def test_wrong_shapes(fails, run, tmp_path):
    np.save(tmp_path / "theta.npy", np.ones((7, 2)))
    np.save(tmp_path / "y.npy", np.ones((6, 2)))
    said = fails("simulate", tmp_path / "new", "--theta", tmp_path / "theta.npy", "--y", tmp_path / "y.npy")
    assert "of the same N; got (7, 2) and (6, 2)" in said
    np.save(tmp_path / "x.npy", np.ones(5))
    assert "must be one observation of shape (2,); got shape (5,)" in fails(
        "sample", run.path, "--x", tmp_path / "x.npy", "--out", tmp_path / "draws.npz"
    )
    (tmp_path / "x.npy").write_text("1, 2")
    assert "is not a NumPy array" in fails(
        "sample", run.path, "--x", tmp_path / "x.npy", "--out", tmp_path / "d.npz"
    )


def test_files_that_are_no_numpy_arrays(fails, run, tmp_path):
    (tmp_path / "theta.csv").write_text("0.1,0.2\n0.3,0.4\n")
    np.savez(tmp_path / "theta.npz", theta=np.ones((2, 2)))
    np.save(tmp_path / "y.npy", np.ones((2, 2)))
    for name in ("theta.csv", "theta.npz"):
        path, said = tmp_path / name, f"{name} is not a NumPy array (.npy), the only format that is read"
        files = ("--theta", path, "--y", tmp_path / "y.npy")
        assert said in fails("simulate", tmp_path / "new", *files)
        assert said in fails("infer", tmp_path / "new", *files, "--lower=0,0", "--upper=1,1")
        assert said in fails("sample", run.path, "--x", path, "--out", tmp_path / "draws.npz")


def test_rows_and_fits_that_are_not_there(fails, run, tmp_path):
    out = ("--out", tmp_path / "draws.npz")
    assert "--row must be below 30" in fails("sample", run.path, "--row", 30, *out)
    assert "unknown fit 'lgo'; known: hybrid, log. Did you mean 'log'?" in fails(
        "sample", run.path, "--row", 0, "--fit", "lgo", *out
    )
    assert "either --at or --row" in fails("sample", run.path, *out, code=2)
    assert "there is no fit 'x'" in fails("stack", run.path, "--name", "x")


def test_a_configuration_that_makes_no_sense(fails, run):
    text = run.config_file.read_text()
    run.config_file.write_text("[train\n")
    assert "is not valid TOML" in fails("train", run.path)
    run.config_file.write_text(text.replace("members = 3", "membres = 3"))
    assert "Did you mean 'members'?" in fails("train", run.path)
    run.config_file.write_text(text.replace("epochs = 2", 'epochs = "many"'))
    assert "`train.epochs` must be an integer; got 'many'" in fails("train", run.path)


def test_settings_that_have_changed(fails, run):
    assert "train.epochs was 2 and is 5" in fails("train", run.path, "--epochs", 5)
    assert "--force" in fails("simulate", run.path, "--seed", 8)


def test_members_that_were_trained_again_are_not_drawn_from_with_old_weights(fails, run, tmp_path):
    np.save(tmp_path / "x.npy", np.array([0.1, 0.2]))
    data, out = ("--x", tmp_path / "x.npy"), ("--out", tmp_path / "draws.npz")
    assert main(["train", str(run.path), "--seed", "9", "--force"]) == 0
    said = fails("sample", run.path, *data, *out)
    assert said == fails("sample", run.path, "--row", 0, *out)
    assert "out of date: the table" in said
    assert "members changed" in said
    for verb in ("tabulate", "stack"):
        assert main([verb, str(run.path)]) == 0
    assert main(["sample", str(run.path), *map(str, (*data, *out))]) == 0


def test_a_locked_run(fails, run):
    with locked(run.path):
        assert f"in use by process {os.getpid()} on" in fails("train", run.path)


def test_damaged_files(fails, run, table):
    for store in (run.table, table):
        victim = max((store / "log_q").rglob("*"), key=lambda p: p.stat().st_size if p.is_file() else 0)
        victim.write_bytes(victim.read_bytes()[:-9])
    for store in (run.path, table):
        said = fails("stack", store)
        assert "table.zarr" in said
        assert "is damaged" in said
    (table / "zarr.json").write_text("{")
    assert "zarr.json is damaged: it is not a complete JSON" in fails("stack", table)
    run.fit("log").write_text("{")
    assert "fits/log.json was damaged or replaced" in fails("sample", run.path, "--row", 0, "--out", "x.npz")


def test_a_directory_that_cannot_be_written(fails, tmp_path):
    (tmp_path / "file").write_text("")
    assert "is a file; a run is a directory" in fails("simulate", tmp_path / "file", "--task", "gaussian")
    assert "not a directory" in fails("simulate", tmp_path / "file" / "run", "--task", "gaussian")
    if os.geteuid():  # root may write anywhere
        (tmp_path / "kept").mkdir(mode=0o500)
        assert "permission denied" in fails("simulate", tmp_path / "kept" / "run", "--task", "gaussian")


def test_a_full_disk_in_one_sentence(fails, run, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert "the disk is full" in fails("stack", run.path, "--force")


def test_members_whose_statistics_are_not_finite(fails, tmp_path):
    table = make_table(K=3, N=20)
    table.log_q[1, 4] = np.nan
    table.save(tmp_path / "table.zarr")
    assert "'member_1' at 1 of 20 rows" in fails("stack", tmp_path / "table.zarr")
    assert main(["stack", str(tmp_path / "table.zarr"), "--drop"]) == 0


def test_an_interruption_has_its_own_code(fails, table, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("drystone.stack", interrupted, raising=False)
    assert "interrupted" in fails("stack", table, code=130)


def test_an_error_of_ours_is_one_sentence_too(fails, table, monkeypatch, capsys):
    def broken(*_, **__):
        raise ZeroDivisionError("of course")

    monkeypatch.setattr("drystone.stack", broken, raising=False)
    assert "unexpected ZeroDivisionError: of course (--debug shows where)" in fails("stack", table)
    assert main(["stack", str(table), "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_machine_is_told_of_errors_in_json(table, capsys):
    assert main(["stack", str(table), "--score", "x", "--json"]) == 1
    assert "unknown score 'x'" in json.loads(capsys.readouterr().out)["error"]


def test_a_machine_is_told_of_wrong_usage_in_json(table, capsys):
    assert main(["stack", str(table), "--scroe", "x", "--json"]) == 2
    assert "--scroe" in json.loads(capsys.readouterr().out)["error"]


def test_the_demo_keeps_the_configuration_of_another_run(fails, run):
    before = run.config_file.read_bytes()
    assert "give another directory" in fails("demo", run.path)
    assert run.config_file.read_bytes() == before


def test_a_fit_that_cannot_be_made_does_not_stay_in_the_configuration(fails, run):
    before = run.config_file.read_bytes()
    assert "IntervalAggregation does not give" in fails("stack", run.path, "--form", "interval", "--score", "log")
    assert run.config_file.read_bytes() == before


def test_two_objectives_do_not_share_a_name_that_is_made_of_them(fails, run):
    assert main(["stack", str(run.path), "--score", "log + 10*rank"]) == 0
    assert main(["stack", str(run.path), "--score", "log+10*rank"]) == 0
    assert "name this one with --name" in fails("stack", run.path, "--score", "log*10 + rank")


def test_simulations_that_cannot_begin_leave_no_directory(fails, tmp_path):
    run = tmp_path / "run"
    for name, rows in (("theta", 7), ("y", 6), ("few", 7)):
        np.save(tmp_path / f"{name}.npy", np.ones((rows, 2)))
    (tmp_path / "text.npy").write_text("1, 2")
    for options in (("--task", "twomoons"), ("--task", "nowhere:task"), (), ("--task", "two_moons", "--train", 0)):
        fails("simulate", run, *options)
        assert not run.exists(), options
    for theta, y in (("text", "y"), ("theta", "missing"), ("theta", "y"), ("theta", "few")):
        fails("simulate", run, "--theta", tmp_path / f"{theta}.npy", "--y", tmp_path / f"{y}.npy")
        assert not run.exists(), (theta, y)


def test_options_that_have_no_effect_are_refused(fails, run, table):
    for verb in ("compare", "report"):
        for option in (("--seed", 0), ("--score", "log"), ("--drop",)):
            assert "--score, --seed" in fails(verb, run.path, *option, code=2)
    for options in (["--name", "mine"], ["--force"]):
        assert "--name and --force are for runs" in fails("stack", table, *options, code=2)


def test_a_table_cannot_be_sampled(fails, table):
    assert "give a run" in fails("sample", table, "--row", 0, "--out", "x.npz", code=2)


def test_a_forced_command_that_is_interrupted_continues_without_force(fails, run, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("drystone.stack", interrupted, raising=False)
    assert "without --force continues" in fails("stack", run.path, "--force", code=130)


def test_files_of_members_are_spoken_of_as_the_shell_has_them(fails, tmp_path):
    (tmp_path / "a.npz").write_text("no array")
    assert "--drop" in fails("stack", tmp_path / "*.npz")
    np.savez(tmp_path / "a.npz", log_q=np.zeros(5))
    assert "write it into the files, ds.adapters.to_file" in fails("stack", tmp_path / "*.npz")


def test_paths_that_are_no_tables(fails, tmp_path):
    for k in range(2):
        np.savez(tmp_path / f"{k}.npz", log_q=np.zeros((4, 5)), theta=np.zeros((5, 1)))
    assert "put quotes around a pattern" in fails("stack", tmp_path / "0.npz", tmp_path / "1.npz", code=2)
    assert f'give "{tmp_path}/*.npz"' in fails("stack", tmp_path, code=2)
    assert "because a file holds one member; got (4, 5)" in fails("stack", tmp_path / "*.npz")
    np.save(tmp_path / "log_q.npy", np.zeros((4, 5)))
    assert "log_q.npy is an array" in fails("compare", tmp_path / "log_q.npy", code=2)


def test_simulations_that_leave_none_to_test_on(fails, tmp_path):
    for name in ("theta", "y"):
        np.save(tmp_path / f"{name}.npy", np.ones((30, 2)))
    files = ("--theta", tmp_path / "theta.npy", "--y", tmp_path / "y.npy")
    assert "leaves none to test on" in fails("simulate", tmp_path / "run", *files)
    assert main(["simulate", *map(str, (tmp_path / "run", *files)), "--train", "20", "--stack", "5"]) == 0


@pytest.mark.filterwarnings("default")  # they are what is looked at
@pytest.mark.parametrize("verb", ["compare", "report"])
def test_tables_are_judged_without_members_that_are_not_finite(fails, tmp_path, capsys, monkeypatch, verb):
    monkeypatch.chdir(tmp_path)
    table = make_table(K=3, N=80)
    table.log_q[1, 4] = np.nan
    table.save("table.zarr")
    assert "'member_1' at 1 of" in fails(verb, "table.zarr")
    assert main([verb, "table.zarr", "--drop"]) == 0
    assert "left out because of NaN or infinite entries: 'member_1' at 1 of 80 rows" in capsys.readouterr().err


def test_a_run_without_members_cannot_be_sampled(fails, run):
    for path in run.members.glob("*"):
        path.unlink()
    said = fails("sample", run.path, "--row", 0, "--out", "x.npz")
    assert "has no members to draw from" in said
