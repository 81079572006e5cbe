"""The sequence of members, together and on disk."""

from dataclasses import replace

import numpy as np
import pytest

import drystone as ds
from drystone.training.disk import Stored


@pytest.fixture(scope="module")
def simulations():
    rng = np.random.default_rng(3)
    theta = rng.exponential(size=(200, 3))
    return theta, theta @ rng.normal(size=(3, 4)) + rng.normal(size=(200, 4))


@pytest.fixture(scope="module")
def ensemble(simulations):
    sweep = ds.Sweep(transforms=(1, 3), units=(8, 16), bins=(3, 5))
    return ds.train(
        *simulations, members=3, family="nsf", sweep=sweep, prior=([0, 0, 0], [np.inf] * 3), epochs=3,
        snapshots=(2,), components=2,
    )  # fmt: skip


def test_all_members_at_once_are_each_member_alone(ensemble, simulations):
    theta, y = simulations
    together = ensemble.log_prob(theta, y)
    assert together.shape == (3, 200)
    for row, member in zip(together, ensemble, strict=True):
        np.testing.assert_array_equal(row, member.log_prob(theta, y))


def test_draws_of_all_members_are_fixed_by_the_seed_and_differ_between_members(ensemble, simulations):
    _, y = simulations
    draws = ensemble.sample(5, y[:7], seed=4)
    assert draws.shape == (3, 5, 7, 3)
    np.testing.assert_array_equal(draws, ensemble.sample(5, y[:7], seed=4, workers=1))
    assert not np.array_equal(draws[0], draws[1])


def test_one_row_of_y_serves_all_rows_of_theta(ensemble, simulations):
    theta, y = simulations
    expected = ensemble[0].log_prob(theta, np.repeat(y[:1], 200, axis=0))
    np.testing.assert_array_equal(ensemble[0].log_prob(theta, y[:1]), expected)


def test_members_are_read_back_to_the_bit_and_only_when_used(ensemble, simulations, tmp_path):
    theta, y = simulations
    ensemble.save(tmp_path)
    files = sorted(path.suffix for path in tmp_path.iterdir() if path.name != "timings.jsonl")
    assert files == [".json"] * 3 + [".safetensors"] * 3
    again = ds.Ensemble.load(tmp_path)
    assert again.names == ensemble.names
    assert again.frame.equals(ensemble.frame)
    again[1]
    assert [isinstance(member, Stored) for member in again._members] == [True, False, True]
    np.testing.assert_array_equal(again.log_prob(theta, y), ensemble.log_prob(theta, y))
    np.testing.assert_array_equal(again.sample(3, y, seed=0), ensemble.sample(3, y, seed=0))
    np.testing.assert_array_equal(again.snapshot(2).log_prob(theta, y), ensemble.snapshot(2).log_prob(theta, y))


def test_members_are_read_back_in_the_order_of_their_numbers(ensemble, tmp_path):
    names = ["nsf-002", "maf-100", "nsf-999", "maf-1000", "nsf-1001"]
    ds.Ensemble([replace(ensemble[0], name=name) for name in names]).save(tmp_path)
    assert list(ds.Ensemble.load(tmp_path).names) == names


def test_a_member_is_found_by_position_and_by_name(ensemble):
    assert ensemble["nsf-001"] is ensemble[1]
    with pytest.raises(KeyError, match="unknown member 'nsf-01'; known: nsf-000, nsf-001, nsf-002"):
        ensemble["nsf-01"]


def test_a_slice_is_an_ensemble(ensemble):
    assert ensemble[1:].names == ensemble.names[1:]
    assert repr(ensemble) == "Ensemble(3 members: nsf-000, nsf-001, nsf-002)"


def test_the_frame_has_a_row_per_member(ensemble):
    frame = ensemble.frame
    assert list(frame.index) == list(ensemble.names)
    assert (frame["epochs"] == 3).all()
    assert frame["validation_loss"].tolist() == [min(member.history.validation) for member in ensemble]


def test_repeated_names_are_refused(ensemble):
    with pytest.raises(ValueError, match="must be unique; duplicated: nsf-000"):
        ds.Ensemble([ensemble[0], ensemble[0]])


def test_what_is_not_there_is_said(tmp_path, simulations):
    with pytest.raises(ValueError, match="no members"):
        ds.Ensemble.load(tmp_path)
    with pytest.raises(ValueError, match="the ensemble has no members"):
        ds.Ensemble([]).log_prob(*simulations)
    (tmp_path / "a.json").write_text('{"format": 99}')
    with pytest.raises(ValueError, match="is not a member of format 2"):
        ds.Ensemble.load(tmp_path)


def test_wrong_shapes_are_named(ensemble, simulations):
    theta, y = simulations
    with pytest.raises(ValueError, match=r"`theta` must have shape \(N, 3\); got \(200, 2\)"):
        ensemble[0].log_prob(theta[:, :2], y)
    with pytest.raises(ValueError, match=r"`y` must have shape \(N, 4\); got \(200, 3\)"):
        ensemble[0].log_prob(theta, y[:, :3])
