"""Tests for drystone.comparison."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import drystone as ds
from drystone.comparison import COVERAGE_ERROR, INTERVAL_SCORE, LOG_DENSITY, RANK_DISTANCE
from drystone.comparison.methods import drawn
from drystone.forms.independent import MomentStandIns, QuantileStandIns, row_keys
from drystone.table.statistics import quantile
from helpers.tables import make_table


@pytest.fixture(scope="module")
def comparison():
    return ds.compare(ds.toy.table(800, seed=1), ds.toy.table(900, seed=2))


def cell(comparison, metric, method):
    frame = comparison.frame
    (row,) = frame[(frame["metric"] == metric) & (frame["method"] == method)].to_dict("records")
    return row


def test_values_are_those_of_the_test_rows(comparison):
    test, fit = ds.toy.table(900, seed=2), comparison.fits["stacked"]
    assert cell(comparison, "log density", "stacked")["value"] == pytest.approx(fit.apply(test).log_q.mean())
    uniform = np.log(np.exp(test.log_q).mean(0))
    assert cell(comparison, "log density", "uniform")["value"] == pytest.approx(uniform.mean())
    lower, upper = quantile(fit.view(test).independent_draws().numpy(), [0.05, 0.95], 1)
    error = np.abs(np.mean((lower <= test.theta) & (test.theta <= upper)) - 0.9)
    assert cell(comparison, "90% coverage error", "stacked")["value"] == pytest.approx(error)


def test_gains_are_paired(comparison):
    test, fit = ds.toy.table(900, seed=2), comparison.fits["stacked"]
    row = cell(comparison, "log density", "stacked")
    best = cell(comparison, "log density", "best")["member"]
    difference = fit.apply(test).log_q - test.log_q[list(test.names).index(best)]
    assert row["gain"] == pytest.approx(difference.mean())
    assert row["gain_se"] == pytest.approx(difference.std() / np.sqrt(900))
    assert row["gain_se"] < row["se"] + cell(comparison, "log density", "best")["se"]


def test_the_best_member_is_chosen_for_each_metric_on_validation_rows(comparison):
    validation = ds.toy.table(800, seed=1)
    by_density = validation.names[int(validation.log_q.mean(1).argmax())]
    assert cell(comparison, "log density", "best")["member"] == by_density
    error = (validation.theta - validation.mean) ** 2
    variance = np.diagonal(validation.cov, axis1=2, axis2=3)
    by_moments = validation.names[int((np.log(variance) + error / variance).mean((1, 2)).argmin())]
    assert cell(comparison, "moment error", "best")["member"] == by_moments


def test_standard_errors_match_the_spread_over_repetitions():
    validation = ds.toy.table(300, seed=1, draws=60)
    fit = ds.stack(validation)
    tables = [ds.toy.table(300, seed=100 + i, draws=60) for i in range(60)]
    runs = [ds.compare(validation, table, fit) for table in tables]
    for metric in ("log density", "rank distance D", "90% coverage error", "energy score"):
        values = [cell(run, metric, "uniform")["value"] for run in runs]
        claimed = np.mean([cell(run, metric, "uniform")["se"] for run in runs])
        assert 0.6 < claimed / np.std(values, ddof=1) < 1.7, metric


def test_rank_distance_is_printed_beside_its_noise_floor(comparison):
    floor = cell(comparison, "rank distance D", "stacked")["floor"]
    S = ds.toy.table(900, seed=2).S
    assert floor == pytest.approx(1 / (6 * 900), rel=2 / S + 900 / S**2)
    assert floor > 1 / (6 * 900)
    assert "calibrated ≈ 0.00019" in str(comparison)


def test_the_printed_table_names_methods_and_directions(comparison):
    text = str(comparison)
    for words in (
        "log density (higher is better)",
        "best (",
        "uniform",
        "stacked",
        "gain over best",
        "900 test rows",
    ):
        assert words in text


def test_several_fits_can_be_compared_and_names_may_not_clash(table):
    test = make_table(seed=1)
    fits = {"log": ds.stack(table), "energy": ds.stack(table, score=ds.EnergyScore())}
    methods = set(ds.compare(table, test, fits).frame["method"])
    assert methods == {"best", "uniform", "log", "energy"}
    with pytest.raises(ValueError, match=r"may not be called \['best'\]"):
        ds.compare(table, test, {"best": fits["log"]})
    with pytest.raises(ValueError, match="same members"):
        ds.compare(table.select(members=[0, 1]), test)


def test_test_rows_that_are_validation_rows_are_counted():
    table = ds.toy.table(60, seed=1)
    first, second = table.split(0.5, seed=0)
    assert ds.compare(first, second).untouched
    assert not ds.compare(first, first).untouched
    with pytest.warns(UserWarning, match="30 of 60 test rows are validation rows"):
        assert not ds.compare(first, table).untouched
    repeated = ds.Table(np.round(table.theta), table.y, log_q=table.log_q)  # others with the same parameters
    assert ds.compare(*repeated.split(0.5, seed=0)).untouched


def test_one_test_row_gives_values_without_standard_errors():
    frame = ds.compare(ds.toy.table(60, seed=1), ds.toy.table(5, seed=2).select(rows=[3])).frame
    assert np.isfinite(frame["value"]).all()
    assert frame[["se", "gain_se", "gain_over_uniform_se"]].isna().to_numpy().all()


def test_metrics_that_the_tables_cannot_give_are_left_out(table):
    densities = ds.Table(table.theta, log_q=table.log_q)
    assert set(ds.compare(densities, densities).frame["metric"]) == {"log density"}
    draws = ds.Table(table.theta, draws=table.draws)
    assert "log density" not in set(ds.compare(draws, draws).frame["metric"])


def test_compare_leaves_out_what_tables_and_forms_cannot_give():
    table, test = make_table(N=120), make_table(N=90, seed=1)
    few = [
        ds.Table(t.theta, quantiles={q: t.quantile(q) for q in (0.05, 0.95)}, rank=t.rank) for t in (table, test)
    ]
    fit = ds.stack(few[0], ds.IntervalAggregation(), ds.IntervalScore())
    comparison = ds.compare(few[0], few[1], fit)
    # Quantiles at two levels are ends of members, and of aggregated intervals, but not of a mixture; whether the
    # truth lies between the mixture's is known from its ranks.
    assert set(comparison.of("90% interval score").methods) == {"best", "uniform ends", "stacked"}
    assert "9 levels or more" in comparison.of("90% interval score").skipped["uniform"]
    assert set(comparison.of("90% coverage error").methods) == {"best", "uniform", "uniform ends", "stacked"}
    assert "90% interval score" in ds.compare(few[0], few[1], ds.Stacking.uniform(table.names)).skipped
    other = ds.stack(table, ds.IntervalAggregation(0.2), ds.IntervalScore(0.2))
    frame = ds.compare(table, test, {"log": ds.stack(table), "intervals": other}).frame
    assert "intervals" not in set(frame["method"])
    with pytest.raises(TypeError, match="`fits` must be a Stacking or a mapping"):
        ds.compare(table, test, [fit])  # pyright: ignore[reportArgumentType]


def test_standard_errors_of_ranks_respect_row_weights():
    rng = np.random.default_rng(0)
    values, claimed = [], []
    for seed in range(40):
        plain = ds.toy.table(200, seed=seed, draws=40)
        weights = np.exp(1.0 * rng.normal(size=200))
        table = ds.Table(plain.theta, rank=plain.rank, log_q=plain.log_q, row_weights=weights, names=plain.names)
        frame = ds.compare(table, table).frame
        rows = frame[(frame["metric"] == "rank distance D") & (frame["method"] == "uniform")].iloc[0]
        values.append(rows["value"])
        claimed.append(rows["se"])
    assert 0.5 < np.mean(claimed) / np.std(values) < 2


def test_metrics_that_could_not_be_judged_are_named(table):
    densities = ds.Table(table.theta, log_q=table.log_q)
    assert "Skipped: rank distance D" in str(ds.compare(densities, densities))


def test_the_frame_is_derived_from_the_objects(comparison):
    frame = comparison.frame
    lines = [(result, line) for result in comparison.results for line in result.methods.values()]
    assert len(frame) == len(lines)
    assert list(frame.columns) == [
        "metric", "method", "member", "value", "se", "gain", "gain_se",
        "gain_over_uniform", "gain_over_uniform_se", "floor", "better",
    ]  # fmt: skip
    for row, (result, line) in zip(frame.to_dict("records"), lines, strict=True):
        assert (row["metric"], row["method"], row["better"]) == (
            result.metric.name, line.method, result.metric.better,
        )  # fmt: skip
        assert (row["value"], row["se"]) == (line.value.value, line.value.se)
        for column, gain in (("gain", line.gain), ("gain_over_uniform", line.gain_over_uniform)):
            if gain is None:
                assert np.isnan([row[column], row[f"{column}_se"]]).all()
            else:
                assert (row[column], row[f"{column}_se"]) == (gain.value, gain.se)
        assert row["member"] == (result.best if line.method == "best" else "")
        assert np.isnan(row["floor"]) if result.floor is None else row["floor"] == result.floor


def test_results_are_looked_up_by_metric_or_name(comparison):
    assert comparison.of(RANK_DISTANCE) is comparison.of("rank distance D")
    assert RANK_DISTANCE in comparison
    assert "beauty" not in comparison
    with pytest.raises(ValueError, match="unknown `metric` 'beauty'; the comparison has: log density, rank"):
        comparison.of("beauty")
    assert comparison.best == comparison.of(LOG_DENSITY).best


@dataclass(frozen=True, repr=False)
class AbsoluteError(ds.RowScore):
    """Mean absolute error of the posterior mean."""

    needs: ClassVar = frozenset({"mean"})

    def rows(self, q):
        return (q.theta - q.mean()).abs().mean(1)


@dataclass(frozen=True, repr=False)
class LargestError(ds.Score):
    """Largest error of the posterior mean among rows that have weight: not a mean over rows."""

    needs: ClassVar = frozenset({"mean"})

    def __call__(self, q):
        return ((q.theta - q.mean()).abs().mean(1) * (q.row_weights > 0)).max()


def test_a_score_of_the_users_own_becomes_a_metric():
    validation, test = ds.toy.table(300, seed=1), ds.toy.table(200, seed=2)
    metrics = (ds.Metric(AbsoluteError()), ds.Metric(LargestError(), "largest error"))
    comparison = ds.compare(validation, test, metrics=metrics)
    by_row = np.abs(test.theta - test.mean).mean(2)
    best = int(np.abs(validation.theta - validation.mean).mean((1, 2)).argmin())
    line = comparison.of("AbsoluteError()").methods["best"]
    assert line.member == test.names[best]
    assert line.value.value == pytest.approx(by_row[best].mean())
    assert line.value.se == pytest.approx(by_row[best].std() / np.sqrt(test.N))
    largest = comparison.of("largest error")
    assert largest.metric.better == "lower"
    draws = ds.Stacking.uniform(test.names).view(test).independent_draws().numpy()
    uniform = np.abs(test.theta - draws.mean(1)).mean(1)
    assert largest.methods["uniform"].value.value == pytest.approx(uniform.max())
    # A half-sample misses the worst row with probability 1/2: so there is a spread, and it is no mean's.
    assert largest.methods["uniform"].value.se > 0


def test_a_metric_of_which_higher_is_better_prints_the_negative_score(comparison):
    validation, test = ds.toy.table(300, seed=1), ds.toy.table(200, seed=2)
    lower, higher = ds.Metric(ds.LogScore(), "lower"), ds.Metric(ds.LogScore(), "higher", higher_is_better=True)
    results = ds.compare(validation, test, metrics=(lower, higher))
    a, b = (results.of(metric).methods["stacked"] for metric in (lower, higher))
    assert a.value.value == -b.value.value
    assert a.gain == b.gain


def test_sums_of_scores_are_metrics():
    validation, test = ds.toy.table(300, seed=1, draws=40), ds.toy.table(200, seed=2, draws=40)
    by_row, by_sample = ds.LogScore() + ds.EnergyScore(), ds.EnergyScore() + 10 * ds.RankCvM()
    comparison = ds.compare(validation, test, metrics=[ds.Metric(by_row), ds.Metric(by_sample)])
    fit = comparison.fits["stacked"]
    for score in (by_row, by_sample):
        found = comparison.of(repr(score)).methods["stacked"].value
        assert found.value == pytest.approx(float(score(drawn(fit, test))))
        assert 0 < found.se < 1


def test_metrics_must_be_scores_with_names_of_their_own(table):
    with pytest.raises(TypeError, match="`score` must be a Score; got str"):
        ds.Metric("log")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"must be unique; duplicated: LogScore\(\)"):
        ds.compare(table, table, metrics=(ds.Metric(ds.LogScore()), ds.Metric(ds.LogScore())))


def test_fits_that_a_metric_cannot_compare_are_listed_with_the_reason():
    table, test = make_table(N=120), make_table(N=90, seed=1)
    other = ds.stack(table, ds.IntervalAggregation(0.2), ds.IntervalScore(0.2))
    comparison = ds.compare(table, test, {"intervals": other})
    assert comparison.of(INTERVAL_SCORE).skipped == {
        "intervals": "intervals were fitted at alpha = 0.2, not 0.1; stack at that level."
    }
    assert comparison.of(LOG_DENSITY).skipped == {
        "intervals": "IntervalAggregation does not give log_q on these rows."
    }


def test_statistics_of_a_resampled_metric_are_computed_once(monkeypatch):
    validation, test = ds.toy.table(100, seed=1, draws=30), ds.toy.table(100, seed=2, draws=30)
    fit, calls = ds.stack(validation, ds.SampleAggregation("diagonal"), ds.EnergyScore()), []
    view = type(fit.view(test))
    draws = view.independent_draws
    monkeypatch.setattr(view, "independent_draws", lambda self, *rest: calls.append(1) or draws(self, *rest))
    ds.compare(validation, test, fit)
    assert len(calls) == 1


@pytest.mark.parametrize("S", [10, 20, 50, 100])
def test_one_members_intervals_aggregated_with_weight_one_are_its_own(S):
    tables = []
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        y = rng.normal(size=(300, 1))
        draws = y[None, :, None] + rng.normal(size=(1, 300, S, 1))
        tables.append(ds.Table(y + rng.normal(size=(300, 1)), y, draws=draws))
    fit = ds.stack(tables[0], ds.IntervalAggregation(0.1, weights="convex"), ds.IntervalScore(0.1))
    frame = ds.compare(tables[0], tables[1], {"aggregated": fit}).frame
    row = frame[(frame["method"] == "aggregated") & (frame["metric"] == "90% interval score")]
    assert row["gain"].item() == pytest.approx(0, abs=1e-9)
    covers = frame[(frame["method"] == "aggregated") & (frame["metric"] == "90% coverage error")]
    assert covers["gain"].item() == pytest.approx(0, abs=1e-12)


LEVELS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)


def exact_members(seed, S, N, keep_draws=True, K=4):
    """Members that all are the exact posterior; their draws, or ranks, moments and quantiles of these."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(N, 1))
    theta = y + rng.normal(size=(N, 1))
    table = ds.Table(theta, y, draws=y[:, None] + rng.normal(size=(K, N, S, 1)))
    if keep_draws:
        return table
    quantiles = {level: table.quantile(level) for level in LEVELS}
    return ds.Table(theta, y, rank=table.rank, mean=table.mean, cov=table.cov, quantiles=quantiles, S=S)


