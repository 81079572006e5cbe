"""The whole way in one call: what is held out, what is stacked, what is refitted, and what is said."""

import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch

import drystone as ds
from drystone._files import read_sealed_json, write_sealed_json
from drystone.inference.form_choice import better_form
from drystone.inference.members import no_worse
from drystone.inference.stored import stored_posterior, stored_tables
from helpers.tiny_inference import ROWS, infer_module, shrink

BOX = ([0.0, -1.0], [2.0, 3.0])
NOISE = 0.3
OPTIONS = {"prior": BOX, "members": 1, "epochs": 30, "progress": False}


def simulate(n, seed):
    """θ uniform on a box, y = θ + noise."""
    rng = np.random.default_rng(seed)
    theta = rng.uniform(*BOX, (n, 2))
    return theta, theta + NOISE * rng.normal(size=(n, 2))


@pytest.fixture(scope="module", autouse=True)
def small():
    with pytest.MonkeyPatch.context() as monkeypatch:
        shrink(monkeypatch)
        yield


@pytest.fixture(scope="module")
def rows():
    return simulate(300, 0)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("inference")


@pytest.fixture(scope="module")
def inferred(rows, directory):
    return ds.infer(*rows, directory=directory, parameters=("a", "b"), **OPTIONS)


@pytest.fixture(scope="module")
def posteriors_alone(rows):
    return ds.infer(*rows, test=simulate(100, 4), target="posterior", **OPTIONS)


def test_test_rows_that_members_are_trained_on_are_refused(rows):
    theta, y = rows
    with pytest.raises(ValueError, match="50 of 60 rows of `test` are among the simulations"):
        ds.infer(*rows, test=(np.r_[theta[:50], theta[:10] + 1], y[:60]), **OPTIONS)


def test_columns_have_names_and_may_not_change_their_order(rows):
    theta, y = (pd.DataFrame(of, columns=[f"{name} 1", f"{name} 2"]) for of, name in zip(rows, "ab", strict=True))
    inference = ds.infer(theta, y, target="posterior", **OPTIONS)
    assert inference.posterior.fit.parameters == ("a 1", "a 2")
    with pytest.raises(
        ValueError, match=r"must have the columns \('a 1', 'a 2'\), in this order; got \('a 2', 'a 1'\)"
    ):
        ds.infer(theta, y, test=(theta[["a 2", "a 1"]], y), **OPTIONS)


def assert_same(first, second, y):
    assert first.fit.names == second.fit.names
    np.testing.assert_array_equal(first.fit.weights, second.fit.weights)
    draws = [inference.posterior.sample((5,), x=y, seed=0) for inference in (first, second)]
    np.testing.assert_array_equal(*draws)


def test_the_posterior_is_near_the_exact_one(inferred):
    y_o = np.array([1.0, 1.0])
    draws = inferred.posterior.sample((2000,), x=y_o, seed=0)
    np.testing.assert_allclose(draws.mean(0), y_o, atol=0.15)
    np.testing.assert_allclose(draws.std(0), NOISE, rtol=0.35)
    assert inferred.fit.converged
    assert inferred.posterior.fit.parameters == ("a", "b")


def test_both_kinds_are_trained_and_looked_at_on_rows_held_out(inferred, rows):
    assert inferred.frame["kind"].tolist() == ["posterior", "likelihood"]
    assert inferred.table.N == ROWS
    held_out = {tuple(row) for row in inferred.table.theta}
    assert held_out < {tuple(row) for row in rows[0]}
    first = next(iter(inferred.held_out.values()))
    training = np.array([y for theta, y in zip(*rows, strict=True) if tuple(theta) not in held_out])
    np.testing.assert_allclose(first.data_transform.scaling.shift, training.mean(0))


def test_without_a_test_the_comparison_is_cross_fitted(inferred):
    assert inferred.test is None
    crossed = inferred.crossed.apply(inferred.table).log_q.mean()
    methods = inferred.comparison.of("log density").methods
    assert methods["stacked"].value.value == pytest.approx(crossed)
    assert crossed <= -inferred.fit.loss
    with pytest.raises(ValueError, match="there are no test rows"):
        inferred.gap(np.zeros(ROWS))


def test_the_report_shows_the_posterior_at_the_data_and_says_whose_the_weights_are(inferred, rows, tmp_path):
    text = inferred.report(tmp_path / "report.html", at=rows[1][0]).read_text()
    for words in ("Your observation", "held-out simulation 0", "trained again on all of them"):
        assert words in text
    assert str(inferred.advice)


