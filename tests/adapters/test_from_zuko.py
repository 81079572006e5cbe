"""Members from zuko, and members of different kinds in one stack."""

import numpy as np
import pytest
import torch
import zuko
from scipy.integrate import quad

import drystone as ds
from drystone.adapters import from_functions, from_lampe, from_zuko


@pytest.fixture
def flow():
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return zuko.flows.NSF(2, context=3, transforms=2, hidden_features=[8])


def test_density_and_draws_are_those_of_the_flow(flow):
    rng = np.random.default_rng(0)
    theta, y = rng.normal(size=(5, 2)), rng.normal(size=(5, 3))
    member = from_zuko(flow)
    with torch.no_grad():
        exact = flow(torch.tensor(y).float()).log_prob(torch.tensor(theta).float())
    np.testing.assert_allclose(member.log_prob(theta, y), exact, rtol=1e-6)
    draws = member.sample(3000, y, seed=0)
    assert draws.shape == (3000, 5, 2)
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(7)
        others = flow(torch.tensor(y).float()).sample((3000,)).numpy()
    error = np.sqrt(draws.var(0) / 3000 + others.var(0) / 3000)
    assert (np.abs(draws.mean(0) - others.mean(0)) < 5 * error).all()


def test_precision_is_that_of_the_module(flow):
    member = from_zuko(flow.double())
    assert member.log_prob(np.zeros((2, 2)), np.zeros((2, 3))).dtype == np.float64


def test_draws_are_seeded_apart_from_the_global_generator(flow):
    member, state, y = from_zuko(flow), torch.random.get_rng_state(), np.zeros((2, 3))
    np.testing.assert_array_equal(member.sample(9, y, seed=1), member.sample(9, y, seed=1))
    assert torch.equal(state, torch.random.get_rng_state())


def test_no_draws_are_an_empty_array(flow):
    assert from_zuko(flow).sample(0, np.zeros((4, 3))).shape == (0, 4, 2)


def test_what_is_no_module_is_refused():
    with pytest.raises(TypeError, match=r"`flow` must be a torch module .*; got Normal. .*`from_functions`"):
        from_zuko(torch.distributions.Normal(0.0, 1.0))  # pyright: ignore[reportArgumentType]


def test_a_bounded_prior_is_respected():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        member = from_zuko(zuko.flows.MAF(1, context=1), prior=([-0.5], [2.0]), error=0.01)
    y = np.array([[0.4]])
    total, _ = quad(lambda t: np.exp(member.log_prob(np.array([[t]]), y)[0]), -0.5, 2.0)
    assert total == pytest.approx(1, abs=0.05)


def test_lampe_estimators_are_taken_by_their_flow(flow):
    estimator = torch.nn.Module()
    estimator.flow = flow
    member, y = from_lampe(estimator, prior=([-9, -9], [9, 9])), np.zeros((4, 3))
    np.testing.assert_allclose(member.log_prob(np.zeros((4, 2)), y), from_zuko(flow).log_prob(np.zeros((4, 2)), y))
    with pytest.raises(TypeError, match=r"must have a `flow`.*got Linear"):
        from_lampe(torch.nn.Linear(1, 1))


def test_members_of_different_kinds_stack_together():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        flow = from_zuko(zuko.flows.MAF(1, context=1), prior=([-12.0], [12.0]))
    members = {
        "flow": flow,
        "functions": from_functions(ds.toy.MEMBERS["right"].log_prob, ds.toy.MEMBERS["right"].sample),
        "ours": ds.toy.MEMBERS["left"],
    }
    theta, y = ds.toy.simulate(300, seed=3)
    keep = np.abs(theta[:, 0]) < 12
    table = ds.tabulate(members, theta[keep], y[keep], draws=50)
    posterior = ds.stack(table).posterior(members)
    assert posterior.sample((7,), y[0]).shape == (7, 1)
    # Two members off by one to either side, as they are, share the weight.
    assert posterior.weights[1] == pytest.approx(0.5, abs=0.1)
    assert set(posterior.member_weights) == {
        m for m, w in zip(table.names, posterior.weights, strict=True) if w > 0
    }