def gains_of_uniform_weights(S, N, repetitions, keep_draws=True):
    """Gain of uniform weights over the best member in each repetition, and values and floors, by metric."""
    gains, values, floors = {}, {}, {}
    for seed in range(repetitions):
        tables = [exact_members(2 * seed + i, S, N, keep_draws) for i in (0, 1)]
        for result in ds.compare(tables[0], tables[1], ds.Stacking.uniform(tables[0].names)).results:
            line, name = result.methods["uniform"], result.metric.name
            gains.setdefault(name, []).append(line.gain.value)
            values.setdefault(name, []).append(line.value.value)
            floors[name] = result.floor
    return gains, values, floors


def in_errors(values, expected=0.0):
    """How far the mean of repeated values is from what is expected, in standard errors."""
    return (np.mean(values) - expected) / (np.std(values, ddof=1) / np.sqrt(len(values)))


@pytest.mark.parametrize(
    ("S", "N", "repetitions"),
    [
        (10, 200, 40),
        (20, 200, 40),
        *(pytest.param(S, 1000, 200, marks=pytest.mark.slow) for S in (10, 20, 50, 100, 200)),
    ],
)
def test_more_draws_are_not_skill(S, N, repetitions):
    gains, values, floors = gains_of_uniform_weights(S, N, repetitions)
    assert len(gains) == 5
    for name, gain in gains.items():
        assert abs(in_errors(gain)) < (3 if repetitions == 200 else 3.5), name
    for metric in (RANK_DISTANCE, COVERAGE_ERROR):
        assert abs(in_errors(values[metric.name], floors[metric.name])) < 4, metric.name


