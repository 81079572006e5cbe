"""Each verb on a tiny run: what it prints, what it writes, what it tells a machine."""

import json
import shlex
import subprocess
import sys
from inspect import signature

import click
import numpy as np
import pytest

import drystone as ds
from drystone.cli.command import command_line
from drystone.cli.main import COMMANDS, cli, main
from drystone.cli.stack import MEMORY
from drystone.runs import outputs
from drystone.runs.config import Fit
from helpers import tiny_run as tiny
from helpers.tables import make_table


@pytest.fixture
def told(capsys):
    """Runs a command with --json and returns what it tells."""

    def telling(*arguments):
        capsys.readouterr()
        code = main([*map(str, arguments), "--json"])
        said = capsys.readouterr()
        assert code == 0, said.err
        return json.loads(said.out)

    return telling


@pytest.fixture
def said(capsys):
    """Runs a command and returns what it prints."""

    def saying(*arguments):
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == 0
        return capsys.readouterr().out

    return saying


def test_the_verbs_one_after_the_other_make_the_run_that_the_stages_make(original, told, tmp_path):
    run = tmp_path / "run"
    split = ("--train", 120, "--stack", 50, "--test", 30)
    assert told("simulate", run, "--task", "two_moons", *split, "--seed", 3)["rows"] == 200
    trained = told("train", run, "--members", 3, "--family", "maf", "--epochs", 2, "--seed", 2)
    assert trained["members"] == ["maf-000", "maf-001", "maf-002"]
    assert told("tabulate", run, "--draws", 11)["simulations"] == 80
    fits = told("stack", run)["fits"]
    assert sum(fits["log"]["weights"].values()) == pytest.approx(1)
    added = told("stack", run, "--score", "log + 0.1*rank", "--name", "hybrid")["fits"]
    assert list(added) == ["hybrid"]
    for name in ("config.toml", "manifest.json", "fits/log.json", "fits/hybrid.json", "members/maf-002.json"):
        assert (run / name).read_bytes() == (original.path / name).read_bytes(), name


def test_stack_prints_who_carries_weight(run, said):
    words = said("stack", run.path)
    assert "members carry weight" in words
    assert str(run.fit("hybrid")) in words


def test_a_fit_is_named_after_its_words(run, told):
    assert list(told("stack", run.path, "--score", "log + 10*rank")["fits"]) == ["log-10-rank"]
    assert list(told("stack", run.path, "--form", "local(epochs=2)")["fits"]) == ["local-epochs-2-log"]
    assert run.config.fits["log-10-rank"].score == "log + 10*rank"


@pytest.mark.parametrize("suffix", ["zarr", "nc"])
def test_a_bare_table_can_be_stacked(told, tmp_path, suffix):
    table = make_table(K=4, N=90)
    table.save(tmp_path / f"table.{suffix}")
    facts = told("stack", tmp_path / f"table.{suffix}", "--score", "log", "--out", tmp_path / "fit.json")
    np.testing.assert_allclose(list(facts["weights"].values()), ds.stack(table).weights)
    np.testing.assert_array_equal(ds.Stacking.load(tmp_path / "fit.json").weights, list(facts["weights"].values()))


def test_a_file_a_member_can_be_stacked(told, tmp_path):
    table = make_table(K=3, N=70)
    for k, name in enumerate(table.names):
        ds.adapters.to_file(tmp_path / f"{name}.npz", theta=table.theta, log_q=table.log_q[k])
    weights = told("stack", tmp_path / "member_*.npz")["weights"]
    assert list(weights) == list(table.names)
    np.testing.assert_allclose(list(weights.values()), ds.stack(table).weights)


def test_brackets_may_stand_in_the_names_of_directories(told, run, tmp_path):
    home = tmp_path / "res [v2]"
    copied = tiny.copy(run, home / "run")
    assert list(told("stack", copied.path)["fits"]) == ["log", "hybrid"]
    table = make_table(K=3, N=70)
    table.save(home / "table.zarr")
    for k, name in enumerate(table.names):
        ds.adapters.to_file(home / f"{name}.npz", theta=table.theta, log_q=table.log_q[k])
    for source in ("table.zarr", "member_*.npz", "member_[0-2].npz", "../res*/member_?.npz"):
        assert list(told("stack", home / source)["weights"]) == list(table.names)
    assert list(told("stack", home / "member_1.npz")["weights"]) == ["member_1"]


