"""Members from BayesFlow, for real. Run with ``make test-integrations``."""

import os

import numpy as np
import pytest

import drystone as ds
from drystone.adapters import from_bayesflow

os.environ.setdefault("KERAS_BACKEND", "torch")
bayesflow, keras = pytest.importorskip("bayesflow"), pytest.importorskip("keras")

# What BayesFlow and Keras themselves warn of.
pytestmark = pytest.mark.filterwarnings("ignore")


def simulate(n, seed):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n, 3)).astype(np.float32)
    return theta, (theta + 0.5 * rng.normal(size=(n, 3))).astype(np.float32)


def named(theta, y):
    return {"rate": theta[:, :1], "shape": theta[:, 1:], "counts": y}


PARAMETERS = {"rate": 1, "shape": 2}
THETA, Y = simulate(40, seed=5)


@pytest.fixture(scope="module")
def workflow():
    keras.utils.set_random_seed(0)
    adapter = (
        bayesflow.Adapter()
        .convert_dtype("float64", "float32")
        .concatenate(["rate", "shape"], into="inference_variables")
        .rename("counts", "inference_conditions")
    )
    networks = {
        name: bayesflow.networks.CouplingFlow(depth=2, subnet_kwargs={"widths": (16, 16)})
        for name in ("one", "two")
    }
    made = bayesflow.EnsembleWorkflow(adapter=adapter, inference_networks=networks)
    made.fit_offline(named(*simulate(512, seed=1)), epochs=4, batch_size=64, verbose=0)
    return made


@pytest.fixture(scope="module")
def members(workflow):
    return from_bayesflow(workflow, parameters=PARAMETERS, condition="counts")


def test_an_ensemble_is_unpacked_and_its_density_is_bayesflows(workflow, members):
    assert list(members) == ["one", "two"]
    theirs = workflow.approximator.log_prob(named(THETA, Y), merge_members=False)
    for name, member in members.items():
        np.testing.assert_allclose(member.log_prob(THETA, Y), theirs[name], rtol=1e-5)


def test_columns_are_in_the_order_stated(workflow):
    turned = from_bayesflow(workflow, parameters={"shape": 2, "rate": 1}, condition="counts")["one"]
    straight = from_bayesflow(workflow, parameters=PARAMETERS, condition="counts")["one"]
    np.testing.assert_allclose(turned.log_prob(THETA[:, [1, 2, 0]], Y), straight.log_prob(THETA, Y), rtol=1e-5)
    np.testing.assert_allclose(
        turned.sample(5, Y, seed=0), straight.sample(5, Y, seed=0)[..., [1, 2, 0]], rtol=1e-5
    )
    with pytest.raises(ValueError, match="`parameters` must name 3 columns, as many as theta has; got 2"):
        from_bayesflow(workflow, parameters=["rate", "shape"], condition="counts")["one"].log_prob(THETA, Y)


def test_draws_have_our_axes_and_follow_the_density(members):
    draws = members["one"].sample(2000, Y[:2], seed=0)
    assert draws.shape == (2000, 2, 3)
    log_q = members["one"].log_prob(draws[:, 0], np.repeat(Y[:1], 2000, 0))
    normal = -((draws[:, 0] - Y[0]) ** 2 / 0.5).sum(-1) - 1.5 * np.log(0.5 * np.pi)  # N(y, 0.5²)
    ratio = np.exp(normal - log_q)
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(2000) + 0.02


