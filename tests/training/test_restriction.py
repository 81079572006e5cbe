"""Flows restricted to the box of the prior: densities that integrate to one, and draws that follow them."""

from dataclasses import replace

import numpy as np
import pytest

import drystone as ds
from drystone.flows import Architecture, Flow
from drystone.simulation.support import Support
from drystone.training.preprocessing import Scaling
from drystone.training.restriction import DEFENSIVE, Restriction

CONTEXT = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
RESTRICTED = ds.Configuration("nsf", transforms=2, units=8, layers=1, bounds="restrict")
MAPPED = replace(RESTRICTED, bounds="map")
BOX = ([-1.0, 0.0], [1.0, 3.0])


def restriction(support, seed=0):
    """Return an untrained flow of two parameters, restricted to a support."""
    flow = Flow.initial(Architecture("nsf", features=2, context=3, units=16), seed)
    scaling = Scaling(np.array([0.1, 1.0]), np.array([0.7, 1.1]))
    return Restriction(flow, support, scaling)


def grid(lower, upper, n=300):
    """Return the midpoints of n × n cells, (n², 2), and their area."""
    sides = [low + (high - low) * (np.arange(n) + 0.5) / n for low, high in zip(lower, upper, strict=True)]
    area = np.prod([(high - low) / n for low, high in zip(lower, upper, strict=True)])
    return np.stack(np.meshgrid(*sides, indexing="ij"), -1).reshape(-1, 2), area


def problem(n, seed):
    """Return θ in a box and θ with noise; posteriors are cut off at the bounds."""
    rng = np.random.default_rng(seed)
    theta = rng.uniform(*BOX, (n, 2))
    return theta, theta + 0.5 * rng.standard_normal((n, 2))


@pytest.mark.parametrize(
    ("support", "lower", "upper"),
    [
        (Support(*BOX, linear=np.inf), (-1.5714, -0.9091), (1.2857, 1.8182)),
        (Support([-1.0, -np.inf], [1.0, np.inf], linear=np.inf), (-1.5714, -9.0), (1.2857, 9.0)),
    ],
    ids=["box", "box and reals"],
)
def test_density_integrates_to_one_in_the_box(support, lower, upper):
    restricted = restriction(support)
    x, area = grid(lower, upper)
    for c in CONTEXT:
        log_q = restricted.log_prob(x, np.broadcast_to(c, (len(x), 3)))
        assert np.exp(log_q).sum() * area == pytest.approx(1, abs=0.02)
    assert 0.2 < restricted.share(CONTEXT).mean() < 0.9  # the flow leaks


def test_draws_follow_the_density():
    restricted = restriction(Support(*BOX, linear=np.inf))
    x, area = grid(restricted.lower, restricted.upper)
    draws = restricted.sample(20_000, CONTEXT, seed=1)
    assert ((draws >= restricted.lower) & (draws <= restricted.upper)).all()
    for n, c in enumerate(CONTEXT):
        q = np.exp(restricted.log_prob(x, np.broadcast_to(c, (len(x), 3)))) * area
        mean = q @ x / q.sum()
        np.testing.assert_allclose(draws[:, n].mean(0), mean, atol=0.03)
        np.testing.assert_allclose(draws[:, n].var(0), q @ (x - mean) ** 2 / q.sum(), rtol=0.05)


def test_a_flow_with_no_mass_inside_is_uniform_there():
    far = Scaling(np.array([50.0, 1.0]), np.array([0.01, 1.0]))  # the box lies 5,000 standard deviations away
    flow = restriction(Support(*BOX, linear=np.inf)).flow
    restricted = Restriction(flow, Support(*BOX, linear=np.inf), far)
    x, area = grid(restricted.lower, restricted.upper, 50)
    log_q = restricted.log_prob(x, np.broadcast_to(CONTEXT[0], (len(x), 3)))
    np.testing.assert_allclose(np.exp(log_q) * area * len(x), 1, rtol=1e-6)
    share = (restricted.sample(400, CONTEXT[:1], seed=0)[:, 0, 0] < restricted.lower[0] + 100).mean()
    assert share == pytest.approx(0.5, abs=0.1)  # the box is 200 wide


def test_estimated_share_is_that_of_independent_draws():
    restricted = restriction(Support(*BOX, linear=np.inf))
    draws = restricted.flow.sample(50_000, CONTEXT, seed=3)
    inside = ((draws >= restricted.lower) & (draws <= restricted.upper)).all(-1).mean(0)
    np.testing.assert_allclose(restricted.share(CONTEXT), inside, rtol=0.05)


