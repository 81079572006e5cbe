"""Linear trends of data in θ: regressions against known slopes, likelihoods with a trend against quadrature."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import drystone as ds
from drystone.training.trend import Trend

PLAIN = ds.Configuration(
    "maf", transforms=2, units=12, layers=1, activation="tanh", learning_rate=3e-3, ema_decay=0.5
)
WITH_TREND = replace(PLAIN, trend=True)
PRIOR = ds.tasks.Uniform([-3.0, 1.0], [3.0, 5.0])


def inputs(n, d, seed):
    return np.random.default_rng(seed).uniform(-1.7, 1.7, (n, d))


def line(theta):
    return 20 * theta[:, :1] - 7 * theta[:, 1:]


def simulations(n, seed):
    """One column on a line, with noise that grows with θ; one that bends; one that says nothing."""
    rng = np.random.default_rng(seed)
    theta = PRIOR.sample(n, rng)
    noise = rng.normal(size=(n, 3))
    return theta, np.column_stack(
        [line(theta) + theta[:, 1:] * noise[:, :1], theta[:, 0] ** 2 + 0.3 * noise[:, 1], noise[:, 2]]
    )


def trained(configuration, n=1000, **options):
    return ds.train(
        *simulations(n, 1), target="likelihood", prior=PRIOR, sweep=[configuration], epochs=20, workers=1,
        progress=False, **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def member():
    return trained(WITH_TREND)[0]


def test_slopes_are_found_in_noise_that_depends_on_the_inputs_and_the_others_are_zero():
    c = inputs(5000, 4, 1)
    noise = np.exp(1.5 * c[:, 2]) * np.random.default_rng(2).normal(size=5000)
    trend = Trend.fit((0.8 * c[:, 0] - 0.3 * c[:, 3] + 0.5 + noise)[:, None], c)
    ordinary = np.linalg.lstsq(np.column_stack([np.ones(5000), c]), 0.8 * c[:, 0] - 0.3 * c[:, 3] + noise)[0]
    np.testing.assert_allclose(trend.matrix, [[0.8, 0, 0, -0.3]], atol=0.02)
    np.testing.assert_allclose(trend.shift, [0.5], atol=0.02)
    # Least squares without weights has several times that error.
    assert np.abs(ordinary[1:] - [0.8, 0, 0, -0.3]).max() > 0.03


@pytest.mark.parametrize(
    "mean",
    [lambda c: c[:, 0] ** 2, lambda c: np.abs(c[:, 0]), lambda c: c[:, 0] * c[:, 1], lambda c: 0 * c[:, 0]],
    ids=["square", "absolute value", "product", "nothing"],
)
def test_a_column_whose_mean_is_no_line_has_no_trend(mean):
    c = inputs(2000, 2, 3)
    noise = np.random.default_rng(4).normal(size=2000)
    assert Trend.fit((mean(c) + noise)[:, None], c) is None
    beside = Trend.fit(np.column_stack([mean(c) + noise, c[:, 1] + noise]), c)
    np.testing.assert_array_equal(beside.matrix[0], 0)
    assert (beside.shift[0], beside.scale[0]) == (0, 1)
    np.testing.assert_allclose(beside.matrix[1], [0, 1], atol=0.1)


def test_rows_may_be_in_order(monkeypatch):
    monkeypatch.setattr("drystone.training.trend.MOST_ROWS", 1000)
    c = np.sort(inputs(2000, 1, 3), 0)
    z = np.maximum(c, np.median(c)) + 0.1 * np.random.default_rng(4).normal(size=c.shape)
    assert Trend.fit(z[1000:], c[1000:]) is not None  # a line, in this half alone
    assert Trend.fit(z[::-1], c[::-1]) is None


def test_a_column_without_noise_and_a_table_with_few_rows_have_no_trend():
    c = inputs(500, 3, 5)
    assert Trend.fit(c[:, :1] - 2 * c[:, 1:2], c) is None
    noisy = c[:, :1] + 0.1 * np.random.default_rng(6).normal(size=(500, 1))
    assert Trend.fit(noisy, c) is not None
    assert Trend.fit(noisy[:60], c[:60]) is None  # fewer than ten rows for each of seven coefficients


def test_a_trend_is_taken_away_and_put_back_with_its_jacobian():
    rng = np.random.default_rng(7)
    trend = Trend(rng.normal(size=(3, 2)), rng.normal(size=3), rng.uniform(0.5, 2, 3))
    z, c = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    x = trend.apply(z, c)
    np.testing.assert_allclose(trend.invert(x, c), z)
    np.testing.assert_allclose(trend.apply(z[:1], c), trend.apply(np.tile(z[:1], (5, 1)), c))
    step = 1e-6
    jacobian = np.stack([(trend.apply(z + step * e, c) - x) / step for e in np.eye(3)], 2)
    np.testing.assert_allclose(np.linalg.slogdet(jacobian)[1], trend.log_det, rtol=1e-6)


def test_a_likelihood_takes_away_the_trend_of_the_columns_that_have_one(member):
    assert member.trend.matrix.any(1).tolist() == [True, False, False]
    # In the units of the simulations the slopes are those of the simulator.
    slopes = member.trend.matrix[0] * member.features.scaling.scale[0] / member.condition.scaling.scale
    np.testing.assert_allclose(slopes, [20, -7], rtol=0.02)
    assert trained(PLAIN)[0].trend is None


def test_a_likelihood_with_a_trend_is_normalized_and_draws_what_its_density_says(member):
    theta = np.array([[1.0, 2.0]])
    simulated = member.simulate(np.repeat(theta, 20_000, 0), seed=1)
    # Integrated over the first column, with the others at a point of their own.
    y = np.linspace(simulated[:, 0].min() - 20, simulated[:, 0].max() + 20, 4001)
    rows = np.column_stack([y, np.full_like(y, 1.0), np.zeros_like(y)])
    joint = np.trapezoid(np.exp(member.log_likelihood(np.repeat(theta, len(y), 0), rows)), y)
    near = (np.abs(simulated[:, 1] - 1.0) < 0.1) & (np.abs(simulated[:, 2]) < 0.2)
    share = near.mean() / (0.2 * 0.4)
    np.testing.assert_allclose(joint, share, rtol=0.15)
    np.testing.assert_allclose(simulated[:, 0].mean(), line(theta)[0, 0], atol=1.0)


def test_losses_are_in_the_units_of_members_without_a_trend(member):
    theta, y = simulations(1000, 1)
    held_out = ds.train(
        theta[:800], y[:800], target="likelihood", prior=PRIOR, sweep=[WITH_TREND], epochs=5, workers=1,
        validation=(theta[800:], y[800:]), progress=False,
    )[0]  # fmt: skip
    log_q = held_out.log_likelihood(theta[800:], y[800:]).mean()
    loss = held_out.history.validation[held_out.history.best_epoch - 1]
    np.testing.assert_allclose(-loss, log_q - held_out.features.scaling.log_det, atol=1e-4)


def test_a_mean_on_a_line_takes_few_simulations_with_a_trend():
    theta, y = simulations(2000, 2)
    exact = stats.norm.logpdf(y[:, 0], line(theta)[:, 0], theta[:, 1])
    gaps = {}
    for configuration in (PLAIN, WITH_TREND):
        first, last = simulations(300, 3)
        one = ds.train(
            first, last[:, :1], target="likelihood", prior=PRIOR, sweep=[configuration], epochs=100, workers=1,
            progress=False,
        )[0]  # fmt: skip
        gaps[configuration.trend] = (exact - one.log_likelihood(theta, y[:, :1])).mean()
    assert 0 < gaps[True] < 0.5 * gaps[False]


def test_where_no_column_has_a_trend_members_are_the_same_to_the_bit():
    theta, y = simulations(400, 4)
    options = {"target": "likelihood", "prior": PRIOR, "epochs": 2, "workers": 1, "progress": False}
    plain, trend = (ds.train(theta, y[:, 1:], sweep=[c], **options)[0] for c in (PLAIN, WITH_TREND))
    assert trend.trend is None
    np.testing.assert_array_equal(plain.flow.parameters, trend.flow.parameters)


def test_a_trend_survives_files_and_refitting(member, tmp_path):
    theta, y = simulations(1000, 1)
    ensemble = trained(WITH_TREND, directory=tmp_path)
    loaded = ds.Ensemble.load(tmp_path)
    np.testing.assert_array_equal(loaded[0].trend.matrix, member.trend.matrix)
    np.testing.assert_array_equal(loaded[0].log_likelihood(theta, y), member.log_likelihood(theta, y))
    again = ensemble.refit(theta, y, workers=1, progress=False)[0]
    np.testing.assert_array_equal(again.trend.matrix, member.trend.matrix)
    assert again.log_likelihood(theta, y).mean() > member.log_likelihood(theta, y).mean() - 0.1


def test_default_likelihoods_have_trends():
    assert ds.Sweep.likelihood().trend
    assert not any(sweep.trend for sweep in ds.Sweep.posterior())


def test_what_is_left_is_standardized_but_heavy_tails_are_not_stretched_beyond_where_splines_end():
    c, rng = inputs(3000, 1, 8), np.random.default_rng(9)
    noise = [rng.normal(size=3000), rng.standard_t(4, 3000), 3 * rng.standard_t(2, 3000)]
    y = np.column_stack([c[:, 0] + 0.1 * of for of in noise])
    z = (y - y.mean(0)) / y.std(0)
    trend = Trend.fit(z, c)
    x = trend.apply(z, c)
    np.testing.assert_allclose(x[:, 0].std(), 1)
    np.testing.assert_allclose(np.abs(x[:, 1]).max(), 5)
    assert x[:, 1].std() < 0.8
    # The last has rows that are farther out in z already: it is not stretched at all.
    assert np.abs(z[:, 2]).max() > 5
    assert trend.scale[2] == 1


def test_a_column_that_is_drawn_in_on_both_sides_has_no_trend():
    theta = PRIOR.sample(2000, np.random.default_rng(10))
    y = theta[:, :1] + np.random.default_rng(11).standard_cauchy((2000, 1))
    options = {"target": "likelihood", "prior": PRIOR, "epochs": 1, "workers": 1, "progress": False}
    drawn_in = ds.train(theta, y, sweep=[WITH_TREND], **options)[0]
    assert drawn_in.features.warp.asinh.all()
    assert drawn_in.trend is None
    scores = drawn_in.features.apply(y)[0]  # as the flow sees them they have one
    assert Trend.fit(scores, drawn_in.condition(theta)) is not None
