"""Tests for drystone.diagnostics.c2st and .lc2st."""

import sys

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from drystone.diagnostics import c2st, lc2st


def test_accuracy_is_that_of_the_best_classifier_of_two_gaussians():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4000, 3))
    b += [0.8, 0.0, -0.5]
    found = c2st(a, b, classifier=LinearDiscriminantAnalysis())
    best = norm.cdf(np.hypot(0.8, 0.5) / 2)
    assert found.accuracy.value == pytest.approx(best, abs=3 * found.accuracy.se)
    assert found.accuracy.se == pytest.approx(np.sqrt(best * (1 - best) / 8000), rel=0.05)
    assert len(found.folds) == 5


@pytest.mark.parametrize("folds", [2, 5])
def test_the_error_of_the_accuracy_is_its_spread_where_samples_are_alike(folds):
    rng, z = np.random.default_rng(0), []
    for seed in range(150):
        found = c2st(*rng.normal(size=(2, 60, 2)), classifier=LinearDiscriminantAnalysis(), folds=folds, seed=seed)
        z.append((found.accuracy.value - 0.5) / found.accuracy.se)
    # Over independent draws the spread would be 1.28 of these errors.
    assert abs(np.mean(z)) < 3 / np.sqrt(150)
    assert 0.85 < np.std(z) < 1.13


@pytest.mark.parametrize(("shift", "expected"), [(0.0, 0.5), (7.0, 1.0)])
def test_the_network_tells_apart_what_can_be_told_apart(shift, expected):
    rng = np.random.default_rng(1)
    found = c2st(rng.normal(size=(300, 2)), shift + rng.normal(size=(300, 2)), folds=2)
    assert found.accuracy.value == pytest.approx(expected, abs=0.05)


def test_scales_do_not_matter_and_tensors_are_taken():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(500, 2)), rng.normal(size=(700, 2)) + 0.4
    unit = np.array([1e6, 1e-6])
    plain = c2st(a, b, classifier=QuadraticDiscriminantAnalysis())
    scaled = c2st(torch.tensor(a * unit), torch.tensor(b * unit), classifier=QuadraticDiscriminantAnalysis())
    assert scaled.accuracy.value == pytest.approx(plain.accuracy.value, abs=1e-3)


def test_unequal_samples_that_are_alike_still_give_one_half():
    rng = np.random.default_rng(3)
    found = c2st(rng.normal(size=(400, 2)), rng.normal(size=(4000, 2)), classifier=LinearDiscriminantAnalysis())
    assert found.accuracy.value == pytest.approx(0.5, abs=3 * found.accuracy.se)


def test_the_same_seed_gives_the_same_answer():
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(60, 2)), rng.normal(size=(60, 2))
    first, second = (c2st(a, b, classifier=RandomForestClassifier(5), seed=7) for _ in range(2))
    np.testing.assert_array_equal(first.folds, second.folds)


def local_test(shift, at, seed=0, N=1500, trials=40):
    """The exact posterior is N(y, 1); the one in question N(y + shift(y), 1)."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(N, 1))
    theta, draws = (y + s + rng.normal(size=y.shape) for s in (0.0, shift(y)))
    draws_at = at + shift(at) + rng.normal(size=(400, 1))
    return lc2st(theta, y, draws, at=[at], draws_at=draws_at, classifier=logistic(), trials=trials, seed=seed)


def logistic():
    """Logistic regression on terms of degree 4, of which the log ratio for a shift by y² consists."""
    return make_pipeline(PolynomialFeatures(4), StandardScaler(), LogisticRegression(C=100, max_iter=2000))


def test_an_exact_posterior_passes_the_local_test_at_the_nominal_rate():
    tests = [local_test(lambda y: 0 * y, 0.4, seed, N=400, trials=19) for seed in range(8)]
    assert sum(test.p_value > 0.1 for test in tests) >= 5


def test_a_wrong_posterior_fails_where_it_is_wrong():
    def shift(y):
        return 0.6 * y**2

    wrong, right = local_test(shift, 1.2), local_test(shift, 0.0)
    assert wrong.p_value == pytest.approx(1 / 41)
    assert wrong.statistic > 10 * right.statistic
    # The classifier's probability is that of the two densities.
    rng = np.random.default_rng(0)
    drawn = 1.2 + 0.6 * 1.44 + rng.normal(size=100_000)
    ratio = norm.pdf(drawn, 1.2) / norm.pdf(drawn, 1.2 + 0.6 * 1.44)
    assert wrong.probability.shape == (400,)
    assert wrong.probability.mean() == pytest.approx((1 / (1 + ratio)).mean(), abs=0.03)


def test_shapes_are_checked():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(30, 2))
    with pytest.raises(ValueError, match=r"must have shapes \(S, d\), \(S', d\); got \(30, 2\), \(30, 1\)"):
        c2st(a, a[:, :1])
    with pytest.raises(ValueError, match="one draw per simulation"):
        lc2st(a, a, a[:20], at=a[0], draws_at=a)
    with pytest.raises(ValueError, match="`draws_at` must have shape"):
        lc2st(a, a, a, at=a[0], draws_at=a[:, :1])
    with pytest.raises(ValueError, match="`at` must have 2 values"):
        lc2st(a, a, a, at=[1.0], draws_at=a)


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ImportError, match=r"drystone\[diagnostics\]"):
        c2st(np.zeros((9, 1)), np.ones((9, 1)))
