"""Local mixtures, sample aggregation, intervals of mixtures, Jensen–Shannon, kernels, tuning."""

import warnings

import numpy as np
import pytest
import torch
from scipy.optimize import root_scalar
from scipy.stats import norm

import drystone as ds
from drystone.forms.view import as_tensors
from drystone.solvers.gating import _initial, _train
from helpers.tables import make_table


def two_sided(N, seed, S=60):
    """True posterior N(y, 1); members N(y + 1, 1) and N(y − 1, 1)."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(N, 1))
    theta = y + rng.normal(size=(N, 1))
    draws = np.stack([y[:, None] + shift + rng.normal(size=(N, S, 1)) for shift in (1, -1)])
    log_q = np.stack([norm.logpdf(theta[:, 0], y[:, 0] + shift) for shift in (1, -1)])
    return ds.Table(theta, y, log_q=log_q, draws=draws, names=["right", "left"])


def half_right(N, seed):
    """True posterior N(y, 1); member a is right for y < 0, member b for y > 0."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(N, 1))
    theta = y + rng.normal(size=(N, 1))
    centre = [y + np.where(y < 0, 0.0, 2.0), y + np.where(y < 0, -2.0, 0.0)]
    return ds.Table(theta, y, log_q=np.stack([norm.logpdf(theta, c)[:, 0] for c in centre]), names=["a", "b"])


def gap_to_truth(fit, table):
    return float((norm.logpdf(table.theta, table.y)[:, 0] - fit.apply(table).log_q).mean())


def test_local_weights_win_where_members_are_right_in_different_places():
    train, test = half_right(1500, 1), half_right(20_000, 2)
    local, globally = ds.stack(train, ds.LocalMixture()), ds.stack(train)
    assert "local weights beat global ones" in local.notes[0]
    assert gap_to_truth(local, test) < 0.1 * gap_to_truth(globally, test)


def test_local_weights_fall_back_where_global_ones_are_optimal():
    fit = ds.stack(two_sided(800, 1), ds.LocalMixture(hidden=(16,)))
    assert fit.form == ds.Mixture()
    assert "fell back to global weights" in fit.notes[0]
    np.testing.assert_allclose(fit.weights, ds.stack(two_sided(800, 1)).weights)


@pytest.mark.parametrize("weights", [(0.3, 0.7), (1.0, 0.0)])
def test_training_of_local_weights_starts_at_the_global_ones(weights):
    table, form = half_right(50, 2), ds.LocalMixture(hidden=(4,), epochs=0)
    start = _initial(form, table, np.array(weights), seed=0)
    training = _train(form, start, table, table, ds.LogScore())
    assert training.steps == 1
    np.testing.assert_allclose(
        form.gate(training.best, np.asarray(table.y)).numpy(), np.tile(weights, (50, 1)), rtol=1e-14
    )
    globally = ds.Mixture().combine(as_tensors({"weights": np.array(weights)}), table)
    assert training.loss == pytest.approx(float(ds.LogScore()(globally)), rel=1e-14)


def test_a_member_without_global_weight_can_gain_a_local_one():
    """A member that is right in a tenth of the rows only, and far worse than the other elsewhere."""
    rng = np.random.default_rng(3)
    y = rng.normal(size=(1500, 1))
    rare = y[:, 0] > norm.isf(0.1)
    log_q = np.stack([np.where(rare, -1.5, 0.0), np.where(rare, 0.0, -60.0)])
    table = ds.Table(y, y, log_q=log_q - 1e-3 * rng.normal(size=1500))
    form = ds.LocalMixture(hidden=(16,), learning_rate=0.03)
    start = _initial(form, table, np.array([1.0, 0.0]), seed=0)
    w = form.gate(_train(form, start, table, table, ds.LogScore()).best, y).numpy()
    assert w[rare, 1].mean() > 0.9
    assert w[~rare, 0].mean() > 0.9


def test_local_weights_are_not_believed_on_a_handful_of_rows():
    for seed in range(6):
        fit = ds.stack(ds.toy.table(40, seed=seed, draws=2), ds.LocalMixture(epochs=30), seed=seed)
        assert isinstance(fit.form, ds.Mixture)
        assert "too few to tell" in fit.notes[0]


