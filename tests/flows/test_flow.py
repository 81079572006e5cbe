"""Density, draws and gradient against zuko in double precision, and the laws of a density."""

import numpy as np
import pytest

from drystone.flows import Architecture, Flow
from drystone.flows.zuko import parameters_of
from drystone.training.engines.compiled import CompiledLearner
from drystone.training.engines.loop import Data
from drystone.training.sweep import Configuration
from helpers.flow_zoo import ARCHITECTURES, double, flow_of, points


@pytest.fixture(params=ARCHITECTURES.values(), ids=list(ARCHITECTURES))
def flow(request):
    return flow_of(request.param)


@pytest.fixture
def rows(flow):
    return points(flow)


def one_step(flow, x, y, dropout=0.0):
    """Take one step on one batch of all rows; return the loss and the gradient that Adam saw."""
    everything = np.arange(len(x))
    learner = CompiledLearner(
        flow.architecture,
        Configuration(batch_size=len(x), dropout=dropout),
        Data(x, y, everything, everything),
        np.random.default_rng(5),
    )
    learner.parameters[:] = flow.parameters
    loss = learner.epoch(everything)
    # Adam's first running mean is (1 − β₁) g.
    return loss, learner.mean / np.float32(1 - 0.9)


def test_log_prob_is_that_of_zuko(flow, rows):
    x, y = rows
    expected = flow.to_zuko().double()(double(y)).log_prob(double(x)).detach().numpy()
    np.testing.assert_allclose(flow.log_prob(x, y), expected, rtol=2e-5, atol=2e-4)


def test_draws_are_those_of_zuko_for_the_same_noise(flow, rows):
    _, y = rows
    noise = np.random.default_rng(3).standard_normal((3, 5, flow.architecture.features), np.float32)
    draws = flow.push(noise, y[:3])
    distribution = flow.to_zuko().double()(double(np.repeat(y[:3], 5, axis=0)))
    expected = distribution.transform.inv(double(noise.reshape(15, -1))).detach().numpy()
    np.testing.assert_allclose(draws.reshape(15, -1), expected, rtol=1e-3, atol=1e-4)


def test_the_gradient_is_that_of_autograd(flow, rows):
    x, y = rows
    # The norm is below the clip for half-size parameters, so that the gradient is seen whole.
    flow = Flow(flow.architecture, flow.parameters / 2)
    module = flow.to_zuko().double()
    loss = -module(double(y)).log_prob(double(x)).mean()
    loss.backward()
    for parameter in module.parameters():
        parameter.data = parameter.data * 0 if parameter.grad is None else parameter.grad
    expected = parameters_of(module, flow.architecture)
    norm = np.linalg.norm(expected)
    expected *= min(1, 5 / norm)

    compiled_loss, gradient = one_step(flow, x, y)
    trainable = np.zeros(flow.architecture.size, bool)
    for start, stop in flow.architecture.runs:
        trainable[start:stop] = True
    assert compiled_loss == pytest.approx(loss.item(), rel=1e-5)
    np.testing.assert_allclose(gradient[trainable], expected[trainable], rtol=1e-3, atol=1e-4)
    assert not gradient[~trainable].any()


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_the_gradient_with_dropout_is_the_slope_of_the_loss(activation):
    architecture = Architecture("maf", 3, 4, transforms=2, units=20, layers=2, activation=activation)
    flow = Flow.initial(architecture, 4)
    rng = np.random.default_rng(6)
    x, y = rng.standard_normal((40, 3), np.float32), rng.standard_normal((40, 4), np.float32)
    loss, gradient = one_step(flow, x, y, dropout=0.3)
    assert loss != one_step(flow, x, y)[0]
    assert np.linalg.norm(gradient) < 4.9  # not clipped

    # The same seed drops the same units, so the loss is a plain function of the parameters.
    direction = gradient / np.linalg.norm(gradient)
    h = 1e-2
    ahead, behind = (
        one_step(Flow(architecture, (flow.parameters + s * h * direction).astype(np.float32)), x, y, dropout=0.3)[
            0
        ]
        for s in (1, -1)
    )
    assert (ahead - behind) / (2 * h) == pytest.approx(np.linalg.norm(gradient), rel=2e-3)