def test_a_bare_table_is_split_by_a_seed_to_be_compared(told, tmp_path):
    table = make_table(K=4, N=90)
    table.save(tmp_path / "table.zarr")
    facts = told("compare", tmp_path / "table.zarr", "--score", "energy", "--seed", 5)
    expected = ds.compare(
        *table.split(0.5, seed=5), {"energy": ds.stack(table.split(0.5, seed=5)[0], score=ds.EnergyScore())}
    )
    assert facts["test_rows"] == 45
    values = [row["value"] for row in facts["metrics"]]
    np.testing.assert_allclose(values, expected.frame["value"])
    assert facts["metrics"][0]["gain"] is None  # JSON has no NaN


def test_compare_with_the_exact_posterior(run, told, said):
    gaps = told("compare", run.path, "--exact")["nats_from_exact"]
    assert gaps.keys() == {"best", "uniform", "log", "hybrid"}
    assert "exact posterior" in said("compare", run.path, "--exact")


def test_sample_writes_draws_of_the_stacked_posterior(run, told, tmp_path):
    told(
        "sample", run.path, "--row", 4, "--fit", "hybrid", "--draws", 50, "--seed", 6, "--out", tmp_path / "a.npz"
    )
    _, test = outputs.load_split(run, tiny.CONFIG)
    np.save(tmp_path / "x.npy", test.y[4])
    told(
        "sample",
        run.path,
        "--x",
        tmp_path / "x.npy",
        "--fit",
        "hybrid",
        "--draws",
        50,
        "--seed",
        6,
        "--out",
        tmp_path / "b.npz",
    )
    posterior = outputs.load_fits(run, tiny.CONFIG)["hybrid"].posterior(outputs.load_members(run, tiny.CONFIG))
    with np.load(tmp_path / "a.npz") as a, np.load(tmp_path / "b.npz") as b:
        np.testing.assert_array_equal(a["draws"], posterior.sample((50,), x=test.y[4], seed=6))
        np.testing.assert_array_equal(a["draws"], b["draws"])
        np.testing.assert_array_equal(a["theta"], test.theta[4])
        assert a["parameters"].tolist() == list(test.parameters)


def test_simulations_made_elsewhere_are_taken_in(told, tmp_path):
    theta, y = ds.simulate(ds.tasks.get("gaussian"), n=60, seed=1)
    np.save(tmp_path / "theta.npy", theta)
    np.save(tmp_path / "y.npy", y)
    run = tmp_path / "run"
    files = ("--theta", tmp_path / "theta.npy", "--y", tmp_path / "y.npy")
    told("simulate", run, *files, "--train", 40, "--stack", 12, "--test", 8)
    told("train", run, "--members", 2, "--family", "maf", "--epochs", 1)
    assert told("tabulate", run, "--draws", 5)["simulations"] == 20


def test_report_writes_a_page(run, told, tmp_path):
    assert "Stacking" in told("report", run.path)["verdict"]
    assert run.report.read_text().startswith("<!doctype html>")
    make_table(K=3, N=60).save(tmp_path / "table.zarr")
    told("report", tmp_path / "table.zarr", "--out", tmp_path / "of_table.html")
    assert (tmp_path / "of_table.html").exists()


def test_tasks_are_listed(said, told):
    assert set(told("tasks")["tasks"]) == set(ds.tasks.names())
    assert "two_moons" in said("tasks")
    exact = {name for name, facts in told("tasks")["tasks"].items() if facts["exact"]}
    assert set(ds.tasks.names()) == exact


LINES = (
    "drystone report 'my table.zarr' --score log --score energy --seed 3 --drop --out r.html",
    "drystone report moons --exact --at observed.npy --trust",
    "drystone infer mine --theta t.npy --y y.npy --lower -1,0 --upper 2,1 --minutes 1.5 --members 2 --no-log-y",
    "drystone infer moons",
    "drystone refine moons --at observed.npy --simulator 'my model:simulate' --n 500 --fit log --workers 2",
    "drystone demo moons --quick",
)