def test_local_weights_can_use_an_embedding_of_the_data():
    rng = np.random.default_rng(0)
    hidden, test_hidden = half_right(1200, 3), half_right(4000, 4)

    class Sign(torch.nn.Module):
        """Finds the number that matters in an image."""

        def forward(self, image):
            return torch.sign(image[:, 1, 1:2])

    def drowned(table):
        image = rng.normal(size=(table.N, 3, 2))
        image[:, 1, 1] = table.y[:, 0]
        return ds.Table(table.theta, image, log_q=table.log_q, names=table.names)

    form = ds.LocalMixture(hidden=(8,), embedding=Sign(), learning_rate=0.03)
    fit = ds.stack(drowned(hidden), form)
    assert "beat" in fit.notes[0]
    gap = float(
        (norm.logpdf(test_hidden.theta, test_hidden.y)[:, 0] - fit.apply(drowned(test_hidden)).log_q).mean()
    )
    assert gap < 0.02


def test_a_local_mixture_survives_the_disk_and_works_at_new_data(tmp_path):
    table = half_right(600, 5)
    fit = ds.stack(table, ds.LocalMixture(hidden=(16,)))
    fit.save(tmp_path / "fit.json")
    again = ds.Stacking.load(tmp_path / "fit.json")
    np.testing.assert_array_equal(again.apply(table).log_q, fit.apply(table).log_q)

    class Shifted:
        def __init__(self, below, above):
            self.below, self.above = below, above

        def centre(self, y):
            return y + np.where(y < 0, self.below, self.above)

        def log_prob(self, theta, y):
            return norm.logpdf(theta, self.centre(y))[:, 0]

        def sample(self, n, y, seed=None):
            return self.centre(y) + np.random.default_rng(seed).normal(size=(n, *y.shape))

    posterior = again.posterior({"a": Shifted(0.0, 2.0), "b": Shifted(-2.0, 0.0)})
    np.testing.assert_allclose(
        posterior.log_prob_batched(table.theta, np.asarray(table.y))[0], fit.apply(table).log_q, atol=1e-9
    )
    draws = posterior.sample_batched((500,), np.array([[-1.5], [1.5]]), seed=1)
    np.testing.assert_allclose(draws.mean(0)[:, 0], [-1.5, 1.5], atol=0.25)


def test_local_weights_need_data(table):
    with pytest.raises(ValueError, match="need `y` in the table"):
        ds.stack(ds.Table(table.theta, log_q=table.log_q), ds.LocalMixture())


@pytest.mark.parametrize("structure", ["scalar", "diagonal", "full"])
def test_sample_aggregation_by_mean_score_is_least_squares(structure):
    table = make_table(K=3, N=80, d=2, seed=2, row_weights=True)
    fit = ds.stack(table, ds.SampleAggregation(structure), ds.MeanScore(scale=(2.0, 0.5)))
    assert fit.gap < 1e-12
    rng = np.random.default_rng(0)
    shape = {"scalar": np.eye(2), "diagonal": np.eye(2), "full": np.ones((2, 2))}[structure]
    for _ in range(100):
        change = 0.05 * rng.normal(size=(3, 1, 1) if structure == "scalar" else (3, 2, 2)) * shape
        offset, matrix = fit.params["offset"] + 0.05 * rng.normal(size=2), fit.params["matrix"] + change
        mean = offset + np.einsum("kij,knj->ni", matrix, table.mean)
        other = table.row_weights @ (((table.theta - mean) / (2.0, 0.5)) ** 2).sum(1)
        assert other >= fit.loss


def test_moments_of_aggregated_samples_are_those_of_their_draws():
    table = make_table(K=3, N=30, S=4000, d=2, seed=3)
    fit = ds.stack(table, ds.SampleAggregation("full"), ds.MomentScore())
    applied = fit.apply(table)
    draws = applied.draws(4000)
    np.testing.assert_allclose(draws.mean(1), applied.mean, atol=0.1)
    np.testing.assert_allclose(np.stack([np.cov(d.T) for d in draws]), applied.cov, atol=0.25)


