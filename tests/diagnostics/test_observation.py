"""Checks of one observation: p-values that are uniform where they should be, and small where they should be."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest, norm

import drystone as ds
from drystone.diagnostics.null import Check, check, combined_p_value, most_unusual
from drystone.diagnostics.reference import from_median
from drystone.diagnostics.residuals import Residuals


class Line:
    """Exact posterior of θ for y_i = θ + ε_i, i < 6, with a flat prior; ``sd`` and ``shift`` spoil it.

    Members of the ensemble differ where the mean of y is beyond ±3, as networks do where they extrapolate.
    """

    def __init__(self, shift=0.0, sd=1.0, drift=0.0):
        self.shift, self.sd, self.drift = shift, sd / np.sqrt(6), drift

    def center(self, y):
        mean = y.mean(1)
        return mean + self.shift + self.drift * (np.maximum(mean - 3, 0) + np.minimum(mean + 3, 0))

    def log_prob(self, theta, y):
        return norm.logpdf(theta[:, 0], self.center(y), self.sd)

    def sample(self, n, y, seed=None):
        return (self.center(y) + self.sd * np.random.default_rng(seed).normal(size=(n, len(y))))[..., None]


MEMBERS = {"a": Line(0.05, drift=0.8), "b": Line(-0.05, drift=-0.8), "c": Line(0.0, 1.1)}


def simulate(n, seed):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n, 1))
    return theta, theta + rng.normal(size=(n, 6))


@cache
def fit():
    theta, y = simulate(300, 0)
    return ds.stack(ds.tabulate(MEMBERS, theta, y, draws=20), ds.Mixture(concentration=1.2))


def posterior(n=200, seed=1, members=MEMBERS, row_weights=None):
    theta, y = simulate(n, seed)
    names = list(fit().names)
    table = ds.Table(
        theta, y=y, log_q=np.zeros((3, n)), names=names, parameters=fit().parameters, row_weights=row_weights
    )
    return fit().posterior(members, reference=table)


def test_a_p_value_is_the_place_among_simulations():
    null = np.array([1.0, 2.0, 3.0, 4.0])
    a = np.full(4, 0.25)
    assert [check("t", t, null, a).p_value for t in (0.0, 2.5, 4.0, 9.0)] == pytest.approx([1, 0.6, 0.4, 0.2])
    # Three times the weight is three rows; the observation counts as the heaviest row.
    weighted = check("t", 3.5, null, np.array([1.0, 1.0, 1.0, 3.0])).p_value
    assert weighted == pytest.approx(6 / 9)


def test_the_least_of_several_p_values_is_uniform_itself():
    rng = np.random.default_rng(0)
    a, values = np.full(99, 1.0), []
    for _ in range(400):
        first = rng.normal(size=100)
        rows = np.stack([first, 0.7 * first + rng.normal(size=100), rng.exponential(size=100)])
        checks = [Check("t", row[-1], row[:-1], np.nan) for row in rows]
        values.append(combined_p_value(checks, a))
    assert kstest(values, "uniform").pvalue > 0.01
    assert min(values) == pytest.approx(0.01)


@cache
def p_values():
    """Return p-values of both checks at simulations, five for each of 40 references."""
    found = []
    for seed in range(40):
        here = posterior(60, seed + 100)
        _, y = simulate(5, 1000 + seed)
        for row in y:
            found.append([ds.diagnostics.in_distribution(here, row, seed=seed).p_value])
            found[-1].append(ds.diagnostics.disagreement(here, row, seed=seed).p_value)
    return np.array(found).T


def test_p_values_are_uniform_at_simulations():
    in_distribution, disagreement = p_values()
    assert kstest(in_distribution, "uniform").pvalue > 0.01
    assert kstest(disagreement, "uniform").pvalue > 0.01


@pytest.mark.parametrize("kind", ["noise", "entry", "simulator"])
def test_observations_from_elsewhere_are_noticed(kind):
    here, (theta, y) = posterior(600), simulate(20, 7)
    rng = np.random.default_rng(8)
    spoiled = {
        "noise": theta + 4 * (y - theta),
        "entry": y + 6 * y.std(0) * np.eye(6)[rng.integers(6, size=20)],
        "simulator": theta * np.linspace(-4, 4, 6) + rng.normal(size=(20, 6)) + 5,
    }[kind]
    checks = [ds.diagnostics.in_distribution(here, row) for row in spoiled]
    assert np.mean([each.alarm for each in checks]) >= 0.8


def test_members_that_extrapolate_differently_give_an_alarm():
    here = posterior(600)
    usual, far = (ds.diagnostics.disagreement(here, np.full(6, level)) for level in (0.3, 5.0))
    assert usual.p_value > 0.05
    assert far.alarm
    assert "far more" in str(far)
    assert "as they do at simulations" in str(usual)


def test_a_pattern_of_differences_that_simulations_do_not_have_gives_an_alarm():
    """Two members a standard deviation apart everywhere: b above a at simulations, below it where y_0 > 10."""

    class Above(Line):
        def center(self, y):
            return y[:, 1:].mean(1) + self.shift * np.where(y[:, 0] > 10, -1, 1)

    members = {"a": Above(0.0), "b": Above(0.4)}
    theta, y = simulate(600, 1)
    table = ds.Table(theta, y=y, log_q=np.zeros((2, 600)), names=list(members), parameters=["theta"])
    here = ds.Stacking.uniform(list(members), parameters=["theta"]).posterior(members, reference=table)
    x = np.array([11.0, 0.1, -0.2, 0.3, 0.0, -0.1])
    found = ds.diagnostics.disagreement(here, x)
    distance, pattern = found.checks
    assert distance.p_value > 0.05
    assert pattern.p_value < 0.01
    assert found.alarm
    assert "in a way that they do not at simulations" in str(found)
    assert not ds.diagnostics.disagreement(here, x - [11, 0, 0, 0, 0, 0]).alarm


class Likelihood(Line):
    """Exact for y_i = θ + ε_i, i < 5, θ ~ N(0, 1); y_5 ~ N(0, 1) says nothing of θ, and has a scale here."""

    normalized_in_y, proposal = True, object()

    def __init__(self, sd_of_last):
        super().__init__()
        self.sd_of_last = sd_of_last

    def center(self, y):
        return y[:, :5].sum(1) / 6

    def log_likelihood(self, theta, y):
        return norm.logpdf(y[:, :5], theta).sum(1) + norm.logpdf(y[:, 5], 0.0, self.sd_of_last)

    def log_evidence(self, y):
        theta, none = np.zeros((len(y), 1)), np.zeros(len(y))
        return self.log_likelihood(theta, y) + norm.logpdf(none) - self.log_prob(theta, y), none


def with_useless_entry(n, seed):
    theta, y = simulate(n, seed)
    y[:, 5] -= theta[:, 0]
    return theta, y


def likelihoods(n, seed):
    """Return a posterior with three likelihoods of the same θ given y, the last one without weight."""
    members = {"a": Likelihood(1.0), "b": Likelihood(1.0), "c": Likelihood(1.3)}
    theta, y = with_useless_entry(n, seed)
    table = ds.Table(theta, y=y, log_q=np.zeros((3, n)), names=list(members), parameters=["theta"])
    uniform = ds.Stacking.uniform(list(members), parameters=["theta"])
    return replace(uniform, params={"weights": np.array([0.5, 0.5, 0.0])}).posterior(members, reference=table)


def test_likelihoods_that_agree_on_the_parameters_but_not_on_the_data_give_an_alarm():
    here, x = likelihoods(600, 1), np.array([0.2, -0.3, 0.1, 0.4, 0.0, 0.5])
    usual, far = (ds.diagnostics.disagreement(here, x + shift * np.eye(6)[5]) for shift in (0.0, 8.0))
    distance, _, evidence = far.checks
    assert evidence.name == "differences in evidence among likelihoods"
    assert evidence.p_value < 0.01
    assert distance.p_value > 0.05
    assert far.alarm
    assert "on how probable the data are" in str(far)
    assert far.members == ("a", "b")
    assert not usual.alarm


def test_p_values_with_evidences_are_uniform_at_simulations():
    rng, p = np.random.default_rng(0), []
    for seed in range(150):
        here = likelihoods(40, seed + 100)
        p += [
            ds.diagnostics.disagreement(here, row, seed=seed).p_value
            for row in with_useless_entry(2, 1000 + seed)[1]
        ]
    # Multiples of 1/21, spread over the step.
    assert kstest(np.array(p) - rng.random(len(p)) / 21, "uniform").pvalue > 0.01


def test_one_hopeless_likelihood_does_not_hide_what_the_others_say():
    rng = np.random.default_rng(0)
    means, e = rng.normal(size=(300, 1)), rng.normal(size=(300, 3))
    hopeless = np.where(rng.random(300) < 0.02, -np.inf, 0.0)
    columns = [*e.T, hopeless]
    cloud = Residuals(means[:200], from_median([column[:200] for column in columns]))
    usual = cloud.distance(means[200:], from_median([column[200:] for column in columns]))
    off = cloud.distance(means[:1], from_median([np.array([value]) for value in (0.0, 9.0, -9.0, 0.0)]))
    assert off[0] > np.quantile(usual[np.isfinite(hopeless[200:])], 0.99)


def test_the_divergence_is_jensens_and_shannons():
    here, x = posterior(60), np.full(6, 4.0)
    found = ds.diagnostics.disagreement(here, x)
    weights, members = fit().weights, list(MEMBERS.values())

    def density(t):
        return np.array([np.exp(m.log_prob(np.array([[t]]), x[None])[0]) for m in members])

    def integrand(t):
        q = density(t)
        return (weights * q * np.log(np.maximum(q, 1e-300) / (weights @ q))).sum()

    exact, _ = quad(integrand, 1, 7, limit=200)
    assert abs(found.divergence.value - exact) < 4 * found.divergence.se
    assert found.checks[0].statistic == pytest.approx(np.sqrt(found.divergence.value))
    assert set(found.members) == set(MEMBERS)


def test_entries_that_are_not_finite_are_named():
    x = np.array([0.1, np.nan, 0.2, np.inf, 0.0, 0.0])
    found = ds.diagnostics.in_distribution(posterior(300), x)
    assert found.nonfinite == ((1,), (3,))
    assert found.alarm
    assert "Not finite: y[1], y[3]." in str(found)


def test_the_same_seed_gives_the_same_answer_and_the_reference_is_computed_once():
    here, x = posterior(60), np.zeros(6)
    first = ds.diagnostics.in_distribution(here, x, seed=0)
    cloud, _ = here._references[0].neighbors_in_data
    again, other = (ds.diagnostics.in_distribution(here, x, seed=s) for s in (0, 1))
    assert first.p_value == again.p_value
    assert here._references[0].neighbors_in_data[0] is cloud
    assert not np.array_equal(first.checks[0].null, other.checks[0].null)


def test_row_weights_of_the_reference_count():
    theta, _ = simulate(200, 1)
    # As if only rows with large θ had been simulated: an observation far down is unusual among them.
    upper = posterior(200, row_weights=np.exp(3 * theta[:, 0]))
    x = np.full(6, -2.0)
    assert ds.diagnostics.in_distribution(upper, x).p_value > 0
    assert upper.at(x).in_distribution is not None


def test_one_object_has_all_answers():
    here = posterior(200).at(np.full(6, 0.2), draws=500)
    assert here.draws.shape == (500, 1)
    assert 0 < here.in_distribution.p_value <= 1
    assert 0 < here.disagreement.p_value <= 1
    text = str(here)
    assert "like the simulations" in text
    assert "members disagree" in text


def test_what_cannot_be_checked_says_why():
    with pytest.raises(ValueError, match="reference=table"):
        ds.diagnostics.in_distribution(fit().posterior(MEMBERS), np.zeros(6))
    with pytest.raises(ValueError, match="at least 20 rows"):
        posterior(10).at(np.zeros(6))
    alone = fit_of_one().at(np.zeros(6))
    assert alone.disagreement is None
    assert "at least two members" in str(alone)


def fit_of_one():
    theta, y = simulate(60, 3)
    table = ds.Table(theta, y=y, log_q=np.zeros((1, 60)), names=["a"], parameters=["theta"])
    return ds.Stacking.single(["a"], 0, parameters=["theta"]).posterior({"a": MEMBERS["a"]}, reference=table)


def test_likelihoods_are_held_against_their_evidence_and_against_posteriors():
    class Likelihood:
        normalized_in_y = True

        def log_likelihood(self, theta, y):
            return norm.logpdf(y, theta).sum(1)

    members = ds.normalize({"likelihood": Likelihood()}, prior=ds.tasks.Normal([0.0], [1.0]), draws=200)
    members |= {"posterior": Line(sd=0.93)}
    theta, y = simulate(40, 5)
    names, parameters = list(members), ["theta"]
    table = ds.Table(theta, y=y, log_q=np.zeros((2, 40)), names=names, parameters=parameters)
    here = ds.Stacking.uniform(names, parameters=parameters).posterior(members, reference=table)
    in_distribution = ds.diagnostics.in_distribution(here, y[0] + 0.1)
    assert "evidence by the likelihood likelihood" in [each.name for each in in_distribution.checks]
    evidence = next(each for each in in_distribution.checks if each.name.startswith("evidence"))
    exact = -(norm.logpdf(y[0] + 0.1, 0).sum() - 0.5 * np.log(7) + (y[0] + 0.1).sum() ** 2 / 14)
    assert evidence.statistic == pytest.approx(exact, abs=0.1)
    kinds = ds.diagnostics.disagreement(here, y[0])
    assert [each.name for each in kinds.checks][1] == "distance between posteriors and likelihoods"
    # Two members of equal weight, one of each kind: both distances are the same.
    assert kinds.checks[0].statistic == pytest.approx(kinds.checks[1].statistic)


def test_of_checks_that_are_all_beyond_simulations_the_farthest_is_named():
    null, a = np.arange(100.0), np.ones(100)
    near, far = check("near", 120.0, null, a), check("far", 900.0, null, a)
    assert near.p_value == far.p_value
    assert most_unusual([near, far]).name == "far"
    assert most_unusual([check("inside", 50.0, null, a), near]).name == "near"


def test_parameters_far_from_zero_are_shown_as_precisely_as_they_are_known():
    class Far(ds.toy.Gaussian):
        def log_prob(self, theta, y):
            return super().log_prob(np.asarray(theta) - 1000, y)

        def sample(self, n, y, seed=None):
            return 1000 + super().sample(n, y, seed)

    members = {"a": Far(0.0, 0.1), "b": Far(0.02, 0.1)}
    theta, y = ds.toy.simulate(200, seed=2)
    fit = ds.Stacking.uniform(["a", "b"], parameters=["time"])
    reference = ds.Table(theta + 1000, y=y, log_q=np.zeros((2, 200)), names=["a", "b"], parameters=["time"])
    text = str(fit.posterior(members, reference=reference).at([0.5]))
    first, ends = (
        re.search(r"time: (\S+) ± 0\.1\d*, 90 % in \[(.*?)\]", text),
        re.search(r"time in \[(.*?)\]", text),
    )
    assert first is not None
    assert ends is not None
    for numbers in (first[1], first[2], ends[1]):
        assert all(re.fullmatch(r"\d{3,4}\.\d{2,4}", each) for each in numbers.split(", ")), text


class Center:
    """A Gaussian about the first entry of the data, which may have any others."""

    def __init__(self, shift):
        self.shift = shift

    def log_prob(self, theta, y):
        return norm.logpdf(theta[:, 0], y[:, 0] + self.shift, 0.7)

    def sample(self, n, y, seed=None):
        return (y[:, 0] + self.shift + 0.7 * np.random.default_rng(seed).normal(size=(n, len(y))))[..., None]


def of_center(data, n=600):
    """A posterior of two such members, whose data are ``data(theta, rng)``."""
    members = {"a": Center(0.0), "b": Center(0.1)}

    def simulated(n, seed):
        rng = np.random.default_rng(seed)
        theta = rng.normal(size=(n, 1))
        return theta, data(theta, rng)

    fitted = ds.stack(ds.tabulate(members, *simulated(300, 1), draws=20))
    return fitted.posterior(members, reference=ds.tabulate(members, *simulated(n, 2), draws=20)), simulated


def test_a_column_that_another_determines_hides_nothing():
    def data(theta, rng):
        a = theta[:, 0] + rng.normal(size=len(theta))
        return np.column_stack([a, rng.normal(size=len(theta)), np.exp(a)])

    stacked, _ = of_center(data)
    assert not stacked.at([0.3, 0.0, np.exp(0.3)]).in_distribution.alarm
    assert stacked.at([0.3, 6.0, np.exp(0.3)]).in_distribution.alarm
    assert stacked.at([0.3, 0.0, np.exp(2.0)]).in_distribution.alarm


def test_discrete_data_that_were_simulated_are_no_surprise_and_others_are():
    def data(theta, rng):
        chance = 1 / (1 + np.exp(-theta))
        return np.column_stack([rng.random((len(theta), 3)) < chance, rng.random(len(theta)) < 0.5]).astype(int)

    stacked, simulated = of_center(data)
    rows, counts = np.unique(simulated(200, 3)[1], axis=0, return_counts=True)
    nearest = [stacked.at(row, draws=20).in_distribution.checks[0].p_value for row in rows]
    assert np.average(np.array(nearest) < 0.05, weights=counts) < 0.1
    assert stacked.at([0, 1, 1, 7], draws=20).in_distribution.alarm


def test_an_observation_in_single_precision_is_the_same_observation():
    def data(theta, rng):
        return np.column_stack([theta[:, 0] + rng.normal(size=len(theta)), np.full(len(theta), 0.1)])

    stacked, _ = of_center(data)
    for y in ([0.3, 0.1], np.array([0.3, 0.1], np.float32)):
        assert stacked.at(y, draws=20).in_distribution.p_value > 0.05
    assert stacked.at([0.3, 0.4], draws=20).in_distribution.alarm


def test_too_few_rows_are_said_to_be_too_few(tmp_path):
    stacked, _ = of_center(lambda theta, rng: theta + rng.normal(size=theta.shape), n=30)
    here = stacked.at([1e6], draws=20)
    assert "beyond all 15 simulations" in str(here.in_distribution)
    assert "the least that so few can give" in str(here.in_distribution)
    assert any("which this one may not be" in sentence for sentence in here.sentences)
    rows = stacked.reference
    assert rows is not None
    page = ds.report.write(tmp_path / "report.html", validation=rows, test=rows, fits=stacked.fit, at=here)
    for words in ("Too few to tell", "which yours may not be"):
        assert words in page.read_text()
    assert "is like the simulations" in str(stacked.at([0.3], draws=20).in_distribution)