@pytest.mark.parametrize("line", LINES)
def test_a_report_records_the_options_that_were_given_and_no_others(line):
    _, verb, *arguments = shlex.split(line)
    parent = click.Context(cli, info_name="drystone")
    verb = cli.get_command(parent, verb)
    with verb.make_context(verb.name, [*arguments, "--json"], parent):
        assert command_line() == line


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_verb_explains_itself_with_examples(verb, said):
    words = said(verb, "--help")
    assert "Examples:" in words
    assert "drystone" in words.partition("Examples:")[2]
    assert "--json" in words


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete(shell, said):
    assert "_DRYSTONE_COMPLETE" in said("completion", shell)


def test_the_version(said):
    assert said("--version").strip() == f"drystone, version {ds.__version__}"


def test_help_imports_nothing_heavy():
    heavy = "{'numpy', 'torch', 'pandas', 'scipy', 'zarr', 'xarray', 'numba', 'tqdm'}"
    code = (
        f"import sys; from drystone.cli.main import main; main(['--help']); assert not {heavy} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_table_is_stacked_without_importing_what_is_not_needed(tmp_path):
    make_table(K=4, N=30).save(tmp_path / "table.zarr")
    code = (
        "import sys; from drystone.cli.main import main; assert main(sys.argv[1:]) == 0; "
        "assert not {'pandas', 'xarray', 'numba', 'matplotlib', 'scipy.optimize'} & set(sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", code, "stack", str(tmp_path / "table.zarr")], check=True, capture_output=True
    )


def test_a_flag_changes_only_what_it_says_of_a_fit(run, told):
    told("stack", run.path, "--name", "hybrid", "--drop")
    assert run.config.fits["hybrid"] == Fit(score="log + 0.1*rank", nonfinite="drop")
    assert run.config.fits["log"] == Fit()


def test_fits_that_have_not_been_made_are_not_missed(run, told, tmp_path):
    run.fit("log").unlink()
    assert {row["method"] for row in told("compare", run.path)["metrics"]} == {"best", "uniform", "hybrid"}
    assert told("sample", run.path, "--row", 0, "--draws", 5, "--out", tmp_path / "x.npz")["fit"] == "hybrid"


def test_the_command_line_reads_as_much_at_once_as_the_library_does():
    assert signature(ds.Table.open).parameters["memory"].default == MEMORY * 2**30


def test_one_number_a_simulation_may_come_in_one_dimension(told, tmp_path):
    np.save(tmp_path / "theta.npy", np.arange(7.0))
    np.save(tmp_path / "y.npy", np.ones((7, 3)))
    files = ("--theta", tmp_path / "theta.npy", "--y", tmp_path / "y.npy")
    taken = told("simulate", tmp_path / "run", *files, "--train", 4, "--stack", 2)
    assert (taken["rows"], taken["parameters"], taken["data"]) == (7, 1, 3)


def test_a_run_is_a_run_whatever_its_name(run, told, tmp_path):
    copied = tiny.copy(run, tmp_path / "run.zarr")
    assert list(told("stack", copied.path)["fits"]) == ["log", "hybrid"]


def test_a_task_of_ones_own_is_found_where_one_is(told, tmp_path, monkeypatch):
    (tmp_path / "my_own_task.py").write_text("from drystone.tasks import get\nmine = get('two_moons')\n")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    monkeypatch.chdir(tmp_path)
    split = ("--train", 3, "--stack", 2, "--test", 2)
    assert told("simulate", "run", "--task", "my_own_task:mine", *split)["rows"] == 7


def test_a_report_begins_with_the_observation_in_a_file(run, told, tmp_path, capsys):
    np.save(tmp_path / "y.npy", np.array([0.1, -0.2]))
    told("report", run.path, "--at", tmp_path / "y.npy")
    text = run.report.read_text(encoding="utf-8")
    assert text.index('id="observation"') < text.index('id="verdict"')
    assert "Data simulated from the posterior" in text
    assert "--at" in text
    assert main(["report", str(run.table), "--at", str(tmp_path / "y.npy")]) == 2
    assert "needs the members themselves" in capsys.readouterr().err