def test_same_seed_same_draws(members):
    first, second, third = (members["two"].sample(5, Y, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, third)


def test_a_bounded_prior_is_respected(workflow):
    member = from_bayesflow(workflow, PARAMETERS, "counts", prior=([-1.0] * 3, [1.0] * 3))["one"]
    assert np.abs(member.sample(50, Y[:2] / 2, seed=0)).max() <= 1
    assert (member.log_prob(THETA / 9, Y / 2) > workflow_log_prob(workflow, THETA / 9, Y / 2)).all()


def workflow_log_prob(workflow, theta, y):
    return workflow.approximator.log_prob(named(theta, y), merge_members=False)["one"]


def test_weights_go_back_to_bayesflow(workflow, members):
    table = ds.tabulate(members, THETA, Y, draws=50)
    fit = ds.stack(table, ds.Mixture(concentration=1.5))
    weights = fit.member_weights
    assert set(weights) == {"one", "two"}
    theirs = workflow.approximator.log_prob(named(THETA, Y), member_weights=weights)
    np.testing.assert_allclose(fit.apply(table).log_q, theirs, rtol=1e-5)
    posterior = fit.posterior(members)
    assert posterior.sample((7,), Y[0], seed=0).shape == (7, 3)
    drawn = workflow.approximator.sample(num_samples=6, conditions={"counts": Y[:2]}, member_weights=weights)
    assert drawn["shape"].shape == (2, 6, 2)


def test_a_single_workflow_and_a_function_of_the_data():
    adapter = bayesflow.Adapter().rename("theta", "inference_variables").rename("x", "inference_conditions")
    network = bayesflow.networks.CouplingFlow(depth=2, subnet_kwargs={"widths": (8,)})
    workflow = bayesflow.BasicWorkflow(adapter=adapter, inference_network=network)
    data = {"theta": THETA[:, :2], "x": 2 * Y}
    workflow.fit_offline(data, epochs=1, batch_size=20, verbose=0)
    member = from_bayesflow(workflow, "theta", lambda y: {"x": 2 * y})
    np.testing.assert_allclose(member.log_prob(THETA[:, :2], Y), workflow.approximator.log_prob(data), rtol=1e-5)
    assert member.sample(4, Y[:3], seed=0).shape == (4, 3, 2)
    with pytest.raises(TypeError, match="must have `sample` and `log_prob`"):
        from_bayesflow(object(), "theta", "x")


def test_a_network_of_the_data_is_a_likelihood_member_and_its_density_is_bayesflows():
    keras.utils.set_random_seed(0)
    adapter = (
        bayesflow.Adapter()
        .convert_dtype("float64", "float32")
        .concatenate(["rate", "shape"], into="inference_conditions")
        .scale("counts", by=2.0)
        .rename("counts", "inference_variables")
    )
    network = bayesflow.networks.CouplingFlow(depth=2, subnet_kwargs={"widths": (32, 32)})
    workflow = bayesflow.BasicWorkflow(adapter=adapter, inference_network=network)
    workflow.fit_offline(named(*simulate(2048, seed=1)), epochs=12, batch_size=64, verbose=0)
    member = from_bayesflow(workflow, PARAMETERS, "counts", target="likelihood")
    assert member.normalized_in_y
    theirs = workflow.approximator.log_prob(named(THETA, Y))
    np.testing.assert_allclose(member.log_likelihood(THETA, Y), theirs, rtol=1e-5)
    drawn = member.simulate(np.repeat(THETA[:1], 2000, 0), seed=0)
    assert drawn.shape == (2000, 3)
    np.testing.assert_array_equal(drawn, member.simulate(np.repeat(THETA[:1], 2000, 0), seed=0))
    # It is a density of y in the units of y, whatever the adapter does.
    log_q = member.log_likelihood(np.repeat(THETA[:1], 2000, 0), drawn)
    normal = -((drawn - THETA[0]) ** 2 / 0.5).sum(-1) - 1.5 * np.log(0.5 * np.pi)  # N(θ, 0.5²)
    ratio = np.exp(normal - log_q)
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(2000) + 0.02
    posterior = ds.normalize({"nle": member}, prior=ds.tasks.Normal([0.0] * 3, [1.0] * 3), draws=200)["nle"]
    exact = -((THETA - 0.8 * Y) ** 2 / 0.4).sum(1) - 1.5 * np.log(0.4 * np.pi)  # N(0.8 y, 0.2)
    assert (exact - posterior.log_prob(THETA, Y)).mean() < 0.3


def test_a_ratio_is_a_likelihood_member():
    adapter = bayesflow.Adapter().rename("theta", "inference_variables").rename("x", "inference_conditions")
    network = bayesflow.networks.MLP(widths=(32, 32))
    approximator = bayesflow.approximators.RatioApproximator(adapter=adapter, inference_network=network)
    approximator.compile(optimizer=keras.optimizers.Adam(1e-3))
    theta, y = simulate(512, seed=1)
    data = bayesflow.datasets.OfflineDataset({"theta": theta, "x": y}, batch_size=64, adapter=adapter)
    approximator.fit(dataset=data, epochs=2, verbose=0)
    member = from_bayesflow(approximator, "theta", "x")
    assert not member.normalized_in_y
    assert not hasattr(member, "simulate")
    values = member.log_likelihood(THETA, Y)
    assert values.shape == (40,)
    assert values.mean() > member.log_likelihood(THETA[::-1], Y).mean()
    with pytest.raises(ValueError, match=r"give the prior of likelihoods and ratios to ds\.normalize"):
        from_bayesflow(approximator, "theta", "x", prior=([-1.0] * 3, [1.0] * 3))
