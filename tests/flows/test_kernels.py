"""The parts of the kernels that have an answer of their own."""

import numba
import numpy as np
import pytest
import torch

from drystone.flows import Architecture, Flow
from drystone.flows.kernels import blas, compiled, network
from drystone.flows.kernels.compiled import f32
from drystone.flows.zuko import parameters_of
from drystone.training.engines.compiled import CompiledLearner
from drystone.training.engines.loop import Data
from drystone.training.sweep import Configuration
from helpers.flow_zoo import double


def call(kernel, *arguments):
    """Call a kernel, which only compiled code can."""

    @numba.njit
    def entry(*arguments):
        return kernel(*arguments)

    return entry(*arguments)


def over(function, x):
    """Apply an inlined scalar function to every element, compiled."""

    @compiled.kernel
    def loop(x, out):
        for i in range(x.size):
            out[i] = function(x[i])

    out = np.empty_like(x)
    call(loop, x, out)
    return out


@pytest.mark.parametrize(
    ("ours", "exact", "x"),
    [
        (compiled.exp, np.exp, np.linspace(-86, 86, 100_003)),
        (compiled.log, np.log, np.exp(np.linspace(-80, 80, 100_003))),
        (compiled.tanh, np.tanh, np.linspace(-12, 12, 100_003)),
    ],
    ids=["exp", "log", "tanh"],
)
def test_functions_are_accurate_to_a_few_units_in_the_last_place(ours, exact, x):
    x = x.astype(np.float32)
    np.testing.assert_allclose(over(ours, x), exact(x.astype(np.float64)), rtol=3e-7, atol=1e-9)


def test_nan_passes_through_exp_and_tanh():
    nan = np.array([np.nan], np.float32)
    assert np.isnan(over(compiled.exp, nan))
    assert np.isnan(over(compiled.tanh, nan))


def test_products_work_on_views_of_larger_matrices():
    rng = np.random.default_rng(0)
    W, h, g = (rng.standard_normal(shape, np.float32) for shape in ((9, 8), (8, 5), (9, 5)))

    @compiled.kernel
    def multiply(W, h, g, out, back, outer):
        blas.product(W[2:6, :3], h[:3], out, f32(0.5))
        blas.product_transposed(W[2:6, :3], g[2:6], back, f32(0.0))
        blas.product_outer(g[2:6], h[:3], outer[1:5, :3])

    out, back, outer = np.ones((4, 5), np.float32), np.ones((3, 5), np.float32), np.zeros((6, 7), np.float32)
    call(multiply, W, h, g, out, back, outer)
    np.testing.assert_allclose(out, W[2:6, :3] @ h[:3] + 0.5, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(back, W[2:6, :3].T @ g[2:6], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(outer[1:5, :3], g[2:6] @ h[:3].T, rtol=1e-5, atol=1e-6)
    assert np.count_nonzero(outer) == 12


def test_dropout_drops_its_share_and_keeps_the_mean():
    values = np.full(100_003, 2.0, np.float32)
    state = np.array([11, 12], np.uint64)
    call(network.drop, values, f32(0.25), state)
    assert set(np.unique(values)) == {0, np.float32(2 / 0.75)}
    # Four standard errors of a share of 1/4 among 10⁵.
    assert (values == 0).mean() == pytest.approx(0.25, abs=4 * np.sqrt(0.25 * 0.75 / 1e5))
    again = np.full(100_003, 2.0, np.float32)
    call(network.drop, again, f32(0.25), state)
    assert not np.array_equal(values, again)


def test_an_epoch_takes_the_steps_of_torchs_adam_with_clipped_norms():
    architecture = Architecture("nsf", 3, 2, transforms=2, units=10, layers=1, bins=4)
    configuration = Configuration("nsf", batch_size=16, learning_rate=3e-3)
    rng = np.random.default_rng(1)
    # Far from standard, so that the first norms are above the clip.
    x = (3 * rng.standard_normal((70, 3)) + 2).astype(np.float32)
    y = rng.standard_normal((70, 2)).astype(np.float32)
    rows = rng.permutation(70)
    learner = CompiledLearner(architecture, configuration, Data(x, y, rows, rows[:1]), rng)
    module = Flow(architecture, learner.parameters.copy()).to_zuko().double()
    adam = torch.optim.Adam(module.parameters(), lr=3e-3)

    losses, norms = [], []
    for batch in rows[:64].reshape(4, 16):  # the remainder of 6 is left out
        loss = -module(double(y[batch])).log_prob(double(x[batch])).mean()
        adam.zero_grad()
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(module.parameters(), 5.0)))
        adam.step()
        losses.append(loss.item())
    assert max(norms) > 5
    assert learner.epoch(rows) == pytest.approx(np.mean(losses), rel=1e-5)
    # Adam divides small gradients by small norms: float32's noise is seen in steps of up to 3e-3 each.
    np.testing.assert_allclose(learner.parameters, parameters_of(module, architecture), atol=3e-4)


def test_blas_is_held_to_one_thread_until_the_last_caller_has_left():
    from threadpoolctl import threadpool_info

    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = threads()
    outer, inner = blas.single_threaded(), blas.single_threaded()
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert set(threads()) == {1}
    inner.__exit__(None, None, None)
    assert threads() == before
