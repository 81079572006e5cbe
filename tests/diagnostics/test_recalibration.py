"""Recalibration: exact where the fault is the same everywhere, and nothing where there is none."""

import numpy as np
import pytest
from scipy.stats import kstest, norm

import drystone as ds


def table_of(sd, shift=0.0, n=3000, seed=1, S=400):
    """Truths from N(y, 1), of which the member says N(y + shift, sd²), and from N(0, 1), where it is right."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(n, 1))
    theta = np.concatenate([y + rng.normal(size=(n, 1)), rng.normal(size=(n, 1))], 1)
    centers = np.concatenate([y + shift, 0 * y], 1)
    draws = centers[:, None] + np.array([sd, 1.0]) * rng.normal(size=(n, S, 2))
    return ds.Table(theta, y=y, draws=draws[None], names=["m"], parameters=["a", "b"])


FIT = ds.Stacking.single(["m"], 0, parameters=["a", "b"])


@pytest.mark.parametrize(("sd", "shift"), [(0.6, 0.0), (1.6, 0.0), (0.9, 0.5)])
def test_intervals_and_draws_become_those_of_the_exact_posterior(sd, shift):
    found = ds.diagnostics.recalibration(table_of(sd, shift), FIT)
    assert found.helps.tolist() == [True, False]
    rng = np.random.default_rng(3)
    sample = np.stack([0.7 + shift + sd * rng.normal(size=40_000), rng.normal(size=40_000)], 1)
    exact = 0.7 + norm.ppf([0.05, 0.95])
    assert found.interval(sample, 0.1)[0] == pytest.approx(exact, abs=0.15)
    mended = found.apply(sample)
    assert kstest(mended[:, 0], norm(0.7, 1).cdf).statistic < 0.035
    np.testing.assert_array_equal(mended[:, 1], sample[:, 1])
    # The order of the draws, hence their dependence, stays.
    np.testing.assert_array_equal(np.argsort(mended[:, 0], kind="stable"), np.argsort(sample[:, 0], kind="stable"))


def test_the_gain_is_that_of_the_log_score():
    sd = 1.6
    found = ds.diagnostics.recalibration(table_of(sd, n=6000), FIT)
    exact = np.log(sd) + 0.5 / sd**2 - 0.5  # Kullback–Leibler divergence of N(0, sd²) from N(0, 1)
    assert found.gain[0].value == pytest.approx(exact, abs=0.04)
    (on_others, of_right) = found.gain_on(table_of(sd, seed=9), FIT)
    assert on_others.value == pytest.approx(exact, abs=0.06)
    assert abs(of_right.value) < 4 * of_right.se + 0.01


def test_a_calibrated_posterior_is_left_alone():
    helped = [ds.diagnostics.recalibration(table_of(1.0, n=500, seed=s), FIT).helps.any() for s in range(15)]
    assert sum(helped) <= 2
    found = ds.diagnostics.recalibration(table_of(1.0, n=500, seed=0), FIT)
    assert str(found) == "Recalibration gains nothing."
    intervals = ds.stack(table_of(1.0, n=60), ds.IntervalAggregation(), ds.IntervalScore())
    with pytest.raises(ds.IntractableError, match="recalibration needs ranks"):
        ds.diagnostics.recalibration(table_of(1.0, n=60), intervals)
    with pytest.raises(ValueError, match=r"shape \(S, d\) with d = 2"):
        found.apply(np.zeros((5, 3)))


def test_coverage_is_mended_on_other_rows():
    found = ds.diagnostics.recalibration(table_of(0.6), FIT)
    other = table_of(0.6, seed=20, n=400)
    covered = [
        low <= truth <= high
        for truth, draws in zip(other.theta[:, 0], other.draws[0], strict=True)
        for low, high in [found.interval(draws, 0.2)[0]]
    ]
    assert abs(np.mean(covered) - 0.8) < 0.07
    before = [
        low <= truth <= high
        for truth, draws in zip(other.theta[:, 0], other.draws[0, :, :, 0], strict=True)
        for low, high in [np.quantile(draws, [0.1, 0.9])]
    ]
    assert np.mean(before) < 0.65
