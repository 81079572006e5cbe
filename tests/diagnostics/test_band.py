"""Tests for drystone.diagnostics.band."""

import itertools
import math

import numpy as np
import pytest

from drystone.diagnostics import ecdf_band
from drystone.diagnostics.band import _inside


def test_the_probability_is_that_of_all_ways_to_place_the_points():
    N, z, lower, upper = 5, np.array([0.23, 0.61]), np.array([0, 2]), np.array([2, 4])
    shares = np.diff([0, *z, 1])
    total = 0.0
    for counts in itertools.product(range(N + 1), repeat=3):
        at = np.cumsum(counts)[:2]
        if sum(counts) == N and (lower <= at).all() and (at <= upper).all():
            ways = math.factorial(N) / math.prod(math.factorial(c) for c in counts)
            total += ways * float(np.prod(shares ** np.array(counts)))
    assert _inside(N, z, lower, upper) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize(("N", "level"), [(37, 0.9), (400, 0.95)])
def test_as_many_uniform_samples_stay_inside_as_the_band_says(N, level):
    band = ecdf_band(N, level)
    u = np.random.default_rng(0).random((4000, N))
    ecdf = (u[:, None, :] <= band.grid[:, None]).mean(2) if N < 100 else _ecdfs(u, band.grid)
    inside = band.holds(ecdf[..., None])[:, 0]
    assert level <= band.probability < level + 0.01
    assert inside.mean() == pytest.approx(band.probability, abs=4 * np.sqrt(0.1 * 0.9 / 4000))


def _ecdfs(u, grid):
    return np.stack([np.searchsorted(np.sort(row), grid, side="right") / len(row) for row in u])


def test_it_is_wider_than_the_pointwise_band_and_narrower_with_more_rows():
    from scipy.stats import binom

    band, larger = ecdf_band(200), ecdf_band(800)
    pointwise = binom.ppf(0.025, 200, band.grid) / 200
    assert (band.lower <= pointwise).all()
    assert (band.lower < pointwise).any()
    assert (larger.upper - larger.lower).max() < 0.6 * (band.upper - band.lower).max()


def test_large_samples_are_exact_too():
    band = ecdf_band(200_000, 0.95, grid=[0.1, 0.5, 0.8])
    assert band.probability == pytest.approx(0.95, abs=1e-3)
    assert (band.upper - band.lower)[1] == pytest.approx(2 * 2.3 * np.sqrt(0.25 / 200_000), rel=0.05)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match=r"`level` must be in \(0, 1\); got 95"):
        ecdf_band(100, 95)
    with pytest.raises(ValueError, match="`N` must be at least 1"):
        ecdf_band(0)
    with pytest.raises(ValueError, match="`grid` must be increasing"):
        ecdf_band(10, grid=[0.5, 0.2])
