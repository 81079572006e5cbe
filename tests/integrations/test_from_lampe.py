"""Members from lampe, for real. Run with ``make test-integrations``."""

import numpy as np
import pytest
import torch

pytest.importorskip("lampe")

from lampe.inference import FMPE, NPE, NRE  # pyright: ignore[reportMissingImports]

from drystone.adapters import from_lampe

Y = np.random.default_rng(0).normal(size=(4, 3))
THETA = np.random.default_rng(1).normal(size=(4, 2))


@pytest.mark.parametrize("kind", [NPE, FMPE])
def test_density_and_draws_are_those_of_the_flow(kind):
    torch.manual_seed(0)
    estimator = kind(2, 3, hidden_features=[8])
    member = from_lampe(estimator)
    with torch.no_grad():
        exact = estimator.flow(torch.tensor(Y).float()).log_prob(torch.tensor(THETA).float())
    np.testing.assert_allclose(member.log_prob(THETA, Y), exact, rtol=1e-4)
    assert member.sample(5, Y, seed=0).shape == (5, 4, 2)
    np.testing.assert_array_equal(member.sample(5, Y, seed=0), member.sample(5, Y, seed=0))


def test_a_ratio_estimator_is_no_member():
    with pytest.raises(TypeError, match="must have a `flow`"):
        from_lampe(NRE(2, 3))