@pytest.mark.parametrize(
    "score", [ds.MomentScore(), ds.EnergyScore(), ds.IntervalScore(), ds.EnergyScore() + ds.RankCvM()], ids=repr
)
def test_sample_aggregation_recovers_what_it_can_express(score):
    train, test = two_sided(1500, 1), two_sided(1500, 2)
    applied = ds.stack(train, ds.SampleAggregation(), score).apply(test)
    assert np.abs(applied.mean - test.y).mean() < 0.15
    assert applied.cov.mean() == pytest.approx(1, abs=0.15)


def test_sample_aggregation_against_a_critic_is_not_told_from_the_truth():
    train, test = two_sided(1200, 1), two_sided(1200, 2)
    fit = ds.stack(train, ds.SampleAggregation(), ds.JensenShannon())
    estimate = ds.JensenShannon().estimate(fit.view(test))
    assert abs(estimate.value) < 2 * estimate.se + 2e-3
    assert np.abs(fit.apply(test).mean - test.y).mean() < 0.15
    assert fit.apply(test).cov.mean() == pytest.approx(1, abs=0.15)
    assert "best member" in fit.notes[0]
    assert "uniform" in fit.notes[0]


def test_aggregated_samples_are_not_worse_than_doing_nothing_on_new_rows():
    gains = []
    for seed in range(12):
        train, test = make_table(K=4, N=600, S=30, d=2, seed=seed).split(0.25)
        fit = ds.stack(train, ds.SampleAggregation(), ds.EnergyScore())
        stacked = ds.compare(train, test, fit, metrics=[ds.Metric(ds.EnergyScore())]).results[0].methods["stacked"]
        gains.append([stacked.gain, stacked.gain_over_uniform])
        assert all(gain.value >= -3 * gain.se for gain in gains[-1]), seed
    assert all(np.mean([gain.value for gain in over]) > 0 for over in zip(*gains, strict=True))


def test_weights_by_moments_of_members_that_are_alike_cost_little_by_exact_moments():
    """By moments of draws uniform weights have the advantage of more draws; a posterior is not its draws."""
    K, N, fresh, S, d = 15, 200, 2000, 64, 3
    for seed in range(2):
        rng = np.random.default_rng(seed)
        y = 2 * rng.normal(size=(N + fresh, d))
        theta = y + rng.normal(size=y.shape)
        mean = y + 0.05 * rng.normal(size=(K, 1, d)) + 0.1 * rng.normal(size=(K, *y.shape))
        draws = mean[:, :N, None] + 1.05 * rng.normal(size=(K, N, S, d))
        fit = ds.stack(ds.Table(theta[:N], y[:N], draws=draws), score=ds.MomentScore())
        cov = np.tile(1.05**2 * np.eye(d), (K, fresh, 1, 1))
        exact = ds.Table(theta[N:], y[N:], mean=mean[:, N:], cov=cov)
        losses = [stack.evaluate(exact, fit.score)["loss"] for stack in (fit, ds.Stacking.uniform(fit.names))]
        assert (losses[0] - losses[1]) / 2 < 0.01  # a nat is two of this score


@pytest.mark.parametrize("score", [ds.MomentScore(), ds.EnergyScore()], ids=repr)
def test_aggregated_samples_are_fitted_to_all_rows(score):
    """The optimum of a third more rows: on its own rows no fit to three quarters of them is as good."""
    table = make_table(K=2, N=400, S=30, d=2, seed=4)
    everything = ds.stack(table, ds.SampleAggregation("diagonal", holdout=0), score)
    assert everything.converged
    rows = ds.stack(table.split(0.75, 0)[0], ds.SampleAggregation("diagonal", holdout=0), score)
    assert everything.loss < rows.evaluate(table)["loss"]
    stopped = ds.stack(table, ds.SampleAggregation("diagonal"), score)
    assert "then fitted to all rows" in stopped.notes[0]
    assert stopped.loss < rows.evaluate(table)["loss"] + 0.01 * abs(everything.loss)


