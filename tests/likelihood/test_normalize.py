"""Posteriors out of likelihoods: against closed forms and the tasks' exact posteriors."""

import sys
import warnings
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch
from scipy import stats

import drystone as ds
from drystone.adapters.functions import from_functions, from_likelihood, from_ratio
from drystone.likelihood import normalize
from drystone.likelihood.report import pareto_shape
from drystone.simulation.prior import as_prior

# θ ~ N(m, s²), y | θ ~ N(θ, 1), in two dimensions: the posterior and the evidence are normal.
PRIOR = ds.tasks.Normal([0.3, -0.2], [1.5, 0.8])


def log_likelihood(theta, y):
    return stats.norm.logpdf(y, theta).sum(1)


def exact_posterior(y):
    variance = 1 / (1 / PRIOR.sd**2 + 1)
    return variance * (PRIOR.mean / PRIOR.sd**2 + y), np.sqrt(variance)


def simulations(N, seed=0):
    rng = np.random.default_rng(seed)
    theta = PRIOR.sample(N, rng)
    return theta, theta + rng.normal(size=theta.shape)


def exact_log_prob(theta, y):
    mean, sd = exact_posterior(y)
    return stats.norm.logpdf(theta, mean, sd).sum(1)


def prior_draws(n, y, seed):
    return PRIOR.sample(n * len(y), np.random.default_rng(seed)).reshape(n, len(y), 2)


def prior_density(theta, y):
    return PRIOR.log_prob(theta)


def normalized(**settings):
    likelihood = from_likelihood(log_likelihood, normalized_in_y=True)
    return normalize({"exact": likelihood}, prior=PRIOR, **settings)["exact"]


def test_the_density_is_near_the_exact_one_and_errs_low():
    theta, y = simulations(60)
    conservative, naive = normalized(draws=200).bracket(theta, y)
    difference = conservative - exact_log_prob(theta, y)
    error = difference.std() / np.sqrt(len(theta))
    assert abs(difference.mean()) < 0.05 + 3 * error
    assert difference.mean() < 3 * error
    assert naive.mean() >= conservative.mean() - 1e-3


def test_a_term_in_y_changes_nothing():
    theta, y = simulations(7)
    shifted = normalize([from_ratio(lambda theta, y: log_likelihood(theta, y) + 50 * y[:, 0])], prior=PRIOR)
    np.testing.assert_allclose(
        shifted["likelihood_0"].log_prob(theta, y), normalized().log_prob(theta, y), atol=1e-9
    )


def test_values_do_not_depend_on_the_other_rows():
    theta, y = simulations(9)
    member = normalized(draws=100)
    together, order = member.log_prob(theta, y), np.array([4, 0, 8, 1])
    np.testing.assert_array_equal(normalized(draws=100).log_prob(theta[order], y[order]), together[order])
    alone = [normalized(draws=100).log_prob(theta[[n]], y[[n]])[0] for n in range(3)]
    np.testing.assert_array_equal(alone, together[:3])


def test_values_depend_on_the_seed():
    theta, y = simulations(3)
    assert (normalized(seed=1).log_prob(theta, y) != normalized(seed=2).log_prob(theta, y)).all()


def test_the_density_integrates_to_one():
    member, y = normalized(draws=400), np.array([[0.7, -1.1]])
    grid = np.stack(np.meshgrid(np.linspace(-5, 5, 90), np.linspace(-4, 4, 90)), -1).reshape(-1, 2)
    cell = (10 / 89) * (8 / 89)
    assert np.exp(member.log_prob(grid, y)).sum() * cell == pytest.approx(1, abs=0.05)


def test_draws_are_of_the_exact_posterior_without_visible_repeats():
    y = np.array([[0.7, -1.1], [2.0, 0.4]])
    draws = normalized(draws=500).sample(2000, y, seed=3)
    assert draws.shape == (2000, 2, 2)
    mean, sd = exact_posterior(y)
    for n in range(2):
        for j in range(2):
            assert stats.kstest((draws[:, n, j] - mean[n, j]) / sd[j], "norm").pvalue > 1e-3
        assert len(np.unique(draws[:, n], axis=0)) > 0.97 * 2000


def test_draws_of_a_posterior_at_the_edge_of_the_prior_are_exact():
    likelihood = from_likelihood(lambda theta, y: -0.5 * ((y - theta) ** 2).sum(1))
    member = normalize({"edge": likelihood}, prior=([-10.0], [10.0]))["edge"]
    draws = member.sample(20_000, [[11.0]], seed=1)[:, 0, 0]
    exact = stats.truncnorm(-21.0, -1.0, loc=11.0)
    assert stats.kstest(draws, exact.cdf).statistic < 0.02