@pytest.mark.parametrize(
    ("S", "N", "repetitions"),
    [
        (10, 300, 40),
        (20, 300, 40),
        *(pytest.param(S, 1000, 200, marks=pytest.mark.slow) for S in (10, 20, 50, 100, 200)),
    ],
)
def test_more_draws_are_not_skill_where_statistics_are_all_that_is_left_of_the_draws(S, N, repetitions):
    gains, values, floors = gains_of_uniform_weights(S, N, repetitions, keep_draws=False)
    assert len(gains) == 4
    for name, gain in gains.items():
        assert abs(in_errors(gain)) < (3 if repetitions == 200 else 3.5), name
    assert abs(in_errors(values[RANK_DISTANCE.name], floors[RANK_DISTANCE.name])) < 4


@pytest.mark.parametrize("with_data", [True, False])
def test_rows_of_the_same_parameters_have_random_numbers_of_their_own(with_data):
    values = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        theta = rng.integers(3, size=(400, 1)).astype(float)
        y = theta - rng.choice([-2.0, 2.0], (400, 1)) - rng.normal(size=(400, 1)) / 2
        draws = np.stack([y[:, None] + shift + rng.normal(size=(400, 10, 1)) / 2 for shift in (-2, 2)])
        table = ds.Table(theta, y if with_data else None, draws=draws)
        drawn_once = ds.Stacking.uniform(table.names).view(table).independent_draws(seed).numpy()
        values.append(drawn_once.mean() - draws.mean())
    # The standard deviation of one draw is two: 2/√4000, where rows alike made it ten times as large.
    assert np.std(values) < 2 * 2 / np.sqrt(4000)