def test_aggregated_samples_at_new_data_have_no_density():
    fit = ds.stack(two_sided(400, 1), ds.SampleAggregation("diagonal"), ds.EnergyScore())
    posterior = fit.posterior({"right": ds.toy.Gaussian(1.0, 1.0), "left": ds.toy.Gaussian(-1.0, 1.0)})
    draws = posterior.sample_batched((2000,), np.array([[0.5], [-2.0]]), seed=1)
    np.testing.assert_allclose(draws.mean(0)[:, 0], [0.5, -2.0], atol=0.35)
    with pytest.raises(ds.IntractableError, match="no density"):
        posterior.log_prob(np.zeros((2, 1)), np.zeros(1))


def test_jensen_shannon_matches_its_value_by_quadrature():
    test = two_sided(2500, 7)
    fit = ds.stack(two_sided(300, 1))
    weights = {"right": 1.0, "left": 0.0}
    alone = ds.Stacking(**{**vars(fit), "params": {"weights": np.array(list(weights.values()))}})
    estimate = ds.JensenShannon().estimate(alone.view(test))
    t = np.linspace(-8, 9, 4001)
    p, q = norm.pdf(t), norm.pdf(t, 1)
    m = (p + q) / 2
    exact = np.trapezoid(p * np.log(p / m) + q * np.log(q / m), t) / 2
    assert abs(estimate.value - exact) < 3 * estimate.se + 0.005


def test_jensen_shannon_of_a_mixture_finds_the_member_that_is_right():
    rng = np.random.default_rng(3)
    y = rng.normal(size=(800, 1))
    theta = y + rng.normal(size=(800, 1))
    draws = np.stack([y[:, None] + shift + rng.normal(size=(800, 40, 1)) for shift in (1.5, 0.0, -1.5)])
    fit = ds.stack(
        ds.Table(theta, y, draws=draws), ds.Mixture(), ds.JensenShannon(), solver=ds.solvers.Minimax(rounds=150)
    )
    assert fit.weights[1] > 0.85


def test_jensen_shannon_needs_data_and_rows(table):
    bare = ds.Table(table.theta, draws=table.draws)
    with pytest.raises(ValueError, match=r"needs `y` in the table"):
        ds.stack(bare, ds.Mixture(), ds.JensenShannon())
    with pytest.raises(ValueError, match="needs some tens of rows"):
        ds.stack(table.select(rows=slice(0, 15)), ds.Mixture(), ds.JensenShannon())


def test_quantiles_of_a_mixture_agree_with_its_distribution_function():
    table = ds.toy.table(40, seed=1, draws=4000)
    fit = ds.stack(table, ds.Mixture(concentration=20.0))
    interval = fit.apply(table).interval(0.2)

    def cdf(t):
        return sum(
            w * norm.cdf(t, m.shift, m.sd) for w, m in zip(fit.weights, ds.toy.MEMBERS.values(), strict=True)
        )

    exact = [root_scalar(lambda t, p=p: cdf(t) - p, bracket=(-20, 20)).root for p in (0.1, 0.9)]
    np.testing.assert_allclose((interval[:, 0] - table.y).mean(0), exact, atol=0.05)


def test_quantiles_of_a_mixture_from_tabulated_levels_agree_with_those_from_draws():
    table = ds.toy.table(40, seed=1, draws=4000)
    levels = (np.arange(40) + 0.5) / 40
    tabulated = ds.Table(
        table.theta, quantiles={level: table.quantile(level) for level in levels}, names=table.names
    )
    fit = ds.stack(table)
    np.testing.assert_allclose(fit.apply(tabulated).interval(0.2), fit.apply(table).interval(0.2), atol=0.1)
    few = ds.Table(table.theta, quantiles={0.05: table.mean, 0.95: table.mean}, names=table.names)
    with pytest.raises(ValueError, match="9 levels or more"):
        fit.apply(few).interval(0.1)


