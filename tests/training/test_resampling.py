"""Weighted rows in training: drawn in proportion to their weights."""

import numpy as np
import pytest

import drystone as ds
from drystone.training.resampling import ResamplingLearner

SWEEP = ds.Sweep(
    transforms=(1, 1), units=(12, 12), layers=(0, 0), bins=(4, 4), batch_size=(50, 50), learning_rate=(0.02, 0.02)
)


class Counting:
    def __init__(self, n):
        self.counts = np.zeros(n, int)

    def epoch(self, rows):
        self.counts += np.bincount(rows, minlength=len(self.counts))
        return 0.0


def test_an_epoch_sees_rows_as_often_as_their_weights_say():
    rng = np.random.default_rng(0)
    weights = rng.gamma(0.5, size=37)
    learner = Counting(37)
    resampling = ResamplingLearner(learner, weights, rng)  # pyright: ignore[reportArgumentType]
    expected = 37 * weights / weights.sum()
    resampling.epoch(rng.permutation(37))
    assert (np.floor(expected) <= learner.counts).all()
    assert (learner.counts <= np.ceil(expected)).all()
    for _ in range(399):
        resampling.epoch(rng.permutation(37))
    np.testing.assert_allclose(learner.counts / 400, expected, atol=0.1)


def test_equal_weights_show_every_row_once():
    learner, rng = Counting(20), np.random.default_rng(1)
    ResamplingLearner(learner, np.full(20, 0.3), rng).epoch(rng.permutation(20))  # pyright: ignore[reportArgumentType]
    np.testing.assert_array_equal(learner.counts, 1)


@pytest.fixture(scope="module")
def trained():
    theta, y = ds.toy.simulate(300, seed=1)
    options = {"family": "maf", "sweep": SWEEP, "epochs": 30, "progress": False}
    return ds.train(theta, y, members=1, **options), theta, y


def test_rows_of_no_weight_are_not_learned_from(trained, tmp_path):
    ensemble, theta, y = trained
    wrong = np.concatenate([theta, theta + 8.0]), np.concatenate([y, y])
    weights = np.repeat([1.0, 0.0], len(theta))
    spoilt = ensemble.refit(*wrong, progress=False)[0]
    right = ensemble.refit(*wrong, row_weights=weights, directory=tmp_path, progress=False)[0]
    means = [member.sample(500, y[:50], seed=1).mean(0) for member in (ensemble[0], right, spoilt)]
    assert np.abs(means[0] - means[1]).mean() < 0.5 < 2 < np.abs(means[0] - means[2]).mean()
    with pytest.raises(ds.StaleError, match="its rows"):
        ensemble.refit(*wrong, row_weights=weights[::-1], directory=tmp_path, progress=False)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(7), "must have shape"),
        (np.full(300, -1.0), "not negative"),
        (np.zeros(300), "some must be positive"),
    ],
)
def test_weights_that_are_none_are_refused(trained, weights, message):
    ensemble, theta, y = trained
    with pytest.raises(ValueError, match=message):
        ensemble.refit(theta, y, row_weights=weights, progress=False)
