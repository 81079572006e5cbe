"""Likelihoods of a run: a stage of their own, beside the posteriors."""

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import drystone as ds
from drystone.cli.main import cli
from drystone.errors import DamagedError, StaleError
from drystone.runs import outputs, stages
from drystone.runs.config import Config
from drystone.runs.normalizer import RunNormalizer
from drystone.runs.task import with_prior
from helpers import tiny_run as tiny

CONFIG = tiny.CONFIG.changed("likelihoods", members=2, epochs=2, seed=1)


def likelihoods(run, config, force=False):
    return stages.train(run, config, target="likelihood", force=force)


@pytest.fixture(scope="module")
def trained(original, tmp_path_factory):
    run = tiny.copy(original, tmp_path_factory.mktemp("likelihoods") / "run")
    likelihoods(run, CONFIG)
    return run


@pytest.fixture
def run(trained, tmp_path):
    return tiny.copy(trained, tmp_path / "run")


def files(run):
    return {path: path.stat().st_mtime_ns for path in run.likelihoods.glob("*.json")}


def test_they_are_trained_on_the_training_rows_with_the_prior_of_the_task(run):
    drawn = ds.Simulations.load(run.path)
    trained = outputs.load_likelihoods(run, CONFIG)
    assert trained.names == ("nle-maf-000", "nle-nsf-001")
    options = {"members": 2, "epochs": 2, "seed": 1, "patience": 8, "prior": ds.tasks.get("two_moons").prior}
    again = ds.train(drawn.theta[:120], drawn.y[:120], target="likelihood", **options)
    theta, y = drawn.theta[120:], drawn.y[120:]
    np.testing.assert_array_equal(trained.log_likelihood(theta, y), again.log_likelihood(theta, y))


def test_the_table_is_made_again_with_them_normalized(run):
    before = {path: path.stat().st_mtime_ns for path in run.members.glob("*.json")}
    stages.train(run, CONFIG)
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())
    table = stages.tabulate(run, CONFIG)
    posteriors = outputs.load_members(run, CONFIG)
    assert table.names == (*posteriors.names, "nle-maf-000", "nle-nsf-001")
    assert np.isnan(table.effective[: len(posteriors)]).all()
    assert (table.effective[len(posteriors) :] >= 1).all()
    written = run.normalizer.read_bytes()
    again = stages.tabulate(run, CONFIG, force=True)
    np.testing.assert_array_equal(again.log_q, table.log_q)
    assert run.normalizer.read_bytes() == written


def test_the_members_of_the_table_are_loaded_as_they_were_normalized(run):
    table = stages.tabulate(run, CONFIG)
    members = outputs.load_stacked_members(run, CONFIG)
    np.testing.assert_array_equal(members["nle-nsf-001"].log_prob(table.theta, table.y), table.log_q[-1])
    proposal = RunNormalizer.load(run.normalizer).proposal
    assert sum(proposal.values()) == pytest.approx(1)
    assert set(proposal) <= set(table.names)


def test_a_stack_with_likelihoods_is_sampled_and_reported(run, tmp_path):
    for words in ("tabulate", "stack", "report", f"sample --row 0 --out {tmp_path / 'draws.npz'}"):
        verb, *options = words.split()
        result = CliRunner().invoke(cli, [verb, str(run.path), *options], catch_exceptions=False)
        assert result.exit_code == 0, result.output
    assert np.load(tmp_path / "draws.npz")["draws"].shape == (1000, 2)
    report = run.report.read_text()
    assert "effective points" in report
    assert "likelihood" in report