def test_stand_ins_have_the_statistics_of_the_draws():
    table = make_table(K=3, N=20, S=15, d=2, seed=1)
    of_moments = MomentStandIns(table.mean, table.cov, row_keys(table), 15, seed=0)
    quantiles = np.stack([table.quantile(level) for level in np.arange(1, 16) / 16])
    of_quantiles = QuantileStandIns(np.arange(1, 16) / 16, quantiles, row_keys(table), 15, seed=0)
    for k in range(3):
        np.testing.assert_allclose(of_moments[k].mean(1), table.mean[k])
        one = ds.Table(table.theta, draws=of_moments[k][None])
        np.testing.assert_allclose(one.cov[0], table.cov[k], atol=1e-12)
        np.testing.assert_allclose(np.sort(of_quantiles[k], 1), np.sort(np.asarray(table.draws[k]), 1))
        assert (of_quantiles[k] != np.sort(of_quantiles[k], 1)).any()
    few = np.array([0.02, 0.05, 0.3, 0.5, 0.7, 0.95, 0.98])  # of which the outer ones are the outermost draws
    coarse = QuantileStandIns(few, np.stack([table.quantile(level) for level in few]), row_keys(table), 15, seed=0)
    np.testing.assert_allclose(coarse[1].min(1), np.asarray(table.draws[1]).min(1))