def test_draws_have_the_density_of_the_flow(flow, rows):
    """The noise that a draw came from is found again by the bijection whose Jacobian the density has."""
    _, y = rows
    d = flow.architecture.features
    noise = np.random.default_rng(3).standard_normal((4, 2, d), np.float32)
    draws = flow.push(noise, y[:4]).reshape(8, d)
    module = flow.to_zuko().double()(double(np.repeat(y[:4], 2, axis=0)))
    found = module.transform(double(draws)).detach().numpy()
    np.testing.assert_allclose(found, noise.reshape(8, d), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("family", ["maf", "nsf"])
def test_the_density_integrates_to_one_in_one_dimension(family):
    flow = flow_of(Architecture(family, 1, 2, transforms=3, units=12, layers=1, bins=5))
    x = np.linspace(-30, 30, 60_001)[:, None]
    y = np.broadcast_to([0.7, -1.2], (len(x), 2))
    density = np.exp(flow.log_prob(x, y).astype(np.float64))
    assert np.trapezoid(density, x[:, 0]) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("family", ["maf", "nsf"])
def test_the_density_integrates_to_one_in_two_dimensions(family):
    flow = Flow.initial(Architecture(family, 2, 2, transforms=3, units=12, layers=1, bins=5), 3)
    axis = np.linspace(-12, 12, 801)
    x = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.exp(flow.log_prob(x, np.broadcast_to([0.7, -1.2], (len(x), 2))).astype(np.float64))
    area = np.trapezoid(np.trapezoid(density.reshape(801, 801), axis), axis)
    assert area == pytest.approx(1, abs=2e-3)


def test_zero_parameters_are_the_standard_normal():
    for family in ("maf", "nsf"):
        architecture = Architecture(family, 2, 3, units=8)
        flow = Flow(architecture, np.zeros(architecture.size, np.float32))
        x = np.array([[0.3, -1.1], [7.0, 2.0]])
        expected = -0.5 * (x**2).sum(axis=1) - np.log(2 * np.pi)
        np.testing.assert_allclose(flow.log_prob(x, np.ones((2, 3))), expected, rtol=1e-5)


def test_rows_do_not_depend_on_their_neighbours(flow):
    """More rows than are pushed through together, and a remainder."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((300, flow.architecture.features), np.float32)
    y = rng.standard_normal((300, flow.architecture.context), np.float32)
    whole = flow.log_prob(x, y)
    np.testing.assert_allclose(flow.log_prob(x[290:], y[290:]), whole[290:], rtol=1e-4, atol=1e-4)
    draws = flow.push(np.ones((300, 1, x.shape[1]), np.float32), y)
    again = flow.push(np.ones((10, 1, x.shape[1]), np.float32), y[290:])
    np.testing.assert_allclose(again, draws[290:], rtol=1e-3, atol=1e-4)


def test_nan_is_not_hidden(flow, rows):
    x, y = rows
    broken = Flow(flow.architecture, np.full(flow.architecture.size, np.nan, np.float32))
    assert np.isnan(broken.log_prob(x, y)).all()


def test_sample_gives_draws_first_and_is_fixed_by_the_seed():
    flow = Flow.initial(Architecture("maf", 3, 2, units=8))
    y = np.random.default_rng(0).normal(size=(4, 2))
    draws = flow.sample(5, y, seed=9)
    assert draws.shape == (5, 4, 3)
    np.testing.assert_array_equal(draws, flow.sample(5, y, seed=9))
    assert not np.array_equal(draws, flow.sample(5, y, seed=10))
    assert flow.sample(0, y).shape == (0, 4, 3)


def test_wrong_shapes_are_named():
    flow = Flow.initial(Architecture("maf", 3, 2, units=8))
    with pytest.raises(ValueError, match=r"`x` must have shape \(N, 3\); got \(4, 2\)"):
        flow.log_prob(np.ones((4, 2)), np.ones((4, 2)))
    with pytest.raises(ValueError, match="`x` and `y` must have the same number of rows; got 4 and 5"):
        flow.log_prob(np.ones((4, 3)), np.ones((5, 2)))
    with pytest.raises(ValueError, match=r"`parameters` must have shape"):
        Flow(flow.architecture, np.ones(3, np.float32))
