"""Tests for drystone.training.warp: which columns are warped, and that the maps are what they say."""

import numpy as np
import pytest

import drystone as ds
from drystone.training.features import Features
from drystone.training.preprocessing import DataTransform, Scaling
from drystone.training.warp import Warp

N = 2000
RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(np.exp(RNG.uniform(-2, 8, N))).astype(float)
LIGHT = {
    "normal": RNG.normal(5, 3, N),
    "uniform": RNG.uniform(0, 1, N),
    "two modes": np.where(RNG.random(N) < 0.5, -4.0, 4.0) + RNG.normal(size=N),
    "normal of random scale": RNG.normal(size=N) * RNG.uniform(0.5, 3, N),
    "exponential": RNG.exponential(size=N),
    "far from zero": 1e6 + RNG.normal(size=N),
    "constant": np.full(N, 3.0),
    "binary": (RNG.random(N) < 0.01).astype(float),
    "counts": RNG.poisson(3, N).astype(float),
}
HEAVY = {
    "log-normal": np.exp(2 * RNG.normal(size=N)),
    "Pareto": RNG.pareto(1.0, N) + 1,
    "Cauchy": RNG.standard_cauchy(N),
    "shifted Cauchy": 1e4 + RNG.standard_cauchy(N),
    "squares": RNG.normal(size=N) ** 2 * np.exp(2 * RNG.normal(size=N)),
}


@pytest.mark.parametrize("name", LIGHT)
def test_columns_without_heavy_tails_stay_as_they_are(name):
    warp = Warp.fit(LIGHT[name][:, None], "auto")
    assert not warp.asinh.any()
    assert not warp.root.any()


@pytest.mark.parametrize("name", HEAVY)
def test_heavy_tails_are_drawn_in(name):
    y = HEAVY[name][:, None]
    warp = Warp.fit(y, "auto")
    assert warp.asinh.all()
    before, after = (np.abs(Scaling.fit(of).apply(of)).max() for of in (y, warp.apply(y)))
    assert after < 0.5 * before


def test_counts_of_all_sizes_are_drawn_in_by_their_square_root():
    warp = Warp.fit(np.column_stack([COUNTS, -COUNTS, COUNTS + RNG.random(N)]), "auto")
    assert warp.root.tolist() == [True, False, False]
    np.testing.assert_allclose(warp.apply(COUNTS[:, None] + np.zeros(3))[:, 0], np.sqrt(COUNTS))


def test_positive_columns_are_warped_by_a_logarithm_that_also_takes_zero():
    y = HEAVY["log-normal"][:, None]
    warp = Warp.fit(y, "auto")
    slope, _ = np.polyfit(np.log(y[:, 0]), warp.apply(y)[:, 0], 1)
    assert slope == pytest.approx(1, abs=0.01)
    assert np.isfinite(warp.apply(np.array([[0.0], [-1.0]]))).all()


def test_units_do_not_matter():
    y = np.column_stack(list(HEAVY.values()))
    scaled = Warp.fit(y * 1e-9, "auto").apply(y * 1e-9)
    np.testing.assert_allclose(scaled, Warp.fit(y, "auto").apply(y), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("log", [False, True, [1], "auto"])
def test_maps_are_undone_and_slopes_are_derivatives(log):
    y = np.column_stack([HEAVY["Cauchy"] if log in (False, "auto") else HEAVY["Pareto"], HEAVY["log-normal"]])[:50]
    warp = Warp.fit(y, log, root=None if log == "auto" else np.array([True, False]))
    v = warp.apply(y)
    np.testing.assert_allclose(warp.invert(v), y, rtol=1e-9)
    h = 1e-6 * abs(y)
    np.testing.assert_allclose(
        warp.log_slope(v), np.log((warp.apply(y + h) - warp.apply(y - h)) / (2 * h)), rtol=1e-4, atol=1e-4
    )


def test_structured_data_are_warped_as_a_whole_and_may_have_missing_entries():
    y = RNG.standard_cauchy((300, 2, 5))
    y[0, 0, 0] = np.nan
    transform = DataTransform.fit(np.nan_to_num(y), log="auto")
    assert transform.warp.asinh.shape == ()
    assert transform.warp.asinh
    assert Warp.fit(y, "auto").asinh


def test_large_structured_data_are_judged_by_some_of_their_rows(monkeypatch):
    monkeypatch.setattr("drystone.training.warp.MOST_ENTRIES", 1000)
    y = np.repeat(RNG.standard_cauchy((300, 2, 5)), 2, 0)
    y[1::2] = np.nan  # every second row is not looked at
    assert Warp.fit(y, "auto").width == Warp.fit(y[::6], "auto").width


def test_features_of_a_likelihood_have_the_jacobian_of_the_warp():
    y = np.column_stack([HEAVY["Cauchy"], np.full(N, 7.0), COUNTS])
    features = Features.fit(y, log="auto")
    assert features.warp.asinh.tolist() == [True, False, False]
    assert features.warp.root.tolist() == [False, False, True]
    z, log_det = features.apply(y[:5])
    np.testing.assert_allclose(features.invert(z), y[:5], rtol=1e-6)
    up, down = (y[:5] + sign * np.array([1e-5, 0, 0]) for sign in (1, -1))
    slope = (features.apply(up)[0] - features.apply(down)[0])[:, 0] / 2e-5
    of_count = features.scaling.scale[1] * 2 * np.sqrt(y[:5, 2] + 0.5)
    np.testing.assert_allclose(log_det, np.log(slope) - np.log(of_count), rtol=1e-4, atol=1e-6)


def test_heavy_tailed_data_teach_posteriors_as_much_as_their_logarithms_do():
    rng = np.random.default_rng(1)
    theta = rng.uniform(-2, 2, (1000, 1))
    y = np.exp(3 * theta + rng.normal(size=(1000, 2)))
    options = {"members": 1, "prior": ([-2.0], [2.0]), "epochs": 40, "progress": False}
    train, test = slice(0, 800), slice(800, None)
    auto, log, raw = (
        ds.train(theta[train], y[train], log_y=log_y, **options).log_prob(theta[test], y[test]).mean()
        for log_y in ("auto", True, False)
    )
    assert auto == pytest.approx(log, abs=0.1)
    assert auto > raw + 0.3


def test_other_words_for_columns_are_refused():
    with pytest.raises(ValueError, match="`log_y` must be True, False, 'auto' or a list of columns; got 'all'"):
        Warp.fit(np.ones((3, 1)), "all")  # pyright: ignore[reportArgumentType]
