"""Tests for drystone.training.preprocessing: scaling of θ and the transform of y."""

import numpy as np
import pytest

from drystone.training.preprocessing import DataTransform, Scaling


@pytest.fixture
def y():
    rng = np.random.default_rng(0)
    return rng.normal(size=(200, 4)) * [1.0, 10.0, 0.1, 3.0] + [0.0, 5.0, -2.0, 100.0]


def test_columns_get_mean_zero_and_deviation_one(y):
    z = Scaling.fit(y).apply(y)
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(z.std(axis=0), 1, rtol=1e-12)


def test_scaling_is_undone_and_its_jacobian_is_the_ratio_of_volumes(y):
    scaling = Scaling.fit(y)
    np.testing.assert_allclose(scaling.invert(scaling.apply(y)), y, rtol=1e-12)
    assert scaling.log_det == pytest.approx(-np.log(y.std(axis=0)).sum())


@pytest.mark.parametrize("value", [0.0, 7.0, 1e9 + 1 / 3])
def test_a_constant_column_is_moved_and_not_stretched(value):
    y = np.column_stack([np.arange(5.0), np.full(5, value)])
    assert Scaling.fit(y).scale[1] == 1
    assert np.isfinite(DataTransform.fit(y)(y)).all()


def test_standardised_y_is_clipped(y):
    y[3, 2] = 1e6
    seen = DataTransform.fit(y, clip=2.5)(y)
    assert seen.dtype == np.float32
    assert np.abs(seen).max() == 2.5


def test_logarithms_are_taken_of_the_columns_asked_for(y):
    y = np.exp(y / 10)
    some, every = DataTransform.fit(y, log=[1, 3]), DataTransform.fit(y, log=True)
    expected = (np.log(y) - np.log(y).mean(axis=0)) / np.log(y).std(axis=0)
    np.testing.assert_allclose(every(y), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(some(y)[:, [1, 3]], expected[:, [1, 3]], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(some(y)[:, [0, 2]], DataTransform.fit(y)(y)[:, [0, 2]], rtol=1e-6)


def test_logarithms_of_what_is_not_positive_are_refused(y):
    with pytest.raises(ValueError, match=r"`log_y` needs positive `y`; \d+ of 200 rows have values ≤ 0"):
        DataTransform.fit(y, log=[0])


def test_principal_components_are_uncorrelated_of_unit_variance_and_in_order(y):
    mixed = y @ np.random.default_rng(1).normal(size=(4, 6))
    seen = DataTransform.fit(mixed, components=3, clip=np.inf)(mixed)
    np.testing.assert_allclose(np.cov(seen.T, bias=True), np.eye(3), atol=1e-4)
    # The first component explains most of the standardised data, by definition.
    z = Scaling.fit(mixed).apply(mixed)
    explained = [np.linalg.norm(z.T @ seen[:, k]) for k in range(3)]
    assert explained == sorted(explained, reverse=True)


def test_more_components_than_the_rank_are_refused(y):
    doubled = np.hstack([y, y])
    with pytest.raises(ValueError, match="`components` is 6 but `y` has only rank 4; use 4"):
        DataTransform.fit(doubled, components=6)
    with pytest.raises(ValueError, match="`components` must be between 1 and 4; got 5"):
        DataTransform.fit(y, components=5)


def test_structured_y_is_scaled_as_a_whole():
    y = 3 + 5 * np.random.default_rng(0).normal(size=(50, 4, 6))
    seen = DataTransform.fit(y)(y)
    assert seen.shape == y.shape
    np.testing.assert_allclose(seen, np.clip((y - y.mean()) / y.std(), -6, 6), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(DataTransform.fit(np.exp(y), log=True)(np.exp(y)), seen, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"need `y` of shape \(N, c\); got \(50, 4, 6\)"):
        DataTransform.fit(y, components=2)


def test_a_clip_must_be_positive(y):
    with pytest.raises(ValueError, match="`clip_y` must be positive; got 0"):
        DataTransform.fit(y, clip=0)
