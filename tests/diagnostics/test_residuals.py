"""Residuals of data given estimates: a line whose noise and shape are known."""

import numpy as np

from drystone.diagnostics.null import check, combined_p_value
from drystone.diagnostics.residuals import Residuals

GRID = np.linspace(-1, 1, 12)


def lines(n, rng, noise=0.2, bend=0.0):
    theta = rng.uniform(-1, 1, (n, 2))
    y = theta[:, :1] + theta[:, 1:] * GRID + bend * GRID**2 + noise * rng.normal(size=(n, 12))
    estimates = np.linalg.lstsq(np.stack([np.ones(12), GRID], 1), y.T, rcond=None)[0].T
    return estimates, y


def test_simulations_have_the_residuals_of_their_neighbors():
    rng = np.random.default_rng(0)
    cloud = Residuals(*lines(300, rng))
    distance = cloud.distance(*lines(200, rng))
    assert 0.9 < np.median(distance) < 1.2
    assert distance.shape == (200,)


def test_data_that_no_parameters_give_stand_out_though_their_estimates_do_not():
    rng = np.random.default_rng(1)
    cloud = Residuals(*lines(300, rng))
    ordinary = cloud.distance(*lines(200, rng))
    for unlike in ({"noise": 0.6}, {"bend": 1.0}):
        assert (cloud.distance(*lines(100, rng, **unlike)) > np.quantile(ordinary, 0.99)).mean() > 0.9


def test_one_check_does_not_hide_what_another_sees():
    rng = np.random.default_rng(2)
    a, nulls = np.ones(300), rng.exponential(size=(3, 300))
    p = combined_p_value([check("far", 30.0, nulls[0], a), *(check("no", 0.5, null, a) for null in nulls[1:])], a)
    assert p == 1 / 301


def test_p_values_of_several_checks_are_uniform_whatever_their_tails():
    rng = np.random.default_rng(3)
    values = np.stack(
        [rng.exponential(size=(400, 101)), rng.standard_cauchy((400, 101)), rng.poisson(0.1, (400, 101))]
    )
    a = np.ones(100)
    p = [combined_p_value([check("", each[-1], each[:-1], a) for each in values[:, i]], a) for i in range(400)]
    for level in (0.05, 0.2, 0.5):
        assert abs(np.mean(np.array(p) <= level) - level) < 3 * np.sqrt(level * (1 - level) / 400) + 0.01
