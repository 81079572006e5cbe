"""Tests for the mini-SimBIG task as a whole."""

import pickle

import numpy as np
import pytest

from experiments.minisimbig import FIDUCIAL, MiniSimBIG


@pytest.fixture(scope="module")
def task():
    return MiniSimBIG(n=32)


@pytest.mark.parametrize(("n", "expected"), [(32, 903), (48, 2103), (64, 3677)])
def test_the_number_of_summaries_is_known_before_any_is_measured(n, expected):
    assert MiniSimBIG(n=n).y_dim == expected


def test_a_simulation_at_full_size_has_3677_finite_summaries():
    y = MiniSimBIG().simulate(FIDUCIAL[None], np.random.default_rng(0))
    assert y.shape == (1, 3677)
    assert y.dtype == np.float32
    assert np.isfinite(y).all()
    # 3.3e-4 galaxies per (Mpc/h)³ in the 40 % of the box that are seen.
    assert np.exp(y[0, 0]) == pytest.approx(3.3e-4 * 640**3 * 0.405, rel=0.15)


def test_a_row_does_not_depend_on_its_neighbours(task):
    theta = task.prior.sample(3, np.random.default_rng(1))
    together = task.simulate(theta, np.random.default_rng(2))
    theta[0] = FIDUCIAL
    np.testing.assert_array_equal(task.simulate(theta, np.random.default_rng(2))[1:], together[1:])


def test_summaries_are_finite_at_the_corners_of_the_prior(task):
    rng = np.random.default_rng(3)
    lower, upper = task.prior.support.lower, task.prior.support.upper
    corners = np.where(rng.random((12, 14)) < 0.5, lower, upper)
    assert np.isfinite(task.simulate(corners, rng)).all()


def test_summaries_respond_to_the_parameters_they_should(task):
    # Common random numbers: the same stream for both ends of a parameter's range.
    def shift(name):
        low, high = FIDUCIAL.copy(), FIDUCIAL.copy()
        at = task.parameters.index(name)
        low[at], high[at] = task.prior.support.lower[at], task.prior.support.upper[at]
        ends = [task.simulate(np.tile(end, (4, 1)), np.random.default_rng(4)) for end in (low, high)]
        return (ends[1] - ends[0]).mean(0)

    assert shift("logMmin")[0] < -1, "a higher threshold leaves fewer galaxies"
    assert shift("Omega_m")[0] > 1
    assert shift("A_bias")[1:4].mean() > 0.1, "galaxies in dense places cluster more"
    assert abs(shift("eta_conc")[1:15]).max() < 0.1, "cells are too large to resolve haloes"


def test_the_task_is_light_to_send_to_a_worker(task):
    task.simulate(FIDUCIAL[None], np.random.default_rng(5))
    assert len(pickle.dumps(task)) < 10_000


def test_a_grid_that_cannot_be_used_is_refused():
    for n in (8, 33):
        with pytest.raises(ValueError, match=f"`n` must be even and at least 16; got {n}"):
            MiniSimBIG(n=n)
