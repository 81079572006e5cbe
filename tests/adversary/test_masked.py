"""Masked arrays: what lies below a mask is never used as a number; a masked entry is a missing value, NaN."""

from typing import Any

import numpy as np
import pytest

import drystone as ds
from drystone._arrays import as_numpy

RNG = np.random.default_rng(8)
N = 60
THETA = RNG.normal(size=(N, 2))
Y = THETA + RNG.normal(size=(N, 2))
LOG_Q = RNG.normal(-1.0, 1.0, size=(3, N))
DRAWS = RNG.normal(size=(3, N, 20, 2)) + Y[:, None]


def masked(array, where):
    """Return the array with a mask, below which it is very good (or very wrong)."""
    mask = np.zeros(array.shape, bool)
    mask[where] = True
    return np.ma.MaskedArray(np.where(mask, 99, array), mask)


@pytest.mark.parametrize(
    "value",
    [
        np.ma.masked_equal([1.0, 2.0, 3.0], 2.0),
        np.ma.masked_equal([1, 2, 3], 2),
        np.ma.masked_equal(np.array([1, 2, 3], np.float32), 2),
        [1.0, np.ma.masked, 3.0],
    ],
    ids=["floats", "integers", "single precision", "a list"],
)
def test_masked_entries_are_nan(value):
    np.testing.assert_array_equal(as_numpy(value), [1.0, np.nan, 3.0])


def test_lists_of_masked_arrays_keep_their_masks():
    rows = [np.ma.masked_equal([1.0, 2.0], 2.0), [3.0, 4.0]]
    np.testing.assert_array_equal(as_numpy(rows), [[1.0, np.nan], [3.0, 4.0]])


def test_a_mask_without_entries_changes_nothing():
    array = as_numpy(np.ma.MaskedArray([1, 2, 3]))
    assert array.dtype.kind == "i"
    np.testing.assert_array_equal(array, [1, 2, 3])


@pytest.mark.parametrize("wrap", [np.ma.asarray, list], ids=["array", "list of arrays"])
def test_masked_densities_are_missing_ones_of_the_member_that_is_named(wrap):
    table = ds.Table(THETA, log_q=wrap(masked(LOG_Q, (1, slice(0, 4)))), names=["a", "b", "c"])
    with pytest.raises(ValueError, match="`log_q` is NaN or infinite for 'b' at 4 of 60 rows"):
        ds.stack(table)
    expected = ds.stack(ds.Table(THETA, log_q=LOG_Q[[0, 2]], names=["a", "c"]))
    assert ds.stack(table, nonfinite="drop").member_weights == expected.member_weights


def test_a_member_that_is_wholly_masked_gets_no_weight():
    table = ds.Table(THETA, log_q=masked(LOG_Q, 1), names=["a", "b", "c"])
    assert table.has("log_q").tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("statistic", "array"),
    [("rank", RNG.random((3, N, 2))), ("mean", DRAWS.mean(2)), ("draws", DRAWS)],
    ids=["rank", "mean", "draws"],
)
def test_other_masked_statistics_are_missing_too(statistic, array):
    options: dict[str, Any] = {statistic: masked(array, (2, 5))}
    table = ds.Table(THETA, Y, **options)
    assert np.isnan(np.asarray(getattr(table, statistic))[2, 5]).all()
    assert not np.isnan(np.asarray(getattr(table, statistic))[:2]).any()


def test_masked_parameters_and_row_weights_are_refused_by_name():
    with pytest.raises(ValueError, match="`theta` must be finite"):
        ds.Table(masked(THETA, 3), log_q=LOG_Q)
    with pytest.raises(ValueError, match="`row_weights` must be finite"):
        ds.Table(THETA, log_q=LOG_Q, row_weights=masked(np.ones(N), 3))


def test_masked_selections_are_refused():
    table = ds.Table(THETA, log_q=LOG_Q)
    with pytest.raises(TypeError, match="`rows` must be names, positions, a mask or a slice"):
        table.select(rows=np.ma.masked_equal([1, 2, 3], 2))


class Seen:
    """A member that tells what data it was given."""

    def log_prob(self, theta, y):
        assert type(y) is np.ndarray
        return np.where(np.isnan(y).any(1), -7.0, -1.0)

    def sample(self, n, y, seed):
        return np.random.default_rng(seed).normal(size=(n, len(y), 2))


def test_members_see_masked_data_as_missing():
    table = ds.tabulate([Seen()], THETA, masked(Y, (4, 1)), draws=5)
    np.testing.assert_array_equal(np.flatnonzero(table.log_q[0] == -7.0), [4])
    assert np.isnan(table.y[4, 1])
    posterior = ds.stack(table).posterior([Seen()])
    assert posterior.log_prob(THETA[:1], masked(Y[0], 1)) == -7.0
    assert posterior.log_prob(THETA[:1], Y[0]) == -1.0
    with pytest.raises(ValueError, match="`theta` must be finite"):
        ds.tabulate([Seen()], masked(THETA, 2), Y)


class Masking(Seen):
    """A member whose results are masked here and there."""

    def log_prob(self, theta, y):
        return masked(np.full(len(y), -1.0), 0)

    def sample(self, n, y, seed):
        return masked(super().sample(n, y, seed), (slice(None), 0))


def test_masked_results_of_members_are_missing():
    table = ds.tabulate([Masking()], THETA, Y, draws=0)
    assert np.isnan(table.log_q[0, 0])
    with pytest.warns(UserWarning, match="of the draws are not finite"):
        table = ds.tabulate({"masking": Masking(), "seen": Seen()}, THETA, Y, draws=5)
    assert table.names == ("seen",)


def test_masked_simulations_are_not_trained_on():
    for arrays, name in (((masked(THETA, 0), Y), "theta"), ((THETA, masked(Y, (0, 0))), "y")):
        with pytest.raises(ValueError, match=rf"`{name}` must be finite; 1 \(\d+\) of {N} rows are not"):
            ds.train(*arrays, members=1)


def test_masked_data_of_a_simulator_are_failed_simulations():
    def simulator(theta, rng):
        return masked(theta + rng.normal(size=theta.shape), (0, 0))

    with pytest.warns(UserWarning, match="1 of 20 simulations failed"):
        simulations = ds.simulate(simulator, ds.tasks.Uniform([0.0, 0.0], [1.0, 1.0]), 20)
    assert simulations.y.max() < 99
