"""Tests for drystone.adapters.averaged: densities, draws and errors, against the average written out."""

import numpy as np
import pytest
from scipy import stats

import drystone as ds

SAME = (lambda theta: theta, lambda y: y)
FLIP = (lambda theta: -theta, lambda y: -y)


class Normal:
    """A normal around y + 1: not symmetric."""

    def log_prob(self, theta, y):
        return stats.norm.logpdf(theta, y + 1, 0.5).sum(1)

    def sample(self, n, y, seed):
        return y + 1 + 0.5 * np.random.default_rng(seed).normal(size=(n, *y.shape))


def test_the_density_is_the_mean_over_the_group():
    rng = np.random.default_rng(0)
    theta, y = rng.normal(size=(7, 2)), rng.normal(size=(7, 2))
    q = ds.adapters.averaged(Normal(), [SAME, FLIP])
    written_out = np.log(
        (stats.norm.pdf(theta, y + 1, 0.5).prod(1) + stats.norm.pdf(-theta, -y + 1, 0.5).prod(1)) / 2
    )
    np.testing.assert_allclose(q.log_prob(theta, y), written_out)
    np.testing.assert_allclose(q.log_prob(-theta, -y), q.log_prob(theta, y))


def test_draws_are_of_the_averaged_density():
    q, y = ds.adapters.averaged(Normal(), [SAME, FLIP]), np.array([[0.3]])
    draws = q.sample(4000, y, seed=1)[:, 0, 0]
    halves = stats.norm(1.3, 0.5), stats.norm(-0.7, 0.5)  # y + 1, and −(−y + 1)
    assert stats.kstest(draws, lambda x: (halves[0].cdf(x) + halves[1].cdf(x)) / 2).pvalue > 0.01
    np.testing.assert_array_equal(draws, q.sample(4000, y, seed=1)[:, 0, 0])


def test_small_parameters_are_not_rounded_away():
    class Small(Normal):
        def sample(self, n, y, seed):
            return 1e-12 * super().sample(n, y, seed)

    draws = ds.adapters.averaged(Small(), [SAME, FLIP]).sample(400, np.zeros((1, 1)), seed=1)
    assert 0.4 < (draws < 0).mean() < 0.6  # one of N(1, ½²), the other its mirror image


def test_rotations_are_undone_by_another_element():
    def rotation(k):
        c, s = np.round([np.cos(k * np.pi / 2), np.sin(k * np.pi / 2)])
        turn = np.array([[c, s], [-s, c]])
        return lambda theta: theta @ turn, lambda y: y @ turn

    quarter_turns = [rotation(k) for k in range(4)]
    q, y = ds.adapters.averaged(Normal(), quarter_turns), np.array([[3.0, 0.0]])
    mean = q.sample(8000, y, seed=0)[:, 0].mean(0)
    # Each element draws around gy + 1 and is turned back: the shifts cancel.
    np.testing.assert_allclose(mean, [3.0, 0.0], atol=0.06)


def test_a_determinant_keeps_the_density_normalized():
    # θ → 1/θ on the positive half-line is its own inverse, with |det| = θ⁻².
    invert = (lambda theta: 1 / theta, lambda y: -y, lambda theta: -2 * np.log(theta[:, 0]))

    class LogNormal:
        def log_prob(self, theta, y):
            return stats.lognorm.logpdf(theta, 0.5, scale=np.exp(y))[:, 0]

    q = ds.adapters.averaged(LogNormal(), [SAME, invert])
    theta = np.linspace(1e-3, 60, 200_000)[:, None]
    density = np.exp(q.log_prob(theta, np.full_like(theta, 0.8)))
    assert np.trapezoid(density, theta[:, 0]) == pytest.approx(1, abs=1e-3)
    assert not hasattr(q, "sample")


def test_a_missing_inverse_is_named():
    shift = (lambda theta: theta + 1, lambda y: y + 1)
    q = ds.adapters.averaged(Normal(), [SAME, shift])
    with pytest.raises(ValueError, match="`maps` must be a group: none of its 2 elements is the inverse"):
        q.sample(50, np.zeros((1, 1)), seed=0)


def test_what_is_no_map_is_refused():
    with pytest.raises(ValueError, match="`maps` is empty"):
        ds.adapters.averaged(Normal(), [])
    q = ds.adapters.averaged(Normal(), [(lambda theta: theta[:1], lambda y: y)])
    with pytest.raises(ValueError, match=r"a map of `theta` must return the shape that it gets, \(3, 1\)"):
        q.log_prob(np.zeros((3, 1)), np.zeros((3, 1)))


def test_averaged_members_are_tabulated():
    theta, y = ds.toy.simulate(20, seed=0)
    table = ds.tabulate({"left": ds.adapters.averaged(ds.toy.MEMBERS["left"], [SAME, FLIP])}, theta, y, draws=20)
    assert np.isfinite(table.log_q).all()