def test_weighted_points_have_the_exact_moments():
    y = np.array([[0.7, -1.1]])
    points, w = next(iter(normalized(draws=2000).weighted_points(y)))
    mean, sd = exact_posterior(y)
    np.testing.assert_allclose(w @ points, mean[0], atol=5 * sd.max() / np.sqrt(500))
    assert w.sum() == pytest.approx(1)


def test_the_evidence_is_that_of_the_closed_form():
    y = np.array([[0.7, -1.1], [3.0, 2.0]])
    value, error = normalized(draws=2000).log_evidence(y)
    expected = stats.norm.logpdf(y, PRIOR.mean, np.sqrt(1 + PRIOR.sd**2)).sum(1)
    assert (np.abs(value - expected) < 4 * error + 1e-6).all()
    assert (error < 0.1).all()


@pytest.mark.parametrize("spread", [1.0, 10.0])
@pytest.mark.parametrize("d", [1, 3, 8])
def test_evidence_and_density_are_exact_in_any_dimension_with_and_without_a_proposal(d, spread):
    noise = 0.1  # of correlated data, far below the spread of the prior
    map_of_theta = np.eye(d) + 0.2 * np.random.default_rng(d).normal(size=(d, d))
    precision = map_of_theta.T @ map_of_theta / noise**2 + np.eye(d) / spread**2
    covariance = np.linalg.inv(precision)
    root = np.linalg.cholesky(covariance)

    def center(y):
        return y @ map_of_theta @ covariance / noise**2

    class Wide:
        def sample(self, n, y, seed):
            return center(y) + 1.2 * np.random.default_rng(seed).normal(size=(n, *y.shape)) @ root.T

        def log_prob(self, theta, y):
            return stats.multivariate_normal.logpdf(theta - center(y), cov=1.44 * covariance).reshape(len(theta))

    def likelihood(theta, y):
        return stats.norm.logpdf(y, theta @ map_of_theta.T, noise).sum(1)

    rng, prior = np.random.default_rng(5), ds.tasks.Normal(np.zeros(d), np.full(d, spread))
    theta = prior.sample(4, rng)
    y = theta @ map_of_theta.T + noise * rng.normal(size=theta.shape)
    marginal = spread**2 * map_of_theta @ map_of_theta.T + noise**2 * np.eye(d)
    expected = stats.multivariate_normal.logpdf(y, cov=marginal).reshape(4)
    exact = stats.multivariate_normal.logpdf(theta - center(y), cov=covariance).reshape(4)
    members = {"exact": from_likelihood(likelihood, normalized_in_y=True)}
    for proposal in (None, Wide()):
        member = normalize(members, prior=prior, proposal=proposal)["exact"]
        value, error = member.log_evidence(y)
        assert (error < 0.1).all()
        assert (np.abs(value - expected) < 4.5 * error).all()
        np.testing.assert_allclose(member.log_prob(theta, y), exact, atol=0.3)


def test_a_ratio_has_no_evidence():
    member = normalize({"ratio": from_ratio(log_likelihood)}, prior=PRIOR)["ratio"]
    with pytest.raises(ds.IntractableError, match="'ratio' is not a normalized density of y"):
        member.log_evidence(np.zeros((1, 2)))


def test_a_mode_that_the_proposal_misses_is_noticed_and_no_density_is_made_up():
    # Two modes at ±2; the proposal knows one of them.
    prior = ds.tasks.Uniform([-400.0], [400.0])
    two = from_likelihood(lambda theta, y: stats.norm.logpdf(np.abs(theta[:, 0]), 2.0, 0.1))

    class OneMode:
        def sample(self, n, y, seed):
            return 2.0 + 0.1 * np.random.default_rng(seed).normal(size=(n, len(y), 1))

        def log_prob(self, theta, y):
            return stats.norm.logpdf(theta[:, 0], 2.0, 0.1)

    theta, y = np.array([[-2.0], [2.0]]), np.zeros((2, 1))
    exact = np.log(0.5) + stats.norm.logpdf(0.0, 0.0, 0.1)
    settings = {"prior": prior, "proposal": OneMode(), "defensive": 0.01, "draws": 100}
    brackets = [normalize({"two": two}, **settings, seed=seed)["two"].bracket(theta, y) for seed in range(6)]
    conservative, naive = np.array(brackets).swapaxes(0, 1)
    assert conservative.mean() < exact + 0.1  # on average it claims no more than there is …
    assert naive.mean() > exact + 0.1  # … as the naive estimate does
    assert ((naive - conservative)[:, 0] > 0.05).all()  # the width where no point was shows it


