"""The training loop, with a learner whose losses are written down."""

import numpy as np
import pytest

from drystone.training.engines.loop import Schedule, fit


class Scripted:
    """A learner whose validation losses are given and whose state is the number of epochs so far."""

    def __init__(self, validation):
        self.validation = validation
        self.epochs = 0
        self.orders = []
        self.rates = []
        self.rate = 1.0

    def epoch(self, rows):
        self.epochs += 1
        self.orders.append(rows.tolist())
        self.rates.append(self.rate)
        return 0.5

    def take(self, data):
        raise AssertionError("nothing is augmented here")

    def validation_loss(self):
        return self.validation[self.epochs - 1]

    def scale_learning_rate(self, factor):
        self.rate *= factor

    def state(self):
        return {"flow": np.array([self.epochs])}


def run(validation, epochs=100, patience=None, snapshots=(), lr_drops=0):
    learner = Scripted(validation)
    result = fit(
        learner, np.arange(10, 17), Schedule(epochs, patience, snapshots, lr_drops), np.random.default_rng(0)
    )
    return learner, result


def test_the_best_parameters_are_kept_and_patience_is_counted_from_them():
    learner, result = run([3.0, 1.0, 2.0, 1.5, 1.1, 0.0], patience=3)
    assert learner.epochs == 5
    assert result.best_epoch == 2
    assert result.state["flow"] == [2]
    assert result.validation == [3.0, 1.0, 2.0, 1.5, 1.1]


def test_the_learning_rate_is_cut_before_giving_up():
    losses = [3.0, 1.0, 2.0, 2.0, 0.9, 2.0, 2.0, 2.0, 2.0, 0.0]
    learner, result = run(losses, patience=2, lr_drops=2)
    # Stalled after epochs 4 and 7, for good after 9.
    np.testing.assert_allclose(learner.rates, [1, 1, 1, 1, 0.3, 0.3, 0.3, 0.09, 0.09])
    assert result.best_epoch == 5


def test_cuts_are_not_negative():
    with pytest.raises(ValueError, match="`lr_drops` must not be negative; got -1"):
        Schedule(10, 2, (), -1)


def test_without_patience_every_epoch_is_run():
    learner, result = run([1.0, 2.0, 3.0, 4.0], epochs=4)
    assert learner.epochs == 4
    assert result.state["flow"] == [1]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_loss_that_is_not_finite_ends_it(bad):
    learner, result = run([2.0, bad, 1.0], epochs=3)
    assert result.diverged
    assert learner.epochs == 2


def test_snapshots_are_kept_and_after_an_early_stop_they_are_the_last_state():
    _, result = run([1.0, 2.0, 2.0, 2.0], patience=3, snapshots=(1, 3, 50))
    assert {epoch: int(state["flow"][0]) for epoch, state in result.snapshots.items()} == {1: 1, 3: 3, 50: 4}


def test_rows_are_shuffled_anew_each_epoch():
    learner, _ = run([1.0, 1.0], epochs=2)
    first, second = learner.orders
    assert sorted(first) == sorted(second) == list(range(10, 17))
    assert first != second
