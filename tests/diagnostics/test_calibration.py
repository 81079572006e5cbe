"""Tests for drystone.diagnostics.ranks and .calibration."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import drystone as ds
from drystone.forms.mixture import MixtureView
from helpers.tables import make_table


def exact(N, S, d, seed=0, scale=1.0, shift=0.0):
    """One member whose draws come from where θ comes from, but for a scale and a shift."""
    rng = np.random.default_rng(seed)
    return ds.Table(rng.normal(size=(N, d)), draws=shift + scale * rng.normal(size=(1, N, S, d)))


@pytest.mark.parametrize("S", [19, 20])  # central levels sit at other places for odd and even S
@pytest.mark.parametrize("diagnostic", [ds.diagnostics.rank_ecdf, ds.diagnostics.coverage])
def test_exact_posteriors_stay_in_the_band_at_the_nominal_rate(diagnostic, S):
    found = diagnostic(exact(N=150, S=S, d=600), level=0.9)
    rate = found.members_inside.mean()
    assert rate == pytest.approx(found.band.probability, abs=4 * np.sqrt(0.1 * 0.9 / 600))


@pytest.mark.parametrize("diagnostic", [ds.diagnostics.rank_ecdf, ds.diagnostics.coverage])
@pytest.mark.parametrize("weights", [[1 / 6] * 6, [0.7, 0.3]], ids=["uniform", "unequal"])
def test_mixtures_of_exact_members_stay_in_the_band_at_the_nominal_rate(diagnostic, weights):
    """A mixture's ranks are those among S of the members' draws, not among all of them."""
    rng, (K, N, S, d) = np.random.default_rng(0), (len(weights), 1000, 20, 150)
    draws = rng.standard_normal((K, N, S, d), dtype=np.float32)
    theta = rng.standard_normal((N, d))
    table = ds.Table(theta, log_q=np.zeros((K, N)), draws=draws)
    fit = replace(ds.stack(table), params={"weights": np.array(weights)})
    found = diagnostic(table, fit, level=0.9)
    for inside in found.inside.values():
        assert inside.mean() == pytest.approx(0.92, abs=4 * np.sqrt(0.1 * 0.9 / d))
    curve = found.methods["stacked"]
    np.testing.assert_allclose(curve.mean(1), found.grid, atol=5 * 0.5 / np.sqrt(N * d))


def test_sums_of_draws_are_judged_by_all_draws_of_the_table():
    """Whatever number of draws they are fitted with."""
    rng, (N, S, d) = np.random.default_rng(0), (500, 40, 60)
    table = ds.Table(rng.normal(size=(N, d)), draws=rng.normal(size=(1, N, S, d)))
    fit = ds.stack(table, ds.SampleAggregation("scalar", draws=12), ds.MeanScore())
    exact = replace(fit, params={"offset": np.zeros(d), "matrix": np.eye(d)[None]})
    r = ds.diagnostics.ranks(table, exact)
    np.testing.assert_array_equal(r.methods["stacked"], r.members[0])


def modes(N, S, d, seed, weights, keep_draws):
    """An exact mixture whose members are separate modes, d times."""
    rng, K = np.random.default_rng(seed), len(weights)
    centres = 8.0 * np.arange(K)
    theta = centres[rng.choice(K, (N, d), p=weights)] + rng.normal(size=(N, d))
    draws = centres[:, None, None, None] + rng.standard_normal((K, N, S, d), dtype=np.float32)
    table = ds.Table(theta, draws=draws)
    return table if keep_draws else ds.Table(theta, rank=table.rank, S=S)


@pytest.mark.parametrize("keep_draws", [True, False])
@pytest.mark.parametrize("diagnostic", [ds.diagnostics.rank_ecdf, ds.diagnostics.coverage])
def test_exact_mixtures_of_separate_modes_stay_in_the_band_at_the_nominal_rate(diagnostic, keep_draws):
    weights, d = np.array([0.6, 0.4]), 400
    table = modes(2000, 20, d, 0, weights, keep_draws)
    fit = replace(ds.Stacking.uniform(table.names), params={"weights": weights})
    found = diagnostic(table, fit)
    rate = found.inside["stacked"].mean()
    assert rate == pytest.approx(found.band.probability, abs=4 * np.sqrt(0.05 * 0.95 / d))


def test_weights_may_differ_by_row():
    table = make_table(K=3, N=4000, S=9, d=1)
    w = torch.softmax(torch.randn(4000, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64), -1)
    view = MixtureView(w, table)
    expected = np.einsum("nk,knd->d", w.numpy(), table.rank) / 4000
    for ranks in (
        view.independent_rank().numpy(),
        (view.independent_draws() <= view.theta[:, None]).double().mean(1),
    ):
        np.testing.assert_allclose(ranks.mean(0), expected, atol=4 * 0.5 / np.sqrt(9 * 4000))


def test_coverage_needs_two_draws():
    with pytest.raises(
        ValueError, match="coverage needs at least 2 draws per simulation, for an interval between them; got 1"
    ):
        ds.diagnostics.coverage(exact(N=20, S=1, d=1))


def test_at_the_grid_the_discrete_ranks_have_no_bias():
    found = ds.diagnostics.rank_ecdf(exact(N=300, S=7, d=400))
    np.testing.assert_allclose(found.grid, np.arange(1, 8) / 8)
    np.testing.assert_allclose(found.members[0].mean(1), found.grid, atol=5 * 0.5 / np.sqrt(300 * 400))


@pytest.mark.parametrize(("scale", "sign"), [(0.7, -1), (1.5, 1)])
def test_coverage_is_below_the_diagonal_for_narrow_posteriors_and_above_for_wide_ones(scale, sign):
    found = ds.diagnostics.coverage(exact(N=800, S=101, d=2, scale=scale))
    middle = np.abs(found.grid - 0.5) < 0.3
    assert (sign * (found.members[0] - found.grid[:, None])[middle] > 0).all()
    assert not found.members_inside.any()


def test_the_curves_are_those_of_the_ranks():
    validation, test = make_table(seed=1), make_table(seed=2)
    fit = ds.stack(validation)
    found = ds.diagnostics.rank_ecdf(test, {"log": fit})
    for name, stack in (("uniform", ds.Stacking.uniform(test.names)), ("log", fit)):
        rank = (stack.view(test).independent_draws().numpy() <= test.theta[:, None]).sum(1)
        u = (rank + 0.5) / (test.S + 1)
        np.testing.assert_allclose(found.methods[name], (u <= found.grid[:, None, None]).mean(1), atol=1e-12)
    assert found.members.shape == (test.K, len(found.grid), test.d)
    assert set(found.inside) == {"uniform", "log"}


def test_coverage_is_the_share_of_truths_in_central_intervals():
    test = make_table(seed=2, S=99)
    found = ds.diagnostics.coverage(test)
    i = int(np.abs(found.grid - 0.8).argmin())
    level = found.grid[i]
    # The central interval of S draws at a level of the grid ends at order statistics, not between them.
    low = round((1 - level) / 2 * 100)
    ordered = np.sort(test.draws[3], axis=1)
    inside = (ordered[:, low - 1] <= test.theta) & (test.theta < ordered[:, -low])
    np.testing.assert_allclose(found.members[3, i], inside.mean(0))


def test_rows_count_by_their_weights():
    table = make_table(seed=3, row_weights=True)
    found = ds.diagnostics.rank_ecdf(table)
    u = (table.S * table.rank + 0.5) / (table.S + 1)
    by_hand = np.einsum("n,knd->kd", table.row_weights, u <= found.grid[4])
    np.testing.assert_allclose(found.members[:, 4], by_hand)
    assert found.band.rows == round(table.effective_rows) < table.N


def test_the_frame_has_a_line_for_each_point():
    table = make_table()
    found = ds.diagnostics.coverage(table, ds.stack(table))
    frame = found.frame
    assert len(frame) == (table.K + 2) * table.d * len(found.grid)
    part = frame[(frame["name"] == "stacked") & (frame["parameter"] == "theta_1")]
    p = found.methods["stacked"][:, 1]
    np.testing.assert_allclose(part["ecdf"], p)
    np.testing.assert_allclose(part["se"], np.sqrt(p * (1 - p) / table.N))


def test_given_ranks_are_taken_as_they_are():
    table = make_table()
    bare = ds.Table(table.theta, rank=table.rank)
    np.testing.assert_array_equal(ds.diagnostics.ranks(bare).members, table.rank)
    assert ds.diagnostics.ranks(bare).draws is None


def test_fits_without_ranks_are_left_out():
    table = make_table(N=80)
    fits = {
        "intervals": ds.stack(table, ds.IntervalAggregation(), ds.IntervalScore()),
        "sums": ds.stack(table, ds.SampleAggregation("diagonal"), ds.MeanScore()),
    }
    assert set(ds.diagnostics.ranks(table, fits).methods) == {"uniform", "sums"}
    assert set(ds.diagnostics.ranks(ds.Table(table.theta, rank=table.rank), fits).methods) == {"uniform"}


def test_a_table_without_ranks_says_so():
    table = make_table()
    with pytest.raises(ValueError, match="ranks need `rank` or `draws`; the table gives: log_q"):
        ds.diagnostics.ranks(ds.Table(table.theta, log_q=table.log_q))


def test_fits_must_be_stackings():
    with pytest.raises(TypeError, match="`fits` must be a Stacking or a mapping"):
        ds.diagnostics.ranks(make_table(), [1])  # pyright: ignore[reportArgumentType]


def test_a_broken_member_has_no_curve_and_is_not_inside():
    table = make_table()
    draws = np.array(table.draws)
    draws[2, 5, 0] = np.nan
    found = ds.diagnostics.rank_ecdf(ds.Table(table.theta, draws=draws))
    assert np.isnan(found.members[2]).all()
    assert not found.members_inside[2].any()
    assert np.isfinite(found.members[[0, 1, 3, 4]]).all()