@pytest.mark.parametrize(("width", "draws"), [(100.0, 500), (400.0, 1000)])
def test_a_mode_that_points_sometimes_find_does_not_let_the_density_claim_too_much(width, draws):
    # Were there more points where θ itself shows that some were missing, what is claimed of the mode that was
    # found would stay too high, and what is claimed of the other would be right.
    mode, sd, rng = width / 4, 0.2, np.random.default_rng(0)

    def log_density(theta, y):
        return np.logaddexp(*(stats.norm.logpdf(theta[:, 0], y[:, 0] + at, sd) for at in (mode, -mode)))

    class OneMode:
        def sample(self, n, y, seed):
            return mode + y + sd * np.random.default_rng(seed).normal(size=(n, len(y), 1))

        def log_prob(self, theta, y):
            return stats.norm.logpdf(theta[:, 0], mode + y[:, 0], sd)

    y = rng.uniform(-1, 1, (400, 1))
    theta = rng.choice([-mode, mode], y.shape) + y + sd * rng.normal(size=y.shape)
    settings = {"prior": ([-width / 2], [width / 2]), "proposal": OneMode(), "draws": draws}
    member = normalize([from_likelihood(log_density)], **settings)["likelihood_0"]
    claimed = member.log_prob(theta, y) - (log_density(theta, y) + np.log(0.5))
    assert claimed.mean() < 2 * claimed.std() / np.sqrt(len(y))


def test_a_proposal_that_is_too_narrow_is_mended():
    class Narrow:
        def sample(self, n, y, seed):
            mean, sd = exact_posterior(y)
            return mean + sd / 3 * np.random.default_rng(seed).normal(size=(n, *y.shape))

        def log_prob(self, theta, y):
            mean, sd = exact_posterior(y)
            return stats.norm.logpdf(theta, mean, sd / 3).sum(1)

    theta, y = simulations(40, seed=5)
    member = normalized(proposal=Narrow(), draws=300)
    difference = member.log_prob(theta, y) - exact_log_prob(theta, y)
    assert abs(difference.mean()) < 0.05 + 3 * difference.std() / np.sqrt(40)


@pytest.mark.parametrize(
    "prior",
    [
        torch.distributions.Independent(torch.distributions.Normal(torch.zeros(2), torch.ones(2)), 1),
        torch.distributions.Gamma(torch.tensor([2.0, 3.0]), torch.ones(2)),
        torch.distributions.LogNormal(torch.zeros(2), torch.ones(2)),
        ds.tasks.LogNormal([0.0, 0.1], [0.5, 0.7]),
        ([0.0, 0.0], [3.0, 4.0]),
    ],
    ids=["Independent", "Gamma", "LogNormal", "ours", "bounds"],
)
def test_any_prior_with_a_density_and_a_sampler_will_do(prior):
    member = normalize([from_likelihood(log_likelihood)], prior=prior, draws=100)["likelihood_0"]
    density = member.log_prob(np.array([[0.5, 1.0], [-1.0, 1.0]]), np.ones((2, 2)))
    assert np.isfinite(density[0])
    assert member.sample(20, np.ones((1, 2)), seed=0).shape == (20, 1, 2)


@pytest.mark.parametrize("validated", [True, False])
def test_torchs_priors_have_no_density_outside_their_support(validated):
    gamma = torch.distributions.Gamma(torch.ones(2), torch.ones(2), validate_args=validated)
    values = as_prior(gamma).log_prob(np.array([[0.5, 1.0], [-1.0, 1.0]]))
    np.testing.assert_allclose(values, [-1.5, -np.inf], rtol=1e-6)


def test_the_density_is_zero_outside_the_prior():
    member = normalize([from_likelihood(log_likelihood)], prior=([0.0, 0.0], [3.0, 4.0]), draws=100)[
        "likelihood_0"
    ]
    assert member.log_prob(np.array([[-0.1, 1.0]]), np.ones((1, 2)))[0] == -np.inf


def test_several_likelihoods_share_their_points():
    wide = from_likelihood(lambda theta, y: stats.norm.logpdf(y, theta, 2.0).sum(1))
    members = normalize({"exact": from_likelihood(log_likelihood), "wide": wide}, prior=PRIOR, draws=100)
    row = members["exact"].normalizer.row(np.zeros((1, 2)))
    assert members["wide"].normalizer.row(np.zeros((1, 2))) is row


