"""Tests for drystone.comparison."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import drystone as ds
from drystone.comparison import INTERVAL_SCORE, LOG_DENSITY, RANK_DISTANCE
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
    inside = np.abs(np.mean(np.abs(fit.apply(test).rank - 0.5) <= 0.45) - 0.9)
    assert cell(comparison, "90% coverage error", "stacked")["value"] == pytest.approx(inside)


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
    assert cell(comparison, "rank distance D", "stacked")["floor"] == pytest.approx(1 / (6 * 900))
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
    assert "90% interval score" in comparison.skipped
    assert "90% coverage error" in set(comparison.frame["metric"])
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
    uniform = np.abs(test.theta - test.mean.mean(0)).mean(1)
    assert largest.methods["uniform"].value.value == pytest.approx(uniform.max())
    # A bootstrap sample misses the worst row with probability 1/e: so there is a spread, and it is no mean's.
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
        assert found.value == pytest.approx(fit.evaluate(test, score)["loss"])
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


def test_statistics_of_a_bootstrapped_metric_are_computed_once(monkeypatch):
    validation, test = ds.toy.table(100, seed=1, draws=30), ds.toy.table(100, seed=2, draws=30)
    fit, calls = ds.stack(validation, ds.SampleAggregation(), ds.EnergyScore()), []
    view = type(fit.view(test))
    rank = view.rank
    monkeypatch.setattr(view, "rank", lambda self, *rest: calls.append(1) or rank(self, *rest))
    ds.compare(validation, test, fit, metrics=(RANK_DISTANCE,))
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