def test_one_member_without_draws_is_shown_as_it_is():
    table = exact_members(3, 12, 50, keep_draws=False)
    shown, alone = drawn(ds.Stacking.single(table.names, 2), table), table.select(members=[2])
    np.testing.assert_allclose(shown.error().numpy(), (alone.theta - alone.mean)[0], rtol=1e-12)
    np.testing.assert_allclose(shown.cov().numpy(), alone.cov[0], rtol=1e-12)
    np.testing.assert_array_equal(shown.interval(0.1).numpy()[..., 0], alone.quantile(0.05)[0])


def test_intervals_that_hold_every_truth_have_an_error_and_a_floor():
    rng = np.random.default_rng(0)
    wide = ds.Table(rng.normal(size=(400, 2)), draws=30 * rng.normal(size=(2, 400, 60, 2)))
    result = ds.compare(wide, wide, ds.Stacking.uniform(wide.names)).of(COVERAGE_ERROR)
    estimate = result.methods["stacked"].value
    assert estimate.value == pytest.approx(0.1)
    # One or two of the four hundred might have been outside.
    assert 1 / 400 < estimate.se < 2 / 400
    assert result.floor == pytest.approx(np.sqrt(2 / np.pi * 0.1 * 0.9 / 400), rel=1e-3)
    assert "calibrated ≈ 0.012" in str(ds.compare(wide, wide, ds.Stacking.uniform(wide.names)))


