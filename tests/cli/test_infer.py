"""Tests for `drystone infer`: on a run, on files, and again."""

import json
import shlex

import numpy as np
import pytest

import drystone as ds
from drystone.cli.main import main
from drystone.runs import Run
from drystone.runs.config import Config, Simulate
from helpers.tiny_inference import ROWS, infer_module, shrink

CONFIG = Config(Simulate("two_moons", 100, ROWS, 20, seed=1))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    shrink(monkeypatch)


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    theta = rng.uniform([0.0, -1.0], [2.0, 3.0], (160, 2))
    y = theta + 0.3 * rng.normal(size=theta.shape)
    for name, array in (("theta", theta), ("y", y), ("observed", y[0])):
        np.save(tmp_path / f"{name}.npy", array)
    paths = [str(tmp_path / f"{name}.npy") for name in ("theta", "y", "observed")]
    return ["--theta", paths[0], "--y", paths[1], "--lower=0,-1", "--upper=2,3"], paths[2]


def test_files_with_bounds_become_a_report_with_the_posterior_at_the_data(tmp_path, files, capsys):
    options, observed = files
    arguments = ["infer", str(tmp_path / "mine"), *options, "--members", "1", "--at", observed]
    assert main([*arguments, "--parameters", "a,b", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    report = (tmp_path / "mine" / "inference" / "report.html").read_text()
    assert "Your observation" in report
    command = (
        f"drystone infer {tmp_path / 'mine'} {shlex.join(options[:4])} --lower 0,-1 --upper 2,3 --parameters a,b"
    )
    assert f"<pre>{command} --at {observed} --members 1</pre>" in report
    assert set(result["weights"]) <= {"nsf-000", "nle-maf-000"}
    assert ds.Table.load(tmp_path / "mine" / "inference" / "stacking" / "table.zarr").parameters == ("a", "b")
    assert "Comparison on held-out simulations" in report
    assert "neither members nor weights have seen" not in report


def test_likelihoods_can_have_a_number_of_their_own(tmp_path, files, capsys):
    options, _ = files
    assert main(["infer", str(tmp_path / "mine"), *options, "--members", "1", "--likelihoods", "2"]) == 0
    table = ds.Table.load(tmp_path / "mine" / "inference" / "stacking" / "table.zarr")
    assert table.names == ("nsf-000", "nle-maf-000", "nle-nsf-001")


def test_an_inference_of_files_is_drawn_from_and_named_where_stages_are_missing(tmp_path, files, capsys):
    options, observed = files
    run = str(tmp_path / "mine")
    assert main(["infer", run, *options, "--members", "1"]) == 0
    capsys.readouterr()
    assert main(["sample", run, "--at", observed, "--draws", "50", "--out", str(tmp_path / "draws.npz")]) == 0
    with np.load(tmp_path / "draws.npz") as file:
        draws = file["draws"]
    theta, y = (np.load(tmp_path / f"{name}.npy") for name in ("theta", "y"))
    again = ds.infer(
        theta, y, prior=([0, -1], [2, 3]), members=1, directory=tmp_path / "mine" / "inference", progress=False
    )
    np.testing.assert_array_equal(draws, again.posterior.sample((50,), np.load(observed), seed=0))
    capsys.readouterr()
    assert main(["compare", run]) == 1
    assert "The run has an inference" in capsys.readouterr().err


def test_a_run_is_continued_and_compared_on_its_test_rows(tmp_path, capsys):
    run = Run(tmp_path)
    CONFIG.write(run.config_file)
    assert main(["simulate", str(tmp_path)]) == 0
    command = ["infer", str(tmp_path), "--members", "1", "--target", "posterior"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "Report:" in out
    assert "trained again on all of them" in out
    fit = tmp_path / "inference" / "fit.json"
    before = fit.read_bytes()
    assert main(command) == 0
    assert fit.read_bytes() == before
    assert ds.Table.load(tmp_path / "inference" / "test" / "table.zarr").N == 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--theta", "t.npy"], "--theta and --y must be given together"),
        (["--theta", "t.npy", "--y", "y.npy"], "need the prior"),
        (["--lower=0"], "are for simulations made elsewhere"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(tmp_path, arguments, message, capsys):
    assert main(["infer", str(tmp_path), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_bounds_that_are_no_numbers_are_refused(tmp_path, files, capsys):
    options, _ = files
    assert main(["infer", str(tmp_path), *options[:4], "--lower=a,b", "--upper=2,3"]) == 2
    assert "--lower must be numbers" in capsys.readouterr().err


def test_what_is_wrong_is_said_before_any_work_and_leaves_no_settings(tmp_path, files, capsys, monkeypatch):
    monkeypatch.setattr(infer_module, "train", None)
    options, _ = files
    np.save(tmp_path / "three.npy", np.zeros(3))
    run = tmp_path / "mine"
    assert main(["infer", str(run), *options[:4], "--lower=0,0", "--upper=2,3"]) == 1
    assert "must lie in the support of `prior`" in capsys.readouterr().err
    assert main(["infer", str(run), *options, "--at", str(tmp_path / "three.npy")]) == 1
    assert "`at` must be one observation of shape (2,); got shape (3,)" in capsys.readouterr().err
    assert not (run / "config.toml").exists()