def test_density_does_not_depend_on_the_other_rows_or_on_earlier_calls():
    theta, y = problem(200, 0)
    member = ds.train(theta, y, sweep=[RESTRICTED], prior=BOX, epochs=3, workers=1)[0]
    together = member.log_prob(theta, y)
    order = np.random.default_rng(0).permutation(200)
    fresh = replace(member)  # remembers nothing
    np.testing.assert_array_equal(
        fresh._restriction.share(member.context(y[order])), member._restriction.share(member.context(y))[order]
    )
    np.testing.assert_allclose(member.log_prob(theta[order], y[order]), together[order], rtol=1e-5, atol=1e-5)


def test_restricted_member_is_better_than_its_flow_at_the_bounds():
    """Cutting off and renormalizing can only raise the density inside, but for the share of the uniform one."""
    theta, y = problem(600, 1)
    member = ds.train(theta, y, sweep=[RESTRICTED], prior=BOX, epochs=20, workers=1)[0]
    leaking = replace(member, support=Support([-np.inf] * 2, [np.inf] * 2))
    assert (member.log_prob(theta, y) >= leaking.log_prob(theta, y) - 2 * DEFENSIVE).all()
    assert member.log_prob(theta, y).mean() > leaking.log_prob(theta, y).mean() + 0.1
    assert member.log_prob([[1.5, 1.0]], y[:1]) == -np.inf
    assert member.support.contains(member.sample(500, y, seed=0)).all()
    assert member.sample(0, y).shape == (0, 600, 2)
    assert member.sample(3, y[:0]).shape == (3, 0, 2)


def test_members_of_both_kinds_are_stored_refitted_and_continued(tmp_path):
    theta, y = problem(300, 2)
    options = {"sweep": [MAPPED, RESTRICTED], "prior": BOX, "epochs": 3, "workers": 1}
    ensemble = ds.train(theta, y, directory=tmp_path / "members", **options)
    assert ensemble.frame["bounds"].tolist() == ["map", "restrict"]
    loaded = ds.Ensemble.load(tmp_path / "members")
    np.testing.assert_array_equal(loaded.log_prob(theta, y), ensemble.log_prob(theta, y))
    again = ds.train(theta, y, directory=tmp_path / "members", **options)
    np.testing.assert_array_equal(again.log_prob(theta, y), ensemble.log_prob(theta, y))
    refitted = loaded.refit(theta, y, directory=tmp_path / "refitted")
    assert [member.support.linear for member in refitted] == [ensemble[0].support.linear, np.inf]
    assert refitted[1].log_prob([[1.5, 1.0]], y[:1]) == -np.inf


def test_validation_losses_of_both_kinds_are_in_the_same_units():
    rng = np.random.default_rng(3)
    theta = rng.uniform(*BOX, (400, 2)) * 0.5 + [0.0, 0.75]  # far from the bounds: hardly anything is cut off
    y = theta + 0.05 * rng.standard_normal((400, 2))
    held_out = theta[300:], y[300:]
    members = ds.train(
        theta[:300], y[:300], sweep=[MAPPED, RESTRICTED], prior=BOX, epochs=10, validation=held_out, workers=1
    )
    loss = [min(member.history.validation) for member in members]
    gain = members[1].log_prob(*held_out).mean() - members[0].log_prob(*held_out).mean()
    assert loss[0] - loss[1] == pytest.approx(gain, abs=0.05)


def test_without_two_bounds_there_is_nothing_to_restrict():
    theta, y = problem(200, 4)
    for prior in (None, ([-2.0, -1.0], [np.inf, np.inf])):
        mapped, restricted = (
            ds.train(theta, y, sweep=[MAPPED, MAPPED], prior=prior, epochs=2, workers=1),
            ds.train(theta, y, sweep=[RESTRICTED, RESTRICTED], prior=prior, epochs=2, workers=1),
        )
        np.testing.assert_array_equal(mapped.log_prob(theta, y), restricted.log_prob(theta, y))


def test_restricted_member_says_that_it_is_no_zuko_flow():
    pytest.importorskip("zuko")
    theta, y = problem(100, 5)
    member = ds.train(theta, y, sweep=[RESTRICTED], prior=BOX, epochs=1, workers=1)[0]
    with pytest.raises(ValueError, match=r"restricted to the box.*member\.flow\.to_zuko"):
        member.to_zuko()


def test_unknown_bounds_are_refused():
    with pytest.raises(ValueError, match="'map' or 'restrict'; got 'clip'"):
        replace(MAPPED, bounds="clip")
