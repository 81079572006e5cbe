"""A member as a torch module."""

import numpy as np
import pytest
import torch

import drystone as ds

# A free parameter, one bounded below, one above, and one in a box.
PRIOR = ([-np.inf, 2.0, -np.inf, -1.0], [np.inf, np.inf, 3.0, 4.0])


@pytest.fixture(scope="module")
def simulations():
    rng = np.random.default_rng(0)
    e = rng.exponential(size=(300, 4))
    theta = np.column_stack([rng.normal(size=300), 2 + e[:, 0], 3 - e[:, 1], rng.uniform(-1, 4, 300)])
    return theta, np.exp(0.3 * theta @ rng.normal(size=(4, 5)) + rng.normal(size=(300, 5)))


@pytest.fixture(scope="module", params=["maf", "nsf"])
def member(request, simulations):
    configuration = ds.Configuration(request.param, transforms=2, units=12, layers=1, bins=4)
    return ds.train(*simulations, sweep=[configuration], prior=PRIOR, epochs=5, log_y=[0, 3, 4], components=3)[0]


def test_the_module_is_the_same_density(member, simulations):
    theta, y = simulations
    module = member.to_zuko().double()
    log_q = module(torch.from_numpy(y)).log_prob(torch.from_numpy(theta))
    np.testing.assert_allclose(log_q.detach(), member.log_prob(theta, y), rtol=1e-3, atol=2e-3)


def test_heavy_tails_and_counts_are_drawn_in_as_the_member_does(simulations):
    theta, y = simulations
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.exp(rng.uniform(-4, 9, len(y)))).astype(float)
    heavy = np.column_stack([rng.standard_cauchy(len(y)), counts, y[:, 0]])
    member = ds.train(theta, heavy, sweep=[ds.Configuration()], prior=PRIOR, epochs=2, workers=1)[0]
    assert member.data_transform.warp.asinh[0]
    assert member.data_transform.warp.root[1]
    log_q = member.to_zuko().double()(torch.from_numpy(heavy)).log_prob(torch.from_numpy(theta))
    np.testing.assert_allclose(log_q.detach(), member.log_prob(theta, heavy), rtol=1e-3, atol=2e-3)


def test_outside_the_support_the_density_is_zero(member, simulations):
    _, y = simulations
    outside = torch.tensor([[0.0, 1.9, 0.0, 0.0], [0.0, 3.0, 3.1, 0.0], [0.0, 3.0, 0.0, 4.1]])
    log_q = member.to_zuko()(torch.from_numpy(y[:3]).float()).log_prob(outside)
    assert torch.equal(log_q, torch.full((3,), -torch.inf))


def test_draws_keep_to_the_support_and_map_back_to_the_noise(member, simulations):
    _, y = simulations
    torch.manual_seed(0)
    distribution = member.to_zuko().double()(torch.from_numpy(y[:4]))
    draws = distribution.sample((50,))
    assert member.support.contains(draws.reshape(-1, 4).numpy()).all()
    z = torch.randn(4, 4, dtype=torch.float64)
    np.testing.assert_allclose(
        distribution.transform(distribution.transform.inv(z)).detach(), z.detach(), atol=1e-6
    )


def test_the_module_can_be_trained_on(member, simulations):
    theta, y = (torch.from_numpy(a).float() for a in simulations)
    module = member.to_zuko()
    module(y).log_prob(theta).mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters())
    assert len(list(module.parameters())) == len(list(module.flow.parameters()))