def test_rows_whose_points_are_forgotten_are_not_piloted_again_and_say_the_same(monkeypatch):
    theta, y = simulations(6)
    asked = []

    def counted(theta, y):
        asked.append(len(theta))
        return log_likelihood(theta, y)

    likelihoods = {name: from_likelihood(counted) for name in ("a", "b")}
    members = normalize(likelihoods, prior=PRIOR, draws=64)
    expected = [member.log_prob(theta, y) for member in members.values()]
    monkeypatch.setattr(sys.modules["drystone.likelihood.normalize"], "CACHE", 1)
    members = normalize(likelihoods, prior=PRIOR, draws=64)
    np.testing.assert_array_equal(members["a"].log_prob(theta, y), expected[0])
    asked.clear()
    np.testing.assert_array_equal(members["b"].log_prob(theta, y), expected[1])
    assert max(asked) <= 16 * 64  # pilots are larger


def test_a_table_finds_points_once_for_all_likelihoods_though_memory_holds_those_of_some_rows(monkeypatch):
    theta, y = simulations(300)
    proposed = []

    def counted(n, y, seed=None):
        proposed.append(n)
        return prior_draws(n, y, seed)

    def tabulated():
        proposal = ds.adapters.from_functions(sample=counted, log_prob=prior_density)
        members = normalize(
            {name: from_likelihood(log_likelihood) for name in "abc"}, prior=PRIOR, proposal=proposal, draws=64,
            error=10.0,
        )  # fmt: skip
        return ds.tabulate(members, theta, y, draws=0, seed=1)

    expected = tabulated()
    once = sum(proposed)
    proposed.clear()
    # Room for the points of half of the rows, and what three likelihoods say of them.
    monkeypatch.setattr(sys.modules["drystone.likelihood.normalize"], "CACHE", 150 * 256 * (2 + 1 + 3) * 8)
    table = tabulated()
    assert sum(proposed) < 1.2 * once
    np.testing.assert_array_equal(table.log_q, expected.log_q)


def test_a_member_that_travels_to_another_process_says_the_same():
    theta, y = simulations(3)
    member = normalized(draws=50, proposal=ds.adapters.from_functions(sample=prior_draws, log_prob=prior_density))
    expected = member.log_prob(theta, y)  # also fills the cache of points, which stays behind
    np.testing.assert_array_equal(cloudpickle.loads(cloudpickle.dumps(member)).log_prob(theta, y), expected)


def test_members_without_a_likelihood_are_named():
    with pytest.raises(TypeError, match="'flow' is a object without it"):
        normalize({"flow": object()}, prior=PRIOR)  # pyright: ignore[reportArgumentType]


def test_values_that_are_not_numbers_name_the_member():
    member = normalize({"broken": from_likelihood(lambda theta, y: np.full(len(theta), np.nan))}, prior=PRIOR)
    with pytest.raises(ValueError, match="member 'broken' is NaN"):
        member["broken"].log_prob(np.zeros((1, 2)), np.zeros((1, 2)))


def test_rows_that_do_not_fit_together_are_refused():
    theta, y = simulations(3)
    member = normalized(draws=50)
    with pytest.raises(ValueError, match="one row per row of `theta`, 3, or one; got 2"):
        member.log_prob(theta, y[:2])
    with pytest.raises(ValueError, match=r"must have shape \(N, d\) = \(N, 2\), as the prior has; got \(3,\)"):
        member.log_prob(theta[:, 0], y)
    with pytest.raises(ValueError, match=r"as the prior has; got \(3, 1\)"):
        member.log_likelihood(theta[:, :1], y)


def test_one_likelihood_must_have_a_name():
    with pytest.raises(TypeError, match=r"got one FunctionLikelihood. Give it a name: \{name: likelihood\}"):
        normalize(from_likelihood(log_likelihood), prior=PRIOR)  # pyright: ignore[reportArgumentType]


def test_priors_of_other_shapes_are_refused():
    class Flat:
        def sample(self, n, rng):
            return rng.normal(size=n)

        def log_prob(self, theta):
            return stats.norm.logpdf(theta)

    class ByParameter(Flat):
        def sample(self, n, rng):
            return rng.normal(size=(n, 2))

    with pytest.raises(ValueError, match=r"must give shape \(n, d\); got \(2,\) for n = 2"):
        normalize([from_likelihood(log_likelihood)], prior=Flat())
    with pytest.raises(ValueError, match=r"must give shape \(N,\) for theta \(N, d\); got \(2, 2\)"):
        normalize([from_likelihood(log_likelihood)], prior=ByParameter())


