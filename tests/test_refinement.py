"""Refinement at one observation: what is simulated, trained and held out, and what is said of it."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import drystone as ds
from drystone.inference.local_proposal import LocalProposal
from drystone.inference.stored import stored_posterior
from helpers.tiny_inference import refine_module, shrink

BOX = ([0.0, -1.0], [2.0, 3.0])
NOISE = 0.3
OPTIONS = {"prior": BOX, "members": 1, "epochs": 12, "progress": False}
Y = np.array([0.9, 1.2])


def simulator(theta, rng):
    """y = θ + noise."""
    return theta + NOISE * rng.normal(size=theta.shape)


def simulate(n, seed):
    rng = np.random.default_rng(seed)
    theta = rng.uniform(*BOX, (n, 2))
    return theta, simulator(theta, rng)


@pytest.fixture(scope="module", autouse=True)
def small():
    with pytest.MonkeyPatch.context() as monkeypatch:
        shrink(monkeypatch)
        monkeypatch.setattr(refine_module, "POINTS", 100)
        monkeypatch.setattr(refine_module, "DRAWS_OF_RANKS", 50)
        yield


@pytest.fixture(scope="module")
def inferred(tmp_path_factory):
    return ds.infer(*simulate(300, 0), directory=tmp_path_factory.mktemp("inference"), **OPTIONS)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("refined")


@pytest.fixture(scope="module")
def refined(inferred, directory):
    return ds.refine(inferred, at=Y, simulator=simulator, n=150, directory=directory, progress=False)


def exact_log_density(theta):
    """The posterior at Y: a normal cut off by the box, which holds next to all of it."""
    return norm.logpdf(theta, Y, NOISE).sum(1)


def test_members_without_weight_are_left_out_of_it(inferred):
    alone = replace(inferred, fit=ds.Stacking.single(inferred.fit.names, 0, parameters=inferred.fit.parameters))
    refined = ds.refine(alone, at=Y, simulator=simulator, n=100, progress=False)
    assert len(inferred.fit.names) > 1
    assert list(refined.members) == [inferred.fit.names[0]]


def test_simulations_come_from_where_the_posterior_is(inferred, refined):
    theta, y = refined.simulations
    assert theta.shape == y.shape == (150, 2)
    near = np.abs(theta - Y).max(1) < 4 * NOISE
    assert 0.8 < near.mean() < 1  # the others are from the prior
    assert abs(np.abs(inferred.simulations[0] - Y).max(1) < 4 * NOISE).mean() < near.mean()


def test_the_ratio_is_that_of_the_proposal_to_the_prior(inferred):
    prior = ds.tasks.Uniform(*BOX)
    proposal = LocalProposal(inferred.posterior, Y[None], prior)
    theta = np.array([[0.9, 1.1], [1.9, -0.9], [5.0, 5.0]])
    log_q = inferred.posterior.log_prob(theta[:2], Y)
    expected = np.log(0.9 * np.exp(log_q - prior.log_prob(theta[:2])) + 0.1)
    np.testing.assert_allclose(proposal.log_ratio(theta)[:2], expected)
    assert proposal.log_prob(theta)[2] == -np.inf


def test_members_are_trained_on_old_and_new_rows_and_none_on_those_held_out(inferred, monkeypatch):
    """Each is taken as it is after the training, better or not."""
    monkeypatch.setattr(
        refine_module, "better_of", lambda before, after, score: {member.name: member for member in after}
    )
    refined = ds.refine(inferred, at=Y, simulator=simulator, n=150, progress=False)
    name = next(name for name in inferred.fit.member_weights if "nle" in name)
    theta, y = (np.concatenate(pair) for pair in zip(inferred.simulations, refined.simulations, strict=True))
    before, after = (each.members[name].normalizer.likelihoods[0].member for each in (inferred, refined))
    again = ds.Ensemble([before]).refit(theta[:-30], y[:-30], progress=False)[0]  # a fifth of the new ones
    np.testing.assert_array_equal(after.flow.parameters, again.flow.parameters)


def test_the_gain_is_of_rows_that_chose_nothing(inferred, monkeypatch):
    chosen_by = []

    def weights(fit, table, seed, original=refine_module._weights):
        chosen_by.append(table.theta)
        return original(fit, table, seed)

    monkeypatch.setattr(refine_module, "_weights", weights)
    refined = ds.refine(inferred, at=Y, simulator=simulator, n=150, progress=False)
    assert refined.held_out == len(refined.calibration.log_score) == 15
    np.testing.assert_array_equal(chosen_by[0], refined.simulations[0][-30:-15])


def test_a_member_that_is_no_better_after_the_training_stays_as_it_was(inferred):
    refined = ds.refine(inferred, at=Y, simulator=simulator, n=150, seed=1, progress=False)
    kept, changed = (next(name for name in inferred.members if kind in name) for kind in ("nsf", "nle"))
    assert refined.notes[:2] == (
        f"Trained again on 300 old and 120 new simulations: {changed}.",
        f"No better on held-out new simulations, so as they were: {kept}.",
    )
    assert refined.members[kept] is inferred.members[kept]
    before, after = (each.members[changed].normalizer.likelihoods[0].member for each in (inferred, refined))
    assert after is not before


def test_the_refined_posterior_is_no_farther_from_the_exact_one(refined):
    theta = np.random.default_rng(1).normal(Y, NOISE, (500, 2))
    theta = theta[np.isfinite(ds.tasks.Uniform(*BOX).log_prob(theta))]
    before, after = (
        float(np.mean(exact_log_density(theta) - each.log_prob(theta, Y)))
        for each in (refined.before, refined.posterior)
    )
    assert after < before + 0.05


def test_the_observation_is_the_default_and_the_gain_is_said(refined):
    assert refined.posterior.sample((7,), seed=1).shape == (7, 2)
    text = str(refined)
    for words in ("Refined with 150 simulations", "Posterior SBC before", "Posterior SBC after", "Weights "):
        assert words in text
    difference = refined.calibration.log_score - refined.calibration_before.log_score
    assert refined.gain.value == pytest.approx(difference.mean())


def test_the_same_seed_gives_the_same_bits_and_a_directory_continues(inferred, refined, directory, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(directory, copy)
    for path in (copy / "refitted").glob("*.json"):
        path.unlink()
    options = {"simulator": simulator, "n": 150, "progress": False, "directory": copy}
    again = ds.refine(inferred, at=Y, **options)
    np.testing.assert_array_equal(again.fit.weights, refined.fit.weights)
    np.testing.assert_array_equal(again.calibration.ranks, refined.calibration.ranks)
    np.testing.assert_array_equal(*(each.posterior.sample((5,), seed=2) for each in (again, refined)))
    with pytest.raises(ds.StaleError, match="the refinement in"):
        ds.refine(inferred, at=Y + 0.1, **options)
    with pytest.raises(ds.StaleError, match="prior changed"):
        ds.refine(inferred, at=Y, prior=ds.tasks.Normal([1.0, 1.0], [2.0, 2.0]), **options)


def test_a_stored_inference_is_the_same_beginning(inferred, tmp_path):
    home = inferred_directory(inferred, tmp_path)
    fit, posterior = stored_posterior(home, prior=BOX)
    assert fit.names == inferred.fit.names
    np.testing.assert_array_equal(*(each.sample((5,), Y, seed=2) for each in (posterior, inferred.posterior)))
    with pytest.raises(ds.StaleError, match=r"the inference in .* \(theta changed; y changed\)"):
        stored_posterior(home, BOX, simulate(300, 7))
    record = (home / "inference.json").read_text()
    for damaged in (record.replace('"seed": 0', '"seed": 1'), record.replace('"checksum"', '"chEcksum"')):
        (home / "inference.json").write_text(damaged)
        with pytest.raises(ds.DamagedError, match=r"inference\.json is damaged"):
            stored_posterior(home, BOX, inferred.simulations)
    (home / "inference.json").write_text(record)
    with pytest.raises(ds.StaleError, match="was made with another prior"):
        stored_posterior(home, prior=([0.0, -1.0], [2.0, 4.0]))
    (home / "fit.json").unlink()
    with pytest.raises(FileNotFoundError, match="no finished inference"):
        stored_posterior(home, prior=BOX)


def inferred_directory(inferred, tmp_path):
    ds.infer(*inferred.simulations, directory=tmp_path / "again", **OPTIONS)
    return tmp_path / "again"


def test_members_of_other_libraries_stay_as_they_are():
    table = ds.toy.table(300, seed=1)
    posterior = ds.stack(table).posterior(ds.toy.MEMBERS)
    prior = ds.tasks.Normal([0.0], [10**0.5])
    refined = ds.refine(
        posterior, at=[1.5], simulator=lambda theta, rng: rng.normal(0.9 * theta, 0.9**0.5), n=400,
        simulations=ds.toy.simulate(100, seed=1), prior=prior,
    )  # fmt: skip
    assert "Not trained by Drystone" in refined.notes[0]
    assert refined.calibration.ranks.shape == (40, 1)
    with pytest.raises(ValueError, match="tables of an inference"):
        refined.report("report.html")


def test_the_report_begins_with_the_refined_posterior(refined, tmp_path):
    here = refined.at(simulator=simulator)
    assert here.change is not None
    assert here.in_distribution is not None
    assert "further simulations near the observation" in str(here)
    text = refined.report(tmp_path / "report.html", simulator=simulator).read_text()
    for words in ("What did the refinement change?", "before refinement", "Do data simulated from the posterior"):
        assert words in text
    # There was no test set, so that the set is calibrated on rows which the refined members were trained on.
    assert "probability is not guaranteed" in str(here)
    assert "probability is not guaranteed" in text
    # Nats are explained where they come first.
    assert text.index("nats (a gain of 1 nat") < text.index("A nat measures")


@pytest.mark.parametrize(
    ("change", "message"),
    [({"n": 99}, "must be at least 100"), ({"at": [np.nan, 1.0]}, "must be finite"), ({"at": [1.0]}, "one obs")],
)
def test_what_cannot_be_refined_is_refused(inferred, change, message):
    with pytest.raises(ValueError, match=message):
        ds.refine(inferred, **{"at": Y, "simulator": simulator, "n": 150, **change})


def test_a_stacked_posterior_needs_its_simulations_and_a_prior():
    posterior = ds.Stacking.uniform(list(ds.toy.MEMBERS), parameters=["theta"]).posterior(ds.toy.MEMBERS)
    with pytest.raises(ValueError, match="`simulations` must be"):
        ds.refine(posterior, at=[1.0], simulator=simulator)
    with pytest.raises(ValueError, match="`prior` must be"):
        ds.refine(posterior, at=[1.0], simulator=simulator, simulations=ds.toy.simulate(50))


def test_the_proposal_has_its_density_where_the_posterior_leaks_out_of_the_prior():
    prior = ds.tasks.Uniform([0.0], [1.0])
    leaking = ds.Stacking.single(["leaking"], 0, parameters=["a"]).posterior([ds.toy.Gaussian(0.0, 0.3)])
    proposal = LocalProposal(leaking, np.zeros((1, 1)), prior)
    edges = np.linspace(0, 1, 6)
    drawn, _ = np.histogram(proposal.sample(20_000, np.random.default_rng(0))[:, 0], edges)
    grid = (np.arange(1000) + 0.5)[:, None] / 1000
    mass = np.exp(proposal.log_prob(grid)).reshape(5, 200).mean(1) / 5
    assert mass.sum() == pytest.approx(1, abs=0.02)
    np.testing.assert_allclose(drawn / 20_000, mass, atol=0.02)


def test_a_refinement_itself_is_no_beginning(refined):
    with pytest.raises(TypeError, match="must be an inference or a stacked posterior; got Refinement"):
        ds.refine(refined, at=Y, simulator=simulator, n=150)
