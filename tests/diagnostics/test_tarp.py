"""Tests for drystone.diagnostics.tarp."""

import numpy as np
import pytest

import drystone as ds
from helpers.tables import make_table


@pytest.fixture(scope="module")
def gaussian():
    """The Gaussian task's exact posterior, the same too narrow, and the same shifted."""
    task, rng = ds.tasks.get("gaussian"), np.random.default_rng(0)
    theta = task.prior.sample(400, rng)
    y = np.asarray(task.simulate(theta, rng), float)
    exact = np.stack([task.sample_posterior(row, 99, rng) for row in y])
    centre = exact.mean(1, keepdims=True)
    members = [exact, centre + 0.6 * (exact - centre), exact + 0.7 * exact.std(1).mean(0)]
    return ds.Table(theta, y, draws=np.stack(members), names=["exact", "narrow", "shifted"])


@pytest.mark.parametrize("seed", [1, 2])
def test_only_the_exact_posterior_is_on_the_diagonal(gaussian, seed):
    found = ds.diagnostics.tarp(gaussian, seed=seed)
    assert found.members_inside[:, 0].tolist() == [True, False, False]
    assert np.abs(found.members[0, :, 0] - found.grid).max() < 0.09


def test_a_narrow_posterior_is_above_the_diagonal_first_and_then_below(gaussian):
    found = ds.diagnostics.tarp(gaussian)
    difference = found.members[1, :, 0] - found.grid
    assert difference[found.grid < 0.2].mean() > 0.02
    assert difference[found.grid > 0.8].mean() < -0.02


def test_shares_are_counted_in_balls_around_the_references():
    table = make_table()
    references = table.theta[::-1] + 0.3
    found = ds.diagnostics.tarp(table, references=references)
    unit = np.ptp(table.theta, axis=0)
    to_truth = np.linalg.norm((table.theta - references) / unit, axis=1)
    to_draws = np.linalg.norm((table.draws[2] - references[:, None]) / unit, axis=2)
    u = ((to_draws <= to_truth[:, None]).sum(1) + 0.5) / (table.S + 1)
    np.testing.assert_allclose(found.members[2, :, 0], (u[None] <= found.grid[:, None]).mean(1))


def test_stacks_are_judged_by_their_draws():
    table = make_table()
    fit = ds.stack(table)
    found = ds.diagnostics.tarp(table, fit, seed=5)
    alone = ds.Table(table.theta, draws=fit.view(table).independent_draws(5).numpy()[None])
    by_hand = ds.diagnostics.tarp(alone, seed=5).members[0]
    np.testing.assert_allclose(found.methods["stacked"], by_hand, atol=1e-12)


def test_wrong_arguments_are_named():
    table = make_table()
    with pytest.raises(ValueError, match="TARP needs `draws`"):
        ds.diagnostics.tarp(ds.Table(table.theta, rank=table.rank))
    with pytest.raises(ValueError, match=r"`references` must have shape \(N, d\) = \(60, 3\); got \(3,\)"):
        ds.diagnostics.tarp(table, references=[0.0, 0.0, 0.0])