def test_aggregated_intervals_are_compared_with_the_average_of_the_ends():
    validation, test = make_table(N=150, seed=1), make_table(N=120, seed=2)
    fits = {
        "ends": ds.stack(validation, ds.IntervalAggregation(), ds.IntervalScore()),
        "log": ds.stack(validation),
    }
    comparison = ds.compare(validation, test, fits)
    average = np.stack([test.quantile(level).mean(0) for level in (0.05, 0.95)], -1)
    for intervals, name in ((average, "uniform ends"), (fits["ends"].apply(test).interval(0.1), "ends")):
        inside = (intervals[..., 0] <= test.theta) & (test.theta <= intervals[..., 1])
        by_hand = np.abs(inside.mean(0) - 0.9).mean()
        assert comparison.of(COVERAGE_ERROR).methods[name].value.value == pytest.approx(by_hand)
    lines = comparison.of(INTERVAL_SCORE).methods
    assert set(lines) == {"best", "uniform", "uniform ends", "ends", "log"}
    for fit, uniform in (("ends", "uniform ends"), ("log", "uniform")):
        gain = lines[uniform].value.value - lines[fit].value.value
        assert lines[fit].gain_over_uniform.value == pytest.approx(gain)
    assert lines["uniform ends"].gain_over_uniform is None
    assert "uniform ends" not in comparison.of(RANK_DISTANCE).methods


def test_arguments_in_another_order_are_refused_in_words():
    table = ds.toy.table(50, seed=1)
    fit = ds.stack(table)
    with pytest.raises(
        TypeError, match=r"`validation` must be a Table; got Stacking.*ds\.compare\(validation, test"
    ):
        ds.compare(fit, table, table)  # pyright: ignore[reportArgumentType]


def test_the_best_member_by_log_density_is_a_second_reference_for_other_metrics():
    validation, test = ds.toy.table(400, seed=1), ds.toy.table(300, seed=2)
    comparison = ds.compare(validation, test)
    assert comparison.of("log density").best_by_log_density is None
    others = [result for result in comparison.results if result.best != comparison.best]
    assert others
    for result in comparison.results:
        second = result.best_by_log_density
        if result.best == comparison.best:
            assert second is None
            continue
        assert second is not None
        assert second.member == comparison.best
        alone = ds.compare(validation, test, {"one": ds.Stacking.single(test.names, comparison.best)})
        same = alone.of(result.metric).methods["one"]
        assert second.value.value == pytest.approx(same.value.value)
        assert second.gain == same.gain