def test_data_that_no_point_explains_have_density_zero_and_no_draws():
    theta, y = simulations(3)
    impossible = from_likelihood(lambda theta, y: np.full(len(theta), -np.inf), normalized_in_y=True)
    member = normalize({"impossible": impossible}, prior=PRIOR, draws=20)["impossible"]
    np.testing.assert_array_equal(member.log_prob(theta, y), -np.inf)
    value, error = member.log_evidence(y)
    np.testing.assert_array_equal([value, -error], -np.inf)
    with pytest.raises(ds.SamplingError, match="'impossible' has likelihood 0 at all 320 points of row 0 of y"):
        member.sample(5, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = ds.tabulate({"impossible": member}, theta, y, draws=5)
    assert np.isnan(table.mean).all()
    np.testing.assert_array_equal(table.effective, 0)


def test_the_report_tells_good_points_from_bad_ones():
    y = simulations(5)[1]
    report = normalized(draws=500).report(y)
    assert (report.effective > 100).all()
    assert (report.shape < 0.7).all()
    assert "5 rows" in str(report)


@pytest.mark.parametrize("k", [0.2, 0.9])
def test_the_pareto_shape_of_pareto_weights_is_found(k):
    w = stats.genpareto.rvs(k, size=20_000, random_state=1)
    assert pareto_shape(np.log(w)) == pytest.approx(k, abs=0.15)


def test_weights_that_are_nearly_equal_have_no_tail_to_speak_of():
    u = np.random.default_rng(0).random(1000)
    for w in (1 + u, np.where(u < 0.95, 0.5, 0.6) + 1e-9 * u):
        assert pareto_shape(np.log(w)) <= 0


@pytest.mark.parametrize("task", ["two_moons", "gaussian_mixture"])
def test_exact_likelihoods_of_the_tasks_give_their_posteriors(task):
    task = ds.tasks.get(task)
    simulated = ds.simulate(task, n=60, seed=12)
    member = normalize([from_likelihood(task.log_likelihood)], prior=task.prior, draws=500)["likelihood_0"]
    difference = member.log_prob(simulated.theta, simulated.y) - task.log_posterior(
        simulated.theta, np.asarray(simulated.y, float)
    )
    error = difference.std() / np.sqrt(60)
    assert abs(difference.mean()) < 0.05 + 3 * error
    assert difference.mean() < 3 * error


def test_a_table_has_the_exact_moments_ranks_and_quantiles():
    theta, y = simulations(30, seed=8)
    table = ds.tabulate({"exact": normalized(draws=500)}, theta, y, draws=50, levels=(0.05, 0.95))
    mean, sd = exact_posterior(y)
    np.testing.assert_allclose(table.mean[0], mean, atol=0.35)
    assert np.abs(table.mean[0] - mean).mean() < 0.06
    assert np.diagonal(table.cov[0], axis1=1, axis2=2).mean(0) == pytest.approx(sd**2, rel=0.15)
    assert np.abs(table.rank[0] - stats.norm.cdf(theta, mean, sd)).mean() < 0.05
    assert np.abs(table.quantile(0.95)[0] - stats.norm.ppf(0.95, mean, sd)).mean() < 0.15
    np.testing.assert_array_equal(table.log_q[0], normalized(draws=500).log_prob(theta, y))


def test_a_table_and_a_fit_say_how_well_members_are_normalized(tmp_path):
    theta, y = simulations(20, seed=9)
    exact = normalized(draws=200)
    members = {"normal": from_functions(log_prob=lambda theta, y: -((theta - y) ** 2).sum(1)), "exact": exact}
    table = ds.tabulate(members, theta, y, draws=0)
    np.testing.assert_array_equal(table.effective[1], exact.report(y).effective)
    np.testing.assert_array_equal(table.pareto[1], exact.report(y).shape)
    assert np.isnan(table.effective[0]).all()
    fit = ds.stack(table)
    assert "1 of 2 members are normalized at points" in " ".join(fit.notes)
    table.save(tmp_path / "table.zarr")
    np.testing.assert_array_equal(ds.Table.load(tmp_path / "table.zarr").effective, table.effective)
    assert ds.stack(table.select(members=["normal"])).notes == ()


class Proposes:
    """Normal distributions about some centers, for a proposal that is as good or as bad as one likes."""

    def __init__(self, center, sd):
        self.center, self.sd = center, sd

    def sample(self, n, y, seed):
        return self.center(y) + self.sd * np.random.default_rng(seed).normal(size=(n, *y.shape))

    def log_prob(self, theta, y):
        return stats.norm.logpdf(theta, self.center(y), self.sd).sum(1)


def four_modes():
    """Return a prior, the data of θ before noise, their noise, a good proposal and one with a single mode."""
    signs = [np.array([a, b]) for a in (-1, 1) for b in (-1, 1)]
    good = [Proposes(lambda y, sign=sign: sign * y, 0.0024) for sign in signs]
    return ds.tasks.Uniform([-10.0] * 2, [10.0] * 2), np.abs, 0.002, good, good[-1]


def ten_dimensions():
    """Return a prior, the data of θ before noise, their noise, a good proposal and one too narrow by 3."""
    sd = 0.1 / np.sqrt(1.01)
    good, bad = (Proposes(lambda y: y / 1.01, width * sd) for width in (1.2, 1 / 3))
    return ds.tasks.Normal([0.0] * 10, [1.0] * 10), np.asarray, 0.1, good, bad


@pytest.mark.parametrize("problem", [four_modes, ten_dimensions])
def test_a_bad_proposal_is_noticed_in_the_table_the_fit_and_the_report(problem, tmp_path):
    prior, data, noise, good, bad = problem()
    rng = np.random.default_rng(0)
    theta = prior.sample(24, rng)
    y = data(theta) + noise * rng.normal(size=theta.shape)
    likelihood = from_likelihood(lambda theta, y: stats.norm.logpdf(y, data(theta), noise).sum(1))
    of = {}
    for name, proposal in (("good", good), ("bad", bad)):
        members = normalize({name: likelihood}, prior=prior, proposal=proposal)
        of[name] = ds.tabulate(members, theta, y, draws=20)
    assert of["good"].width.mean() < 0.01 < 0.1 < of["bad"].width.mean()
    difference = (of["bad"].log_q - of["good"].log_q)[0]
    assert difference.mean() < 3 * difference.std() / np.sqrt(24)  # no more density than there is
    notes = {name: " ".join(ds.stack(table).notes) for name, table in of.items()}
    assert "The points miss what is true there" in notes["bad"]
    assert "The points miss what is true there" not in notes["good"]
    table = of["good"].join(of["bad"])
    ds.report.write(tmp_path / "report.html", validation=table, test=table, fits=ds.stack(table))
    report = (tmp_path / "report.html").read_text()
    assert "The points miss what is true there" in report
    assert "log density low by at most" in report


def test_the_width_is_what_the_table_holds():
    theta, y = simulations(5)
    member = normalized(draws=100)
    conservative, naive = member.bracket(theta, y)
    report = member.report(y, theta)
    np.testing.assert_array_equal(report.width, naive - conservative)
    np.testing.assert_array_equal(ds.tabulate({"exact": member}, theta, y, draws=0).width[0], report.width)
    assert "errs low by at most" in str(report)
    assert member.report(y).width is None


def test_a_bare_likelihood_is_refused_and_pointed_to_normalize():
    theta, y = simulations(3)
    bare: Any = from_likelihood(log_likelihood)
    with pytest.raises(TypeError, match=r"member 'bare' is a likelihood .* ds.normalize"):
        ds.tabulate({"bare": bare}, theta, y)


def test_the_seed_of_draws_may_be_given_by_position():
    member, y = normalized(draws=50), np.ones((2, 2))
    np.testing.assert_array_equal(member.sample(5, y, 3), member.sample(5, y, seed=3))


def test_draws_of_two_calls_or_of_equal_rows_are_independent():
    exact = from_likelihood(lambda theta, y: -((y - theta) ** 2).sum(1) / 2)
    member = normalize({"exact": exact}, prior=ds.tasks.Normal([0.0], [1.0]))["exact"]
    y = np.array([[1.0]])
    many = np.stack([member.sample(20, y, seed=seed)[:, 0, 0] for seed in range(200)])
    assert len(np.unique(many)) > 0.99 * many.size
    # The mean of all is as near to the exact one as 4,000 draws should be: the posterior is N(1/2, 1/2).
    assert abs(many.mean() - 0.5) < 4 * np.sqrt(0.5 / many.size)
    twice = member.sample(100, np.repeat(y, 2, 0), seed=0)[..., 0]
    assert not np.intersect1d(twice[:, 0], twice[:, 1]).size