def test_the_interval_score_of_a_mixture_is_no_worse_than_any_member_or_uniform():
    table = ds.toy.table(200, seed=4, draws=100)
    fit = ds.stack(table, ds.Mixture(), ds.IntervalScore(0.1))
    for weights in [*np.eye(4), np.full(4, 0.25)]:
        view = ds.Mixture().combine({"weights": torch.tensor(weights)}, table)
        assert fit.loss <= float(ds.IntervalScore(0.1)(view)) + 1e-6


def test_stacking_near_an_observation_prefers_who_is_right_there():
    table = half_right(3000, 8)
    left, right = (ds.stack(table, at=[y], bandwidth=0.3) for y in (-1.0, 1.0))
    assert left.weights[0] > 0.9
    assert right.weights[1] > 0.9
    assert "effective rows of 3000 near `at`" in left.notes[0]
    assert "750 effective rows" in ds.stack(table, at=[-1.0]).notes[0]


def test_stacking_near_an_observation_says_when_nothing_is_near(table):
    with pytest.raises(ValueError, match="effective rows are near `at`"):
        ds.stack(table, at=[0.0, 0.0, 0.0], bandwidth=1e-3)
    with pytest.raises(ValueError, match=r"shape of a row of y, \(3,\); got \(2,\)"):
        ds.stack(table, at=[0.0, 0.0])
    with pytest.raises(ValueError, match="`bandwidth` goes with `at`"):
        ds.stack(table, bandwidth=1.0)


def test_tuning_picks_the_strength_with_the_least_metric():
    table = ds.toy.table(400, seed=2)
    tuned = ds.tune(table, lambda lam: ds.LogScore() + lam * ds.RankMoments(), [0.0, 1.0, 1000.0], folds=4)
    frame = tuned.frame
    assert tuned.value == frame["value"][frame["metric"].argmin()]
    assert tuned.value < 1000  # so much weight on ranks costs log score
    assert repr(tuned.fit.score) == repr(ds.LogScore() + tuned.value * ds.RankMoments())
    with pytest.raises(ValueError, match="`folds` must be between 2"):
        ds.tune(table, lambda lam: ds.LogScore(), [1.0], folds=1)
    with pytest.raises(ValueError, match="at least one value"):
        ds.tune(table, lambda lam: ds.LogScore(), [])


def test_dropped_members_take_no_part_in_any_form():
    table = make_table(K=4, N=60, seed=9)
    draws = table.draws.copy()
    draws[2, 7] = np.nan
    spoiled = ds.Table(table.theta, table.y, draws=draws)
    for form, score in (
        (ds.SampleAggregation(), ds.EnergyScore()),
        (ds.IntervalAggregation(), ds.IntervalScore()),
    ):
        fit = ds.stack(spoiled, form, score, nonfinite="drop")
        assert fit.dropped["members"] == ["member_2"]
        used, _ = fit.form.active_members(fit.params)
        assert 2 not in used
        assert np.isfinite(fit.evaluate(spoiled)["loss"])


@pytest.mark.filterwarnings("ignore:ranks alone")
@pytest.mark.parametrize("score", [ds.RankCvM, ds.RankMoments])
def test_sample_aggregation_by_ranks_of_a_quantity_that_is_the_parameter_is_by_its_ranks(score):
    table = two_sided(300, 3, S=40)
    form, quantity = ds.SampleAggregation("scalar"), lambda theta, y: 3 * theta[..., 0] - 7
    of_parameter, of_quantity = ds.stack(table, form, score()), ds.stack(table, form, score(statistic=quantity))
    assert of_quantity.evaluate(table, score())["loss"] == pytest.approx(of_quantity.loss, rel=1e-9)
    assert of_quantity.loss == pytest.approx(of_parameter.loss, abs=2e-4)  # 0.02 and more for a member alone


