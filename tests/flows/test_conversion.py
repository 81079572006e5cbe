"""To zuko and back."""

import inspect
from functools import partial

import numpy as np
import pytest
import torch
import zuko

from drystone.flows import from_zuko, to_zuko
from drystone.flows.zuko import to_zuko as conversion
from helpers.flow_zoo import ARCHITECTURES, double, flow_of, points


@pytest.fixture(params=ARCHITECTURES.values(), ids=list(ARCHITECTURES))
def flow(request):
    return flow_of(request.param)


@pytest.fixture
def rows(flow):
    return points(flow)


def test_there_and_back_is_the_same_flow(flow):
    again = from_zuko(to_zuko(flow))
    assert again.architecture.permutations == flow.architecture.permutations
    assert again.architecture.size == flow.architecture.size
    np.testing.assert_array_equal(again.parameters, flow.parameters)


@pytest.mark.parametrize(
    "module",
    [
        lambda: zuko.flows.MAF(3, 2, transforms=3, hidden_features=(20, 20)),
        lambda: zuko.flows.MAF(
            4, 3, transforms=2, hidden_features=(9,) * 3, randperm=True, activation=torch.nn.Tanh
        ),
        lambda: zuko.flows.NSF(3, 2, bins=5, transforms=2, hidden_features=(16, 16)),
        lambda: zuko.flows.NSF(1, 2, bins=5, transforms=2, hidden_features=(16, 16)),
    ],
    ids=["maf", "maf, random orders, tanh", "nsf", "nsf, one feature"],
)
def test_zukos_own_flows_are_taken_over(module):
    torch.manual_seed(0)
    module = module()
    flow = from_zuko(module)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, flow.architecture.features))
    y = rng.normal(size=(30, flow.architecture.context))
    expected = module.double()(double(y)).log_prob(double(x)).detach()
    np.testing.assert_allclose(flow.log_prob(x, y), expected, rtol=2e-5, atol=1e-4)


UNFIT = {
    "elu": (partial(zuko.flows.MAF, activation=torch.nn.ELU), "either ReLU or Tanh throughout; got ELU"),
    "widths": (partial(zuko.flows.MAF, hidden_features=(8, 9)), r"one width; got widths \[8, 9\]"),
    "coupling": (partial(zuko.flows.MAF, passes=2), "fully autoregressive"),
    "residual": (partial(zuko.flows.MAF, residual=True), "plain layers"),
    "map": (zuko.flows.NCSF, "affine or rational-quadratic maps; got CircularRQSTransform"),
    "other transforms": (zuko.flows.SOSPF, "conditional autoregressive transforms; got Uncond"),
}


if "slope" in inspect.signature(zuko.flows.NSF).parameters:  # since zuko 1.6
    UNFIT["slope"] = (partial(zuko.flows.NSF, slope=1e-2), "least slope of 0.001; got 0.01")


@pytest.mark.parametrize(("make", "message"), UNFIT.values(), ids=UNFIT)
def test_what_has_no_counterpart_is_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        from_zuko(make(3, 2))


def test_torchs_random_state_is_left_alone(flow):
    torch.manual_seed(0)
    to_zuko(flow)
    drawn = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(drawn, torch.rand(1))


def test_dropout_acts_in_training_only(flow, rows):
    x, y = map(double, rows)
    module = conversion(flow, dropout=0.5).double()
    plain = to_zuko(flow).double()(y).log_prob(x)
    assert torch.equal(module.eval()(y).log_prob(x), plain)
    if flow.architecture.layers:
        assert not torch.equal(module.train()(y).log_prob(x), plain)
