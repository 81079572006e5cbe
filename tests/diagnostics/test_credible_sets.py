"""Credible sets: coverage whatever the members, exact sets where these are exact."""

import numpy as np
import pytest
from scipy.stats import binom, norm

import drystone as ds
from drystone.diagnostics.density_places import density_at, place

# Exact posterior of the toy problem: N(y, 1).
EXACT = ds.toy.Gaussian(0.0, 1.0)
MEMBERS = {
    "exact": {"a": EXACT},
    "good": {"a": ds.toy.Gaussian(0.1, 1.05), "b": ds.toy.Gaussian(-0.1, 0.95)},
    "biased": {"a": ds.toy.Gaussian(1.5, 0.5), "b": ds.toy.Gaussian(1.0, 0.4)},
    "hopeless": {"a": ds.toy.Gaussian(30.0, 0.1), "b": ds.toy.Gaussian(-40.0, 0.1)},
}


def posterior(kind, n, seed, row_weights=None):
    members = MEMBERS[kind]
    theta, y = ds.toy.simulate(n, seed)
    table = ds.Table(theta, y=y, log_q=np.zeros((len(members), n)), names=list(members), row_weights=row_weights)
    fit = ds.Stacking.uniform(list(members), parameters=table.parameters)
    return fit.posterior(members, reference=table)


def test_places_and_densities_are_inverse_to_each_other():
    of_draws = np.sort(np.random.default_rng(0).normal(size=50))
    for log_q in (-7.0, of_draws[0], -0.3, 0.9, of_draws[-1], 5.0):
        assert density_at(place(log_q, of_draws), of_draws) == pytest.approx(log_q)
    places = [place(log_q, of_draws) for log_q in np.linspace(-6, 6, 200)]
    assert (np.diff(places) < 0).all()
    assert place(-np.inf, of_draws) == np.inf
    assert density_at(np.inf, of_draws) == -np.inf


@pytest.mark.parametrize("kind", ["good", "biased", "hopeless"])
def test_sets_cover_whatever_the_members(kind):
    repetitions, hits = 60, {0.1: 0, 0.3: 0}
    for seed in range(repetitions):
        theta, y = ds.toy.simulate(3, 5000 + seed)
        here = posterior(kind, 39, seed)
        for alpha in hits:
            hits[alpha] += sum(here.credible_set(x, alpha).contains(t)[0] for t, x in zip(theta, y, strict=True))
    # Three per reference: not quite independent.
    for alpha, count in hits.items():
        assert count >= binom.ppf(0.001, 3 * repetitions, 1 - alpha), alpha


def test_an_exact_posterior_has_the_shortest_interval():
    found = posterior("exact", 2000, 1).credible_set([0.7], 0.1)
    exact = 2 * norm.ppf(0.95)
    # The quantile of 600 places, and that of 200 draws.
    assert found.volume.value == pytest.approx(exact, rel=0.2)
    assert found.bounds[0] == pytest.approx([0.7 - exact / 2, 0.7 + exact / 2], abs=0.4)
    assert found.probability == pytest.approx(0.9, abs=0.06)
    assert abs(found.volume.value - np.diff(found.bounds[0])[0]) < 4 * found.volume.se + 0.02


def test_draws_inside_and_projections_belong_to_the_set():
    found = posterior("good", 300, 1).credible_set([0.7], 0.2)
    assert found.contains(found.draws).all()
    edges, met = found.projection("theta_0", bins=20)
    assert edges.shape == (21,)
    assert met.all()  # one interval
    assert not found.contains([[found.bounds[0, 1] + 0.5]])[0]
    with pytest.raises(ValueError, match="unknown parameter 'mu'"):
        found.projection("mu")
    with pytest.raises(ValueError, match="one or two parameters"):
        found.projection()
    with pytest.raises(ValueError, match=r"d = 1 parameters"):
        found.contains(np.zeros((3, 2)))