def test_ranks_of_a_quantity_have_the_slope_of_their_finite_differences():
    def quantity(theta, y):
        return theta[..., 0] * theta[..., 1] + np.exp(theta[..., 0]) * y[:, 0]

    table, form = make_table(K=3, N=23, S=11, d=2), ds.SampleAggregation()
    rng = np.random.default_rng(0)
    params = {"offset": rng.normal(size=2), "matrix": rng.normal(size=(3, 2, 2))}

    def score(moved):
        view = form.combine(moved, table, torch.full((2,), 0.1, dtype=torch.float64))
        return ds.RankMoments(statistic=quantity)(view)

    tensors = {name: value.requires_grad_() for name, value in as_tensors(params).items()}
    slopes = torch.autograd.grad(score(tensors), list(tensors.values()))
    for name, slope in zip(params, slopes, strict=True):
        direction = rng.normal(size=params[name].shape)
        ends = [float(score(as_tensors({**params, name: params[name] + h * direction}))) for h in (1e-5, -1e-5)]
        assert float((slope.numpy() * direction).sum()) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4)


@pytest.mark.filterwarnings("ignore:ranks alone")
def test_sample_aggregation_calibrates_a_quantity_of_interest():
    def radius(theta, y):
        return np.linalg.norm(theta - y, axis=-1)

    def too_wide(N, seed):
        """True posterior N(y, I) in the plane; the members are too wide, and off to opposite sides."""
        rng = np.random.default_rng(seed)
        y = rng.normal(size=(N, 2))
        draws = [y[:, None] + shift + 2 * rng.normal(size=(N, 64, 2)) for shift in (0.5, -0.5)]
        return ds.Table(y + rng.normal(size=(N, 2)), y, draws=np.stack(draws))

    train, test = too_wide(400, 1), too_wide(2000, 2)
    fit = ds.stack(train, ds.SampleAggregation("scalar"), ds.RankCvM(statistic=radius))
    alone = ds.Stacking.single(test.names, 0).evaluate(test, ds.RankCvM(statistic=radius))["loss"]
    assert fit.evaluate(test)["loss"] < 0.05 * alone


def test_a_quantity_of_the_wrong_shape_is_refused(table):
    score = ds.LogScore() + ds.RankMoments(statistic=lambda theta, y: theta)
    with pytest.raises(ValueError, match=r"`statistic` must map theta \(..., N, d\) and y to \(..., N\)"):
        ds.stack(table, score=score)


def test_every_form_checks_its_options():
    with pytest.raises(ValueError, match="one of scalar, diagonal, full, auto; got 'banded'"):
        ds.SampleAggregation("banded")
    with pytest.raises(ValueError, match="`concentration` must be ≥ 1"):
        ds.Mixture(0.5)
    for form in (ds.SampleAggregation, ds.LocalMixture):
        with pytest.raises(ValueError, match=r"`holdout` must be in [\(\[]0, 1\)"):
            form(holdout=1.0)


def test_local_weights_win_where_global_ones_leave_a_row_unexplained():
    rng = np.random.default_rng(1)
    y = rng.normal(size=(400, 1))
    log_q = np.where((y[:, 0] < 0) == np.array([[True], [False]]), -1.0, -np.inf)
    fit = ds.stack(ds.Table(y, y, log_q=log_q), ds.LocalMixture(hidden=(16,), learning_rate=0.03))
    assert fit.form != ds.Mixture()


def test_local_weights_by_ranks_need_more_than_luck():
    kept = 0
    for seed in range(6):
        table = ds.toy.table(240, seed=seed, draws=60)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = ds.stack(table, ds.LocalMixture(hidden=(8,), epochs=60), ds.RankCvM())
        kept += isinstance(fit.form, ds.LocalMixture)
    assert kept <= 2


def test_intervals_are_asked_for_by_miscoverage(table):
    applied = ds.stack(table).apply(table)
    with pytest.raises(ValueError, match=r"Did you mean alpha=0.1"):
        applied.interval(90)
    np.testing.assert_array_equal(applied.interval(1 - 0.9), applied.interval(0.1))


def test_levels_are_the_same_however_they_are_computed(table):
    fit = ds.stack(table, ds.IntervalAggregation(1 - 0.9), ds.IntervalScore(0.1))
    frame = ds.compare(table, table, {"ends": fit}).frame
    assert "ends" in set(frame["method"])
