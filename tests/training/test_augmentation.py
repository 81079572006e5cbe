"""Tests for drystone.training.augmentation: what is trained on, reproducibility, and the two-sample test."""

import warnings

import numpy as np
import pytest

import drystone as ds

CONFIGURATION = ds.Configuration("nsf", transforms=1, units=8, layers=0, bins=4, batch_size=50)
OPTIONS = {"sweep": [CONFIGURATION] * 2, "epochs": 3, "progress": False}


@pytest.fixture(scope="module")
def simulations():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(400, 2))
    return theta, theta + 0.5 * rng.normal(size=(400, 2))


def as_it_is(theta, y, rng):
    return theta, y


def flip(theta, y, rng):
    """Flip the sign of random rows: a symmetry of the simulations."""
    sign = rng.choice([-1.0, 1.0], size=(len(theta), 1))
    return sign * theta, sign * y


def shift(theta, y, rng):
    return theta, y + 1.0


@pytest.mark.parametrize("engine", ["compiled", "torch"])
def test_pairs_as_they_are_train_the_same_members(simulations, engine):
    plain = ds.train(*simulations, engine=engine, **OPTIONS)
    same = ds.train(*simulations, engine=engine, augment=as_it_is, **OPTIONS)
    np.testing.assert_array_equal(same.log_prob(*simulations), plain.log_prob(*simulations))


@pytest.mark.parametrize("target", ["posterior", "likelihood"])
def test_the_same_bits_for_any_number_of_workers(simulations, target):
    one, two = (
        ds.train(*simulations, augment=flip, workers=workers, target=target, **OPTIONS) for workers in (1, 2)
    )
    plain = ds.train(*simulations, target=target, **OPTIONS)
    for a, b, c in zip(one, two, plain, strict=True):
        np.testing.assert_array_equal(a.flow.parameters, b.flow.parameters)
        assert (a.flow.parameters != c.flow.parameters).any()


def test_only_training_rows_are_augmented_once_per_epoch(simulations):
    rows = []

    def seen(theta, y, rng):
        rows.append(len(theta))
        return theta, y

    ds.train(*simulations, augment=seen, validation=0.25, workers=1, **OPTIONS)
    assert rows[0] == 150  # the two-sample test: half of the training rows
    assert rows[1:] == [300] * 6


def test_an_interrupted_training_continues_to_the_same_bits(simulations, tmp_path):
    whole = ds.train(*simulations, augment=flip, **OPTIONS)
    ds.train(*simulations, augment=flip, directory=tmp_path, **{**OPTIONS, "sweep": [CONFIGURATION]})
    resumed = ds.train(*simulations, augment=flip, directory=tmp_path, **OPTIONS)
    np.testing.assert_array_equal(resumed.log_prob(*simulations), whole.log_prob(*simulations))
    with pytest.raises(ds.StaleError):
        ds.train(*simulations, augment=as_it_is, directory=tmp_path, **OPTIONS)
    with pytest.raises(ds.StaleError):
        ds.train(*simulations, directory=tmp_path, **OPTIONS)


def test_a_symmetry_is_not_warned_of_and_a_shift_is(simulations):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds.train(*simulations, augment=flip, **OPTIONS)
    with pytest.warns(UserWarning, match="augmented pairs can be told from real ones"):
        ds.train(*simulations, augment=shift, **OPTIONS)


def test_only_the_joint_distribution_tells_permuted_data_apart(simulations):
    def permuted(theta, y, rng):
        return theta, rng.permutation(y)

    with pytest.warns(UserWarning, match="augmented pairs can be told from real ones"):
        ds.train(*simulations, augment=permuted, **OPTIONS)


def test_p_values_are_not_small_without_a_difference(simulations):
    from drystone.simulation.support import Support
    from drystone.training.augmentation import Augmentation, told_apart
    from drystone.training.inputs import Split
    from drystone.training.targets import PosteriorTarget

    theta, y = simulations
    support = Support.of(None, 2)
    split = Split.of(theta, y, 0.1, 0)
    target = PosteriorTarget.fit(theta, y, split.training, support, log_y=False, clip_y=6.0, components=None)
    data = target.data(theta, y, split.training, split.validation)
    p = [told_apart(data, Augmentation(flip, target, support, theta, y), seed) for seed in range(6)]
    assert min(p) > 0.005
    assert np.mean(p) > 0.2


BAD = {
    "one array": (lambda theta, y, rng: theta, TypeError, r"`augment` must return \(theta, y\); got ndarray"),
    "fewer rows": (lambda theta, y, rng: (theta[1:], y[1:]), ValueError, "`augment` must return `theta` of shape"),
    "NaN": (lambda theta, y, rng: (theta, y * np.nan), ValueError, "finite numbers; some of `y` are not"),
    "outside": (lambda theta, y, rng: (theta + 99, y), ValueError, "`augment`: `theta` must lie in the support"),
}


@pytest.mark.parametrize(("augment", "error", "message"), BAD.values(), ids=BAD)
def test_bad_pairs_are_named(simulations, augment, error, message):
    with pytest.raises(error, match=message):
        ds.train(*simulations, augment=augment, prior=([-9, -9], [9, 9]), **OPTIONS)


def test_a_refit_calls_the_function_again(simulations):
    ensemble = ds.train(*simulations, augment=flip, **OPTIONS)
    refitted = ensemble.refit(*simulations, augment=flip)
    assert refitted.names == ensemble.names
    with pytest.raises(ValueError, match=r"was trained with augment=flip; got augment=None"):
        ensemble.refit(*simulations)
