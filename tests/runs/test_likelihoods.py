"""Likelihoods of a run: a stage of their own, beside the posteriors."""

import numpy as np
import pytest
from click.testing import CliRunner

import drystone as ds
from drystone.cli.main import cli
from drystone.errors import StaleError
from drystone.runs import stages
from drystone.runs.config import Config
from helpers import tiny_run as tiny

CONFIG = tiny.CONFIG.changed("likelihoods", members=2, epochs=2, seed=1)


@pytest.fixture(scope="module")
def trained(original, tmp_path_factory):
    run = tiny.copy(original, tmp_path_factory.mktemp("likelihoods") / "run")
    stages.train_likelihoods(run, CONFIG)
    return run


@pytest.fixture
def run(trained, tmp_path):
    return tiny.copy(trained, tmp_path / "run")


def files(run):
    return {path: path.stat().st_mtime_ns for path in run.likelihoods.glob("*.json")}


def test_they_are_trained_on_the_training_rows_with_the_prior_of_the_task(run):
    drawn = ds.Simulations.load(run.path)
    likelihoods = stages.load_likelihoods(run, CONFIG)
    assert likelihoods.names == ("nle-maf-000", "nle-nsf-001")
    options = {"members": 2, "epochs": 2, "seed": 1, "patience": 8, "prior": ds.tasks.get("two_moons").prior}
    again = ds.train(drawn.theta[:120], drawn.y[:120], target="likelihood", **options)
    theta, y = drawn.theta[120:], drawn.y[120:]
    np.testing.assert_array_equal(likelihoods.log_likelihood(theta, y), again.log_likelihood(theta, y))


def test_they_leave_the_other_stages_up_to_date(run):
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*") if path.suffix in (".json", ".toml")}
    stages.train(run, CONFIG)
    stages.tabulate(run, CONFIG)
    tiny.stack(run, CONFIG)
    after = {path: path.stat().st_mtime_ns for path in before}
    assert {path.name for path in before if before[path] != after[path]} <= {"manifest.json"}


def test_more_are_added_and_other_settings_refused(run):
    finished = files(run)
    stages.train_likelihoods(run, CONFIG.changed("likelihoods", members=3))
    assert stages.load_likelihoods(run, run.config).names == ("nle-maf-000", "nle-nsf-001", "nle-maf-002")
    assert finished.items() <= files(run).items()
    longer = CONFIG.changed("likelihoods", epochs=3)
    with pytest.raises(StaleError, match=r"the likelihoods in .*likelihoods.epochs was 2 and is 3.*--force"):
        stages.train_likelihoods(run, longer)
    with pytest.raises(StaleError, match=r"drystone train --target likelihood .* --force"):
        stages.load_likelihoods(run, longer)
    assert len(stages.train_likelihoods(run, longer, force=True)[0].history.losses) == 3
    assert stages.load_likelihoods(run, longer).names == ("nle-maf-000", "nle-nsf-001")


def test_a_run_without_them_says_how_to_train_them(original):
    with pytest.raises(FileNotFoundError, match=r"no likelihoods in .*drystone train --target likelihood"):
        stages.load_likelihoods(original, original.config)


def test_the_command_writes_them_and_their_settings(original, tmp_path):
    run = tiny.copy(original, tmp_path / "run")
    assert "likelihoods" not in run.config_file.read_text()
    arguments = ["train", str(run.path), "--target", "likelihood", "--members", "1", "--epochs", "1"]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "likelihoods: 1 members" in result.output
    assert (run.likelihoods / "nle-maf-000.safetensors").exists()
    config = Config.read(run.config_file)
    assert (config.likelihoods.members, config.likelihoods.family, config.likelihoods.patience) == (1, "both", 8)
    assert config.train == original.config.train
    result = CliRunner().invoke(cli, [*arguments, "--sweep", "paper"])
    assert result.exit_code == 2
    assert "--sweep is for posteriors" in result.output


def test_a_wrong_family_is_named():
    with pytest.raises(ValueError, match=r"`likelihoods.family`"):
        Config.from_dict({"likelihoods": {"family": "made"}})
