"""Tests for drystone.compare."""

import numpy as np
import pytest

import drystone as ds
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
    assert "90% interval score" in comparison.left_out
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
    assert "Not judged: rank distance D" in str(ds.compare(densities, densities))