def test_a_notebook_shows_weights_comparison_and_notes(inferred):
    html = inferred._repr_html_()
    assert all(name in html for name in inferred.fit.member_weights)
    assert "gain over best" in html
    assert "held out of" in html


def test_members_with_weight_are_those_of_a_refit_on_all_rows(posteriors_alone, inferred, rows, directory):
    before = ds.Ensemble.load(directory / "members")
    again = before.refit(*rows)[0]
    np.testing.assert_array_equal(inferred.members["nsf-000"].flow.parameters, again.flow.parameters)
    np.testing.assert_array_equal(inferred.held_out["nsf-000"].flow.parameters, before[0].flow.parameters)
    np.testing.assert_array_equal(posteriors_alone.members["nsf-000"].flow.parameters, again.flow.parameters)


def test_members_that_are_worse_after_the_second_training_stay_as_they_were(posteriors_alone, rows):
    member = posteriors_alone.held_out["nsf-000"]
    first, second = (ds.Ensemble([each]) for each in (member, spoilt(member)))
    assert no_worse(first, second, *rows)[0] is member
    assert no_worse(second, first, *rows)[0] is member


def test_a_test_set_is_for_the_refitted_members(posteriors_alone):
    theta, y = simulate(100, 4)
    assert posteriors_alone.test is not None
    assert posteriors_alone.comparison.rows == posteriors_alone.test.N == 100
    refitted = posteriors_alone.members["nsf-000"].log_prob(theta, y)
    # Networks compute in single precision, whose last digits depend on how many rows are evaluated at once.
    np.testing.assert_allclose(posteriors_alone.test.log_q[0], refitted, rtol=1e-5, atol=1e-5)
    exact = np.zeros(100)
    assert posteriors_alone.gap(exact).value == pytest.approx(-refitted.mean())


def test_an_observation_is_held_against_the_test_set(posteriors_alone, inferred):
    here = posteriors_alone.posterior.at(simulate(1, 9)[1][0], draws=100)
    assert len(here.in_distribution.checks[0].null) == 50
    assert here.credible_set.rows == pytest.approx(100)
    without = inferred.posterior.at(simulate(1, 9)[1][0], draws=100)
    assert "no reference simulations" in str(without)


def test_the_same_seed_gives_the_same_bits(inferred, rows):
    again = ds.infer(*rows, parameters=("a", "b"), workers=1, **OPTIONS)
    assert_same(inferred, again, rows[1][0])


