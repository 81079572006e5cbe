"""Estimates, their standard errors, and how they are printed."""

import numpy as np
import pytest

from drystone.estimate import (
    Estimate,
    bootstrap_weights,
    effective_number,
    effective_rows,
    half_sample_error,
    half_samples,
    mean_over_folds,
    mean_over_rows,
    standard_error,
)


@pytest.mark.parametrize(
    ("value", "se", "text"),
    [
        (0.123456, 0.0123, "0.123 ± 0.012"),
        (-1234.5, 67.0, "-1234 ± 67"),
        (0.5, np.nan, "0.5000 ± nan"),
        (2.0, 0.0, "2.0000 ± 0.0000"),
        (np.nan, 0.1, ""),
        (-3.21e-10, 1.2e-11, "(-3.21 ± 0.12)e-10"),
        (0.0, 2e-9, "(0.0 ± 2.0)e-09"),
        (4.3e-18, 3e-20, "(4.300 ± 0.030)e-18"),
        (1.5, 1e-9, "1.50000000 ± 0.00000000"),
    ],
)
def test_two_digits_of_the_standard_error_are_printed(value, se, text):
    assert str(Estimate(value, se)) == f"{Estimate(value, se)}" == text


def test_a_sign_is_printed_if_it_is_wanted():
    assert f"{Estimate(3.2, 0.4):+}" == "+3.20 ± 0.40"
    assert f"{Estimate(-3.2, 0.4):+}" == "-3.20 ± 0.40"
    with pytest.raises(ValueError, match="formatted with '' or"):
        f"{Estimate(3.2, 0.4):.3f}"


def test_the_standard_error_is_that_of_a_mean():
    rows = np.array([1.0, 2.0, 6.0, -3.0, 0.5])
    equal = np.full(5, 0.2)
    assert standard_error(rows, equal) == pytest.approx(rows.std() / np.sqrt(5))
    assert mean_over_folds(rows).se == pytest.approx(rows.std(ddof=1) / np.sqrt(5))
    assert mean_over_folds(rows).value == mean_over_rows(rows, equal).value == pytest.approx(rows.mean())


def test_a_row_of_weight_zero_changes_nothing():
    rows, a = np.array([1.0, 2.0, 6.0, 1e9]), np.array([0.2, 0.3, 0.5, 0.0])
    assert mean_over_rows(rows, a) == mean_over_rows(rows[:3], a[:3])


def test_infinite_rows_and_single_rows_have_no_standard_error():
    assert np.isnan(standard_error(np.array([1.0, -np.inf]), np.array([0.5, 0.5])))
    assert np.isnan(standard_error(np.ones(1), np.ones(1)))


def test_the_bootstrap_agrees_with_the_standard_error_of_a_weighted_mean():
    rng = np.random.default_rng(3)
    rows, a = rng.normal(size=300), rng.random(300)
    a /= a.sum()
    weightings = np.stack(list(bootstrap_weights(a, 400, seed=1)))
    np.testing.assert_allclose(weightings.sum(1), 1)
    assert np.std(weightings @ rows, ddof=1) == pytest.approx(standard_error(rows, a), rel=0.15)


def test_effective_numbers_of_equal_weights_are_their_number():
    assert effective_number(np.array([0.0, 0.25, 0.25, 0.5])) == pytest.approx(np.exp(1.5 * np.log(2)))
    assert effective_number(np.full(7, 1 / 7)) == pytest.approx(7)
    assert effective_rows(np.full(7, 1 / 7)) == pytest.approx(7)
    assert effective_rows(np.array([0.5, 0.5, 0.0])) == pytest.approx(2)


def cramer_von_mises(ranks, weightings):
    """D of some ranks under each weighting of them."""
    order = np.argsort(ranks)
    r = ranks[order]
    return np.array([(a * (r - np.cumsum(a) + a / 2) ** 2 + a**3 / 12).sum() for a in weightings[:, order]])


@pytest.mark.parametrize("power", [1.0, 1.4])
def test_half_sample_errors_of_paired_squared_distances_match_their_spread_at_zero_and_away_from_it(power):
    """At 0 the bootstrap's error is √3 too large: its linear part has the noise of the rows once more."""
    rng, N = np.random.default_rng(5), 200
    equal, gains, errors = np.full((1, N), 1 / N), [], []
    for seed in range(150):
        weightings = np.vstack([equal, half_samples(equal[0], 50, seed)])
        one, other = (cramer_von_mises(ranks, weightings) for ranks in (rng.random(N), rng.random(N) ** power))
        gains.append((other - one)[0])
        errors.append(half_sample_error(gains[-1], (other - one)[1:]))
    assert np.median(errors) / np.std(gains, ddof=1) == pytest.approx(1, abs=0.3)
    assert np.sqrt(np.mean(np.square(errors))) / np.std(gains, ddof=1) < 1.4


def test_half_samples_are_halves_and_their_complements():
    a = np.array([0.1, 0.2, 0.3, 0.4])
    one, other = np.split(half_samples(a, 20, seed=0), 2)
    assert ((one > 0) != (other > 0)).all()
    assert ((one > 0).sum(1) == 2).all()
    np.testing.assert_allclose(one.sum(1), 1)
    mean = np.random.default_rng(0).normal(size=4)
    assert half_sample_error(float(a @ mean), np.full(40, a @ mean)) == 0


def test_half_sample_errors_of_a_mean_are_its_standard_error():
    rows, a = np.random.default_rng(0).normal(size=500), np.full(500, 1 / 500)
    error = half_sample_error(float(a @ rows), half_samples(a, 2000, seed=1) @ rows)
    assert error == pytest.approx(standard_error(rows, a), rel=0.05)
