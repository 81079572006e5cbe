"""Bias and width as ranks show them."""

import numpy as np
import pytest

import drystone as ds
from drystone.diagnostics.faults import faults_of_ranks

NAMES = ("a", "b")


def gaussian(N, S, shift, scale, seed=0):
    """A member N(y + shift, scale²) of the posterior N(y, 1), in two parameters."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(N, 2))
    draws = y[:, None] + np.array(shift) + np.array(scale) * rng.normal(size=(N, S, 2))
    return ds.Table(y + rng.normal(size=(N, 2)), y, draws=draws[None], names=["q"], parameters=NAMES)


def test_bias_and_width_of_a_gaussian_are_found():
    found = ds.diagnostics.faults(gaussian(4000, 400, shift=(0.5, 0.0), scale=(1.0, 0.8)))["q"]
    assert found.bias[0].value == pytest.approx(0.5, abs=4 * found.bias[0].se)
    assert found.width[1].value == pytest.approx(1.25, abs=4 * found.width[1].se)
    assert [(fault.parameter, fault.kind) for fault in found.clear] == [
        ("a", "biased upwards"),
        ("b", "too narrow"),
    ]
    wide = ds.diagnostics.faults(gaussian(4000, 400, shift=(0.0, -1.0), scale=(2.0, 2.0)))["q"]
    kinds = {(fault.parameter, fault.kind): fault.size.value for fault in wide.clear}
    assert kinds["a", "too wide"] == pytest.approx(2.0, rel=0.1)
    assert kinds["b", "biased downwards"] == pytest.approx(0.5, rel=0.1)  # in standard deviations of the posterior
    assert "b is too wide, by a factor of" in str(wide)


@pytest.mark.parametrize("S", [10, 20, 200])
def test_an_exact_posterior_has_no_clear_fault_in_19_of_20_cases(S):
    rng, N, alarms = np.random.default_rng(S), 300, 0
    for _ in range(200):
        u = (rng.integers(0, S + 1, (N, 2)) + 0.5) / (S + 1)
        alarms += bool(faults_of_ranks(u, S, np.full(N, 1 / N), NAMES).clear)
    assert alarms <= 22  # 10 expected, 3.1 their spread


@pytest.mark.parametrize("spread", [0.0, 2.0, 4.0])
@pytest.mark.parametrize("N", [10, 300])
def test_an_exact_posterior_has_none_either_where_a_few_rows_have_the_weight(N, spread):
    rng, S, alarms = np.random.default_rng(N), 100, 0
    for _ in range(200):
        u = (rng.integers(0, S + 1, (N, 2)) + 0.5) / (S + 1)
        weights = np.exp(spread * rng.normal(size=N))
        alarms += bool(faults_of_ranks(u, S, weights / weights.sum(), NAMES).clear)
    assert alarms <= 22


def test_one_row_shows_no_fault():
    assert not faults_of_ranks(np.array([[0.9, 0.5]]), 1000, np.ones(1), NAMES).clear


def test_small_faults_are_harmless_however_well_they_are_known():
    found = ds.diagnostics.faults(gaussian(20_000, 100, shift=(0.03, 0.0), scale=(1.0, 1.0)))["q"]
    assert found.bias[0].value > 3 * found.bias[0].se
    assert not found.clear
    assert str(found) == "no clear fault"


def test_members_uniform_weights_and_fits_are_named():
    table = ds.toy.table(200, seed=1)
    found = ds.diagnostics.faults(table, {"mine": ds.stack(table)})
    assert list(found) == [*table.names, "uniform", "mine"]


def test_ranks_of_unknown_draws_at_the_ends_stay_finite():
    u = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    found = faults_of_ranks(u, None, np.full(3, 1 / 3), NAMES)
    assert np.isfinite([width.value for width in found.width]).all()