def test_a_directory_is_continued_and_refused_to_others(inferred, rows, directory, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(directory, copy)
    for path in (copy / "likelihoods" / "nle-maf-000.json", copy / "refitted" / "nsf-000.json"):
        path.unlink()
    assert_same(inferred, ds.infer(*rows, directory=copy, parameters=("a", "b"), **OPTIONS), rows[1][0])
    assert ds.Stacking.load(copy / "fit.json").names == inferred.fit.names
    narrower = ds.tasks.Uniform([-0.5, -1.5], [2.5, 3.5])
    for change in ({"seed": 1}, {"epochs": 3}, {"prior": narrower}):
        with pytest.raises(ds.StaleError, match="the inference in"):
            ds.infer(*rows, directory=copy, **{**OPTIONS, **change})


def test_tables_of_an_earlier_version_are_made_again(rows, tmp_path):
    options = {**OPTIONS, "epochs": 3, "target": "posterior", "test": simulate(100, 4)}
    first = ds.infer(*rows, directory=tmp_path, **options)
    # They had shared points at the test rows whatever was stacked, and their record said nothing of that.
    shutil.rmtree(tmp_path / "test")
    ds.tabulate(first.members, *simulate(100, 4), points=5, prior=BOX, directory=tmp_path / "test")
    record, _ = read_sealed_json(tmp_path / "made_of.json")
    write_sealed_json(tmp_path / "made_of.json", {key: value for key, value in record.items() if key != "tables"})
    again = ds.infer(*rows, directory=tmp_path, **options)
    assert_same(first, again, rows[1][0])
    assert again.test is not None
    assert "points" not in again.test.gives


def test_further_members_in_a_directory_end_where_they_would_have_from_the_start(rows, tmp_path):
    grown, fresh = tmp_path / "grown", tmp_path / "fresh"
    options = {**OPTIONS, "epochs": 12, "test": simulate(100, 4)}
    ds.infer(*rows, directory=grown, **options)
    options["members"] = 2
    one, other = (ds.infer(*rows, directory=directory, **options) for directory in (grown, fresh))
    assert_same(one, other, rows[1][0])
    # Others propose the points at which likelihoods are normalized, and others are trained again.
    for first, second in ((one.table, other.table), (one.test, other.test)):
        np.testing.assert_array_equal(first.select(members=list(second.names)).log_q, second.log_q)


def test_a_stored_inference_is_that_of_the_last_call_whatever_earlier_ones_left(rows, tmp_path):
    theta, y = rows[0][:4], rows[1][0]
    options = {**OPTIONS, "epochs": 4, "directory": tmp_path}
    for members, test in (((1, 1), None), ((1, 3), simulate(100, 4)), ((1, 3), None), ((1, 1), None)):
        last = ds.infer(*rows, **{**options, "members": members, "test": test})
        fit, posterior = stored_posterior(tmp_path, BOX)
        assert fit.names == posterior.fit.names == last.posterior.fit.names
        both = posterior, last.posterior
        np.testing.assert_array_equal(*(each.sample((5,), y, seed=2) for each in both))
        np.testing.assert_array_equal(*(each.log_prob(theta, y) for each in both))
        stacking, measured = stored_tables(tmp_path)
        assert (stacking.N, measured.N) == (last.table.N, last.measured.N)
    assert len(list((tmp_path / "refitted").glob("nle-*.json"))) > 1, "the case that is tested"


def test_another_prior_of_the_same_support_is_not_answered_with_the_numbers_of_the_first(rows, tmp_path):
    options = {**OPTIONS, "epochs": 2, "directory": tmp_path}
    ds.infer(*rows, **{**options, "prior": ds.tasks.Normal([0.0, 0.0], [3.0, 3.0])})
    with pytest.raises(ds.StaleError, match="prior changed"):
        ds.infer(*rows, **{**options, "prior": ds.tasks.Normal([0.0, 0.0], [4.0, 4.0])})


def test_a_damaged_likelihood_is_an_error_and_not_a_note(rows, directory, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("stacking", "refitted"))
    path = copy / "likelihoods" / "nle-maf-000.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ds.DamagedError, match="nle-maf-000"):
        ds.infer(*rows, directory=copy, parameters=("a", "b"), **OPTIONS)


@pytest.mark.parametrize("sd", [0.12, 1.0])
def test_a_product_of_members_that_are_far_too_wide_says_so(sd):
    prior, rng = ds.tasks.Normal([0.0], [3.0]), np.random.default_rng(0)
    theta = prior.sample(100, rng)
    y = theta + 0.1 * rng.normal(size=theta.shape)
    wide = ds.adapters.from_functions(
        log_prob=lambda theta, y: scipy.stats.norm.logpdf(theta, y, sd)[:, 0],
        sample=lambda n, y, seed: y + sd * np.random.default_rng(seed).normal(size=(n, len(y), 1)),
    )
    table = ds.tabulate({"wide": wide}, theta, y, draws=0, points=300, prior=prior)
    fit, _, why = better_form(table, prior, seed=0)
    assert ("powers sum to" in why) == (sd == 1.0) == (fit.weights.sum() > 3)


def test_one_parameter_and_one_datum_are_enough():
    theta, y = (array[:, :1] for array in simulate(200, 2))
    inference = ds.infer(theta, y[:, 0], **{**OPTIONS, "prior": ([0.0], [2.0])})
    assert inference.posterior.sample((3,), x=[1.0], seed=0).shape == (3, 1)


def test_too_few_simulations_are_refused_in_words(rows):
    theta, y = rows
    with pytest.raises(ValueError, match="has 100 rows; at least 120 are needed"):
        ds.infer(theta[:100], y[:100], **OPTIONS)


def test_where_a_likelihood_cannot_be_trained_posteriors_are(rows):
    theta, y = rows
    clipped = np.where(y > 0.5, y, 0.5)
    inference = ds.infer(theta, clipped, **OPTIONS)
    assert any("No likelihoods were trained: column 0" in note for note in inference.notes)
    with pytest.raises(ValueError, match="column 0"):
        ds.infer(theta, clipped, target="likelihood", **OPTIONS)


def test_data_of_any_shape_need_an_embedding_and_have_posteriors_alone(rows):
    theta, y = rows
    series = np.repeat(y[:, :, None], 3, 2)

    def embedding():
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 3))

    inference = ds.infer(theta, series, embedding=embedding, **{**OPTIONS, "epochs": 2})
    assert inference.posterior.sample((3,), x=series[:1], seed=0).shape == (3, 2)
    assert "an embedding reduces y" in inference.notes[0]
    with pytest.raises(ValueError, match="need an `embedding`"):
        ds.infer(theta, series, **OPTIONS)