def call(run, words):
    verb, *options = words.split()
    result = CliRunner().invoke(cli, [verb, str(run.path), *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_product_goes_from_the_table_of_a_run_to_its_report(run, tmp_path):
    call(run, "tabulate --points 50")
    call(run, "stack")
    assert "product" in call(run, "stack --form product").lower()
    assert "product-log" in call(run, "compare")
    call(run, "report")
    assert "product-log" in run.report.read_text()
    call(run, f"sample --fit product-log --row 0 --draws 50 --out {tmp_path / 'draws.npz'}")
    assert np.load(tmp_path / "draws.npz")["draws"].shape == (50, 2)


def test_a_product_of_posteriors_is_sampled_with_the_prior_of_the_task(original, tmp_path):
    run = tiny.copy(original, tmp_path / "run")
    for words in ("tabulate --points 50", "stack", "stack --form product", "report"):
        call(run, words)
    call(run, f"sample --fit product-log --row 0 --draws 200 --out {tmp_path / 'draws.npz'}")
    draws = np.load(tmp_path / "draws.npz")["draws"]
    assert ds.tasks.get("two_moons").prior.support.contains(draws).all()
    # The file of the fit is all that Python needs beside the members.
    members, test = outputs.load_stacked_members(run, run.config), outputs.load_split(run, run.config)[1]
    posterior = ds.Stacking.load(run.fit("product-log")).posterior(members)
    np.testing.assert_array_equal(posterior.sample((200,), test.y[0], seed=0), draws)


def test_a_product_of_a_run_with_bounds_alone_is_of_a_uniform_prior(original, tmp_path):
    run = tiny.copy(original, tmp_path / "run")
    bounded = run.config.changed("simulate", task="").changed("train", lower=(-1.0, -1.0), upper=(1.0, 1.0))
    fit = ds.Stacking.uniform(outputs.load_members(run, run.config).names)
    product = replace(fit, form=ds.Product())
    assert with_prior(product, bounded).form == ds.Product(prior=((-1.0, -1.0), (1.0, 1.0)))
    assert with_prior(fit, bounded) is fit
    unknown = bounded.changed("train", lower=(), upper=())
    with pytest.raises(ValueError, match=r"likelihoods and products need the prior: .*`lower` and `upper`"):
        with_prior(product, unknown)
    without = replace(fit, form=ds.Product(simplex=True))
    assert with_prior(without, unknown) is without


def test_a_changed_byte_of_the_normalizer_is_noticed(run):
    stages.tabulate(run, CONFIG)
    run.normalizer.write_text(run.normalizer.read_text().replace('"error": 0.05', '"error": 0.06'))
    with pytest.raises(DamagedError, match=r"normalizer\.json"):
        outputs.load_stacked_members(run, CONFIG)


def test_more_are_added_and_other_settings_refused(run):
    finished = files(run)
    likelihoods(run, CONFIG.changed("likelihoods", members=3))
    assert outputs.load_likelihoods(run, run.config).names == ("nle-maf-000", "nle-nsf-001", "nle-maf-002")
    assert finished.items() <= files(run).items()
    longer = CONFIG.changed("likelihoods", epochs=3)
    with pytest.raises(StaleError, match=r"the likelihoods in .*likelihoods.epochs was 2 and is 3.*--force"):
        likelihoods(run, longer)
    with pytest.raises(StaleError, match=r"drystone train --target likelihood .* --force"):
        outputs.load_likelihoods(run, longer)
    assert len(likelihoods(run, longer, force=True)[0].history.losses) == 3
    assert outputs.load_likelihoods(run, longer).names == ("nle-maf-000", "nle-nsf-001")


def test_a_run_without_them_says_how_to_train_them(original):
    with pytest.raises(FileNotFoundError, match=r"no likelihoods in .*drystone train --target likelihood"):
        outputs.load_likelihoods(original, original.config)


def test_the_command_writes_them_and_their_settings(original, tmp_path):
    run = tiny.copy(original, tmp_path / "run")
    assert "likelihoods" not in run.config_file.read_text()
    arguments = ["train", str(run.path), "--target", "likelihood", "--members", "1", "--epochs", "1"]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "likelihoods: 1 member" in result.output
    assert (run.likelihoods / "nle-maf-000.safetensors").exists()
    config = Config.read(run.config_file)
    assert (config.likelihoods.members, config.likelihoods.family, config.likelihoods.patience) == (1, "both", 8)
    assert config.train == original.config.train
    result = CliRunner().invoke(cli, [*arguments, "--sweep", "paper"])
    assert result.exit_code == 2
    assert "--sweep and --lr-drops are for posteriors" in result.output


def test_a_wrong_family_is_named():
    with pytest.raises(ValueError, match=r"`likelihoods.family`"):
        Config.from_dict({"likelihoods": {"family": "made"}})
