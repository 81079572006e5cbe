"""Tests for `drystone refine`: of an inference, of a fit, and what it refuses."""

import json
import sys

import numpy as np
import pytest

from drystone.cli.main import main
from drystone.runs import Run
from drystone.runs.config import Config, Simulate
from helpers.tiny_inference import ROWS, refine_module, shrink

CONFIG = Config(Simulate("two_moons", 100, ROWS, 30, seed=1))
MODEL = """
def simulate(theta, rng):
    return theta + 0.3 * rng.normal(size=theta.shape)

nothing = 3
"""


@pytest.fixture(autouse=True)
def small(monkeypatch):
    shrink(monkeypatch)
    monkeypatch.setattr(refine_module, "DRAWS_OF_RANKS", 30)


def observed(directory, data):
    path = directory / "observed.npy"
    np.save(path, data)
    return str(path)


def test_an_inference_of_a_task_is_refined_and_continued(tmp_path, capsys):
    CONFIG.write(Run(tmp_path).config_file)
    assert main(["simulate", str(tmp_path)]) == 0
    assert main(["infer", str(tmp_path), "--members", "1", "--target", "posterior"]) == 0
    command = ["refine", str(tmp_path), "--at", observed(tmp_path, [0.1, -0.2]), "--n", "100", "--json"]
    capsys.readouterr()
    assert main(command) == 0
    result = json.loads(capsys.readouterr().out)
    home = tmp_path / "refined" / "observed"
    assert set(result["posterior_sbc"]) == {"before", "after"}
    with np.load(home / "draws.npz") as draws:
        assert draws["draws"].shape == draws["before"].shape == (10_000, 2)
        first = draws["draws"]
    report = (home / "report.html").read_text()
    assert "What did the refinement change?" in report
    assert f"<pre>drystone refine {tmp_path} --at {command[3]} --n 100</pre>" in report
    assert main(command) == 0
    with np.load(home / "draws.npz") as draws:
        np.testing.assert_array_equal(draws["draws"], first)
    assert main([*command, "--seed", "1"]) == 1
    assert "out of date: the refinement" in capsys.readouterr().err


def test_a_fit_of_a_run_is_refined(tmp_path, capsys):
    CONFIG.write(Run(tmp_path).config_file)
    for command in (["simulate"], ["train", "--members", "1", "--epochs", "2"], ["tabulate"], ["stack"]):
        assert main([command[0], str(tmp_path), *command[1:]]) == 0
    at = observed(tmp_path, [[0.1, -0.2]])
    assert main(["refine", str(tmp_path), "--at", at, "--n", "100", "--fit", "lgo"]) == 1
    assert "unknown fit 'lgo'" in capsys.readouterr().err
    assert main(["refine", str(tmp_path), "--at", at, "--n", "100"]) == 0
    assert "Posterior SBC after" in capsys.readouterr().out


def test_files_are_refined_with_a_function_that_was_typed(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "refine_model.py").write_text(MODEL)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    rng = np.random.default_rng(0)
    theta = rng.uniform([0.0, -1.0], [2.0, 3.0], (160, 2))
    np.save("theta.npy", theta)
    np.save("y.npy", theta + 0.3 * rng.normal(size=theta.shape))
    files = ["--theta", "theta.npy", "--y", "y.npy", "--lower=0,-1", "--upper=2,3"]
    assert main(["infer", "mine", *files, "--members", "1", "--target", "posterior"]) == 0
    refine = ["refine", "mine", "--at", observed(tmp_path, [1.0, 1.0]), "--n", "100", *files]
    for simulator, message in (
        ("refine_model:nothing", "must be a function"),
        ("refine_model:no", "cannot be imp"),
    ):
        assert main([*refine, "--simulator", simulator]) == 1
        assert message in capsys.readouterr().err
    assert main(refine) == 1
    assert "no task" in capsys.readouterr().err
    assert main([*refine, "--simulator", "refine_model:simulate"]) == 0
    assert (tmp_path / "mine" / "refined" / "observed" / "report.html").exists()


def test_code_of_a_run_is_not_imported_unless_trusted(tmp_path, capsys):
    Config(Simulate("somewhere:Task", 100, ROWS, 30)).write(Run(tmp_path).config_file)
    assert main(["refine", str(tmp_path), "--at", observed(tmp_path, [0.0])]) == 1
    assert "add --trust" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["..npy", "...npy"])
def test_an_observation_whose_name_leads_elsewhere_is_refused(run, tmp_path, name, capsys):
    np.save(tmp_path / name, np.zeros(2))
    before = sorted(run.path.rglob("*"))
    assert main(["refine", str(run.path), "--at", str(tmp_path / name)]) == 2
    assert f"must have a name that a directory can have; got {name!r}" in capsys.readouterr().err
    assert sorted(run.path.rglob("*")) == before