def test_a_projection_of_two_modes_has_a_gap():
    members = {"a": ds.toy.Gaussian(-3.0, 0.3), "b": ds.toy.Gaussian(3.0, 0.3)}
    rng = np.random.default_rng(0)
    y = rng.normal(size=(300, 1))
    theta = y + rng.choice([-3, 3], (300, 1)) + 0.3 * rng.normal(size=(300, 1))
    table = ds.Table(theta, y=y, log_q=np.zeros((2, 300)), names=["a", "b"])
    here = ds.Stacking.uniform(["a", "b"], parameters=table.parameters).posterior(members, reference=table)
    _, met = here.credible_set([0.0]).projection("theta_0")
    assert met[0]
    assert met[-1]
    assert not met[len(met) // 2]


def test_a_sliver_without_volume_does_not_stretch_the_ends():
    class Spiked:
        """N(y, 1) but for a hundredth of the probability, within 1e-6 above −100."""

        def log_prob(self, theta, y):
            spike = (theta >= -100) & (theta < -100 + 1e-6)
            return np.log(0.99 * norm.pdf(theta, y) + 0.01e6 * spike)[:, 0]

        def sample(self, n, y, seed=None):
            rng = np.random.default_rng(seed)
            shape = (n, *y.shape)
            return np.where(rng.random(shape) < 0.01, -100 + 1e-6 * rng.random(shape), y + rng.normal(size=shape))

    theta, y = ds.toy.simulate(300, 3)
    table = ds.Table(theta, y=y, log_q=np.zeros((1, 300)), names=["spiked"])
    here = ds.Stacking.single(["spiked"], 0, parameters=table.parameters).posterior([Spiked()], reference=table)
    found = here.credible_set([0.7])
    assert found.contains([[-100 + 5e-7]])[0]
    half = norm.ppf(0.95)
    assert found.bounds[0] == pytest.approx([0.7 - half, 0.7 + half], abs=0.4)
    edges, met = found.projection("theta_0", bins=20)
    assert edges[0] > -3
    assert met.all()


def test_too_few_simulations_allow_no_bound():
    found = posterior("good", 30, 0).credible_set([0.0], 0.01)
    assert found.threshold == -np.inf
    assert str(found) == "No bounded set has 99 % probability by 30 simulations: 99 are needed."
    assert found.contains([[1e6]])[0]
    assert found.volume.value == np.inf
    assert np.isinf(found.bounds).all()
    assert found.projection("theta_0")[1].any()


def test_a_local_set_follows_the_errors_there_and_says_that_it_is_approximate():
    class Half:
        """Exact for y < 0, three times too narrow above."""

        def sd(self, y):
            return np.where(y < 0, 1.0, 1 / 3)

        def log_prob(self, theta, y):
            return norm.logpdf(theta, y, self.sd(y))[:, 0]

        def sample(self, n, y, seed=None):
            return y + self.sd(y) * np.random.default_rng(seed).normal(size=(n, *y.shape))

    theta, y = ds.toy.simulate(600, 3)
    table = ds.Table(theta, y=y, log_q=np.zeros((1, 600)), names=["half"])
    here = ds.Stacking.single(["half"], 0, parameters=table.parameters).posterior([Half()], reference=table)
    width = {x: here.credible_set([x], local=True).volume.value for x in (-4.0, 4.0)}
    for value in width.values():
        assert value == pytest.approx(2 * norm.ppf(0.95), rel=0.3)
    found = here.credible_set([4.0], local=True)
    assert found.approximate
    assert "approximate" in str(found)
    assert here.credible_set([4.0]).volume.value < 0.85 * found.volume.value


def test_weighted_simulations_count_by_their_weights():
    # Rows whose truth lies high are ten times as frequent among the simulations as they should be.
    theta, y = ds.toy.simulate(400, 0)
    heavy = np.where(np.abs(theta - y)[:, 0] < 0.5, 10.0, 0.1)
    weighted = posterior("exact", 400, 0, row_weights=heavy).credible_set([0.0])
    equal = posterior("exact", 400, 0).credible_set([0.0])
    assert weighted.volume.value < 0.5 * equal.volume.value


def test_forms_without_a_density_have_no_set():
    table = ds.toy.table(60)
    fit = ds.stack(table, ds.SampleAggregation("diagonal"), ds.MeanScore())
    here = fit.posterior(ds.toy.MEMBERS, reference=ds.toy.table(60, seed=2))
    with pytest.raises(ds.IntractableError, match="no density"):
        here.credible_set([0.0])
    found = here.at([0.5])
    assert found.credible_set is None
    assert "No credible set" in str(found)
    assert found.disagreement is not None


def test_the_guarantee_is_withdrawn_where_the_observation_is_unlike_the_simulations():
    text = str(posterior("good", 600, 1).at([90.0]))
    assert "which this one is not" in text
    assert "which this one is not" not in str(posterior("good", 600, 1).at([0.5]))