def test_a_bad_kind_of_members_does_no_harm(posteriors_alone, rows, monkeypatch):
    train = infer_module.train

    def crippled(*simulations, **options):
        few = {"epochs": 1} if options["target"] == "likelihood" else {}
        return train(*simulations, **{**options, **few})

    monkeypatch.setattr(infer_module, "train", crippled)
    both = ds.infer(*rows, test=simulate(100, 4), **OPTIONS)
    loss = both.fit.apply(both.measured).log_q - posteriors_alone.fit.apply(posteriors_alone.measured).log_q
    assert loss.mean() > -2 * loss.std() / np.sqrt(len(loss)) - 0.01


def spoilt(member):
    return replace(member, flow=replace(member.flow, parameters=member.flow.parameters + np.float32(0.5)))


def test_posteriors_that_are_worse_than_the_prior_do_not_propose(posteriors_alone, rows):
    member, log_prior = posteriors_alone.held_out["nsf-000"], -np.log(8.0)
    for each, proposing in ((member, {"nsf-000": 1.0}), (spoilt(member), {})):
        assert (each.log_prob(*rows).mean() > log_prior) == bool(proposing)
        assert infer_module._normalizer(ds.Ensemble([each]), *rows, BOX, 0).proposal == proposing


def test_each_kind_can_have_a_number_of_its_own(rows):
    inference = ds.infer(*rows, **{**OPTIONS, "members": (1, 2), "epochs": 2})
    assert inference.frame["kind"].value_counts().to_dict() == {"posterior": 1, "likelihood": 2}


def test_likelihoods_without_weight_are_there_to_be_compared_at_an_observation(rows):
    inference = ds.infer(*rows, test=simulate(100, 4), **{**OPTIONS, "members": (1, 4), "epochs": 2})
    assert inference.fit.weights.min() == 0
    assert [member.name for member in inference.posterior.members] == list(inference.fit.names)
    at = inference.posterior.at(rows[1][0])
    assert at.disagreement is not None
    assert "differences in evidence among likelihoods" in [each.name for each in at.disagreement.checks]


def test_a_time_budget_is_shared_among_the_kinds(rows, monkeypatch):
    budgets = []

    def noted(*simulations, **options):
        budgets.append((options["target"], options["minutes"]))
        raise InterruptedError

    monkeypatch.setattr(infer_module, "train", noted)
    for target in ("both", "likelihood"):
        with pytest.raises(InterruptedError):
            ds.infer(*rows, minutes=10, target=target, **OPTIONS)
    assert budgets == [("posterior", pytest.approx(1.5)), ("likelihood", pytest.approx(4.5))]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"target": "all"}, "`target` must be"),
        ({"prior": None}, "`prior` must be"),
        ({"minutes": 0}, "`minutes`"),
        ({"members": (1, 2, 3)}, "`members` must be an integer, or two: of posteriors and of likelihoods; got 3"),
        ({"members": (1, 0)}, "`members` must be at least 1; got 0"),
        ({"members": 1.5}, "`members` must be an integer; got 1.5"),
        ({"prior": (0, 1)}, "`prior` must be of the 2 parameters of `theta`; it has 1"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_trained(rows, option, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ds.infer(*rows, **{**OPTIONS, **option})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda theta, y: (theta, y[:-7]), r"`theta` and `y` must have the same number of rows; got \d+ and \d+"),
        (lambda theta, y: (theta[:, 0], y), r"`theta` must have shape \(N, d\); got \(\d+,\)"),
        (lambda theta, y: (theta, np.where(y == y[3], np.nan, y)), r"`y` must be finite; 1 \(3\)"),
    ],
)
def test_simulations_that_are_no_pairs_are_refused_before_anything_is_trained(rows, change, message):
    with pytest.raises(ValueError, match=message):
        ds.infer(*change(*rows), **OPTIONS)
