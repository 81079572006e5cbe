"""Tests for drystone.table."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch
import xarray

import drystone as ds
from drystone.forms.view import view_of
from drystone.table import blocks
from helpers.tables import make_table


def test_statistics_derived_from_draws_follow_their_definitions(table):
    k, n, j = 2, 17, 1
    draws = table.draws[k, n]
    assert table.rank[k, n, j] == np.mean(draws[:, j] <= table.theta[n, j])
    np.testing.assert_allclose(table.mean[k, n], draws.mean(0))
    np.testing.assert_allclose(table.cov[k, n], np.cov(draws.T))
    np.testing.assert_allclose(table.quantile(0.3)[k, n, j], np.quantile(draws[:, j], 0.3, method="weibull"))


def test_ranks_of_a_discrete_exact_posterior_are_uniform():
    # θ ~ Poisson(3), y ~ Binomial(θ, 0.4): θ − y given y is Poisson(1.8).
    rng, N, S = np.random.default_rng(0), 4000, 9
    theta = rng.poisson(3, size=(N, 1))
    y = rng.binomial(theta, 0.4)
    draws = y[None, :, None] + rng.poisson(1.8, size=(2, N, S, 1))
    table = ds.Table(theta, y, draws=draws)
    for rank in table.rank:
        counts = np.bincount(np.round(S * rank[:, 0]).astype(int), minlength=S + 1)
        assert scipy.stats.chisquare(counts).pvalue > 1e-3
    np.testing.assert_array_equal(  # tenths are not the same numbers in single precision
        ds.Table(theta / 10, draws=(draws / 10).astype(np.float32)).rank,
        ds.Table(theta / 10, draws=draws / 10).rank,
    )
    one = ds.Table([[1.0]] * 50, draws=np.tile(np.array([0.0, 1.0, 1.0, 2.0])[:, None], (1, 50, 1, 1)))
    assert set(one.rank.ravel()) == {0.25, 0.5, 0.75}


def test_arrays_in_any_order_of_memory_are_taken(table):
    backwards = ds.Table(
        table.theta[::-1], log_q=table.log_q[:, ::-1], draws=table.draws[:, ::-1], rank=table.rank[:, ::-1]
    )
    for score in (ds.LogScore(), ds.EnergyScore(), ds.LogScore() + ds.RankCvM()):
        expected = ds.stack(table, score=score).weights
        np.testing.assert_allclose(ds.stack(backwards, score=score).weights, expected, atol=1e-4)


def test_given_statistics_are_kept_and_not_derived_again():
    table = make_table()
    given = ds.Table(table.theta, draws=table.draws, mean=table.mean + 5)
    np.testing.assert_array_equal(given.mean, table.mean + 5)


def test_deriving_statistics_does_not_double_the_memory():
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((20, 100, 500, 3), dtype=np.float32)
    table = ds.Table(rng.normal(size=(100, 3)), draws=draws)
    tracemalloc.start()
    assert table.rank.shape == table.mean.shape == table.quantile(0.1).shape
    assert table.cov.shape == (20, 100, 3, 3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.5 * draws.nbytes


def test_what_a_table_gives_follows_from_what_it_was_given():
    theta, base = np.ones((4, 2)), np.ones((3, 4, 2)) / 2
    cov = np.broadcast_to(np.eye(2), (3, 4, 2, 2))
    assert ds.Table(theta, log_q=base[..., 0]).gives == {"log_q"}
    assert ds.Table(theta, mean=base).gives == {"mean"}
    assert ds.Table(theta, mean=base, cov=cov).gives == {"mean", "moments"}
    assert ds.Table(theta, quantiles={0.05: base}).gives == {"interval"}
    assert ds.Table(theta, draws=np.ones((3, 4, 5, 2))).gives == {"draws", "rank", "mean", "moments", "interval"}


def test_arrays_are_stacked_without_importing_libraries_of_files():
    code = (
        "import sys, numpy as np, drystone as ds; "
        "table = ds.Table(np.ones((6, 1)), log_q=np.arange(12.0).reshape(2, 6) % 5); "
        "assert ds.stack(table).converged; "
        "print({'zarr', 'xarray', 'h5py', 'pandas', 'numba', 'matplotlib'} & set(sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "set()\n"


FACE = """K N S cov create d draws effective effective_rows from_xarray gives has join lacking left_out
levels likelihoods load log_f log_prior log_q log_r mean names open parameters pareto points quantile rank
rank_of reweighted row_weights save select split theta to_xarray weighted width y"""


def test_the_public_face_has_no_out_of_core_machinery(table):
    assert [name for name in dir(table) if not name.startswith("_")] == FACE.split()


def test_torch_tensors_and_xarray_are_accepted(table):
    other = ds.Table(
        torch.tensor(table.theta),
        log_q=torch.tensor(table.log_q, requires_grad=True),
        mean=xarray.DataArray(table.mean.transpose(2, 0, 1), dims=("parameter", "member", "simulation")),
        cov=xarray.DataArray(
            table.cov.transpose(1, 0, 2, 3), dims=("simulation", "member", "parameter", "parameter_2")
        ),
    )
    np.testing.assert_array_equal(other.cov, table.cov)
    np.testing.assert_array_equal(other.log_q, table.log_q)
    np.testing.assert_array_equal(other.mean, table.mean)


def test_parameters_have_the_names_of_their_columns(table):
    theta = np.column_stack([table.theta[:, 0], table.theta[:, 0] ** 2])
    log_q = table.log_q
    frame = pd.DataFrame(theta, columns=["beta", "gamma"])
    labelled = xarray.DataArray(theta, dims=("simulation", "parameter"), coords={"parameter": ["beta", "gamma"]})
    assert ds.Table(frame, log_q=log_q).parameters == ("beta", "gamma")
    assert ds.Table(labelled, log_q=log_q).parameters == ("beta", "gamma")
    assert ds.Table(frame, log_q=log_q, parameters=["a", "b"]).parameters == ("a", "b")
    assert ds.Table(pd.DataFrame(theta), log_q=log_q).parameters == ("theta_0", "theta_1")
    with pytest.raises(ValueError, match="`parameters` must be unique; duplicated: 'a'"):
        ds.Table(pd.DataFrame(theta, columns=["a", "a"]), log_q=log_q)


def test_one_parameter_needs_no_last_axis():
    rng = np.random.default_rng(0)
    table = ds.Table(rng.normal(size=7), mean=rng.normal(size=(3, 7)), draws=rng.normal(size=(3, 7, 9)))
    assert (table.K, table.N, table.d, table.S) == (3, 7, 1, 9)


SHAPES = {
    "one member": (dict(log_q=np.zeros(60)), r"got \(60,\). Of one member\? Give log_q\[None\]\."),
    "exchanged": (
        dict(log_q=np.zeros((5, 60)), draws=np.zeros((5, 7, 60, 3))),
        r"got \(5, 7, 60, 3\)\. Are N and S exchanged\? Give draws\.swapaxes\(1, 2\)\.",
    ),
    "transposed": (dict(log_q=np.zeros((60, 5))), r"\(K, N\) = \(K, 60\); got \(60, 5\). Is it transposed\?"),
    "unequal N": (dict(log_q=np.zeros((5, 59))), r"`log_q` must have shape \(K, N\) = \(K, 60\); got \(5, 59\)"),
    "draws with axes swapped": (dict(draws=np.zeros((5, 41, 60, 3))), r"\(K, N, S, d\)"),
    "unequal K": (dict(log_q=np.zeros((4, 60)), mean=np.zeros((5, 60, 3))), r"`mean`.*\(4, 60, 3\)"),
    "nothing given": ({}, "at least one of"),
    "integer ranks": (dict(rank=np.full((5, 60, 3), 7)), "Divide integer ranks"),
    "level in per cent": (dict(quantiles={5: np.zeros((5, 60, 3))}), r"must be in \(0, 1\); got 5"),
    "wrong y": (dict(log_q=np.zeros((5, 60)), y=np.zeros((59, 2))), "`y` must have N = 60 rows"),
    "too few names": (dict(log_q=np.zeros((5, 60)), names=["a"]), "`names` must have 5 entries; got 1"),
    "duplicate names": (
        dict(log_q=np.zeros((2, 60)), names=["a", "a"]),
        "must be unique; duplicated: 'a'",
    ),
    "negative row weights": (dict(log_q=np.zeros((2, 60)), row_weights=-np.ones(60)), "`row_weights`"),
}


@pytest.mark.parametrize("case", SHAPES)
def test_wrong_input_says_what_was_expected_and_what_came(case):
    arguments, message = SHAPES[case]
    with pytest.raises(ValueError, match=message):
        ds.Table(np.ones((60, 3)), **arguments)


def test_theta_must_be_finite():
    with pytest.raises(ValueError, match=r"`theta` must be finite; 1 \(2\) of 4 rows"):
        ds.Table([[0.0], [1.0], [np.nan], [2.0]], log_q=np.zeros((2, 4)))


def test_selecting_members_and_rows_selects_every_statistic(table):
    rows = [5, 3, 59]
    part = table.select(members=["member_4", "member_1"], rows=rows)
    assert part.names == ("member_4", "member_1")
    np.testing.assert_array_equal(part.rank, table.rank[[4, 1]][:, rows])
    np.testing.assert_array_equal(part.draws, table.draws[[4, 1]][:, rows])
    np.testing.assert_array_equal(part.y, table.y[rows])
    mask = np.arange(5) % 2 == 0
    np.testing.assert_array_equal(table.select(members=mask).log_q, table.log_q[mask])


def test_selecting_an_unknown_member_lists_the_known_ones(table):
    with pytest.raises(ValueError, match=r"unknown `members` \['nobody'\]; known: member_0"):
        table.select(members="nobody")


def test_row_weights_sum_to_one_also_after_selection(weighted_table):
    assert weighted_table.row_weights.sum() == pytest.approx(1)
    part = weighted_table.select(rows=slice(0, 11))
    assert part.row_weights.sum() == pytest.approx(1)
    ratio = part.row_weights / weighted_table.row_weights[:11]
    np.testing.assert_allclose(ratio, ratio[0])


def test_row_weights_whose_sum_overflows_are_scaled():
    weights = np.array([1e308, 1.5e308, 0.5e308])
    table = ds.Table(np.zeros((3, 1)), log_q=np.zeros((2, 3)), row_weights=weights)
    np.testing.assert_allclose(table.row_weights, [1 / 3, 1 / 2, 1 / 6])


def test_split_gives_disjoint_rows_that_depend_on_the_seed_alone(table):
    first, second = table.split(0.3, seed=7)
    assert (first.N, second.N) == (18, 42)
    together = np.concatenate([first.theta, second.theta])
    np.testing.assert_array_equal(np.sort(together, 0), np.sort(table.theta, 0))
    np.testing.assert_array_equal(first.theta, table.split(0.3, seed=7)[0].theta)
    assert not np.array_equal(first.theta, table.split(0.3, seed=8)[0].theta)


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
def test_a_table_survives_the_disk(tmp_path, suffix):
    table = make_table(row_weights=True, names=["a", "b", "c c", "ü", "e"])
    assert table.quantile(0.05).shape == table.rank.shape
    path = tmp_path / f"table{suffix}"
    table.save(path)
    table.save(path)  # again, over the old one
    again = ds.Table.load(path)
    assert again.names == table.names
    assert again.parameters == table.parameters
    assert again.levels == (0.05,)
    for name in ("theta", "y", "log_q", "draws", "rank", "row_weights"):
        np.testing.assert_array_equal(getattr(again, name), getattr(table, name))
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_xarray_and_back(table):
    dataset = table.to_xarray()
    assert dataset["draws"].dims == ("member", "simulation", "draw", "parameter")
    again = ds.Table.from_xarray(dataset)
    np.testing.assert_array_equal(again.log_q, table.log_q)


def test_files_that_are_not_tables_are_recognised(tmp_path, table):
    with pytest.raises(FileNotFoundError, match="no table at"):
        ds.Table.load(tmp_path / "nothing.zarr")
    with pytest.raises(ValueError, match=r"`\.zarr` or `\.nc`"):
        table.save(tmp_path / "table.npz")
    with pytest.raises(ValueError, match="not a Drystone table"):
        ds.Table.from_xarray(xarray.Dataset({"theta": (("a",), [1.0])}))
    newer = table.to_xarray().assign_attrs(version=99)
    with pytest.raises(ValueError, match="format version 99; this Drystone reads up to 2"):
        ds.Table.from_xarray(newer)


def test_ranks_of_a_quantity_of_interest(table):
    ranks = table.rank_of(lambda theta, y: theta.sum(-1) * y[:, 0])
    k, n = 3, 8
    truth = table.theta[n].sum() * table.y[n, 0]
    assert ranks[k, n, 0] == np.mean(table.draws[k, n].sum(-1) * table.y[n, 0] <= truth)
    with pytest.raises(ValueError, match=r"`statistic` must map theta"):
        table.rank_of(lambda theta, y: theta)


def test_a_missing_level_names_the_levels_there_are():
    table = ds.Table(np.ones((4, 1)), quantiles={0.05: np.ones((2, 4, 1)), 0.95: np.ones((2, 4, 1))})
    assert table.quantile(1 - 0.1 / 2).shape == (2, 4, 1)
    with pytest.raises(ValueError, match=r"level 0.1 \(it has \[0.05, 0.95\]\)"):
        table.quantile(0.1)


def test_a_member_with_nan_draws_does_not_pass_for_calibrated():
    table = make_table()
    draws = table.draws.copy()
    draws[1, 3] = np.nan
    spoiled = ds.Table(table.theta, log_q=table.log_q, draws=draws)
    with pytest.raises(ValueError, match=r"`rank` is NaN or infinite for 'member_1' at 1 of 60 rows"):
        ds.stack(spoiled, score=ds.LogScore() + ds.RankCvM())
    fit = ds.stack(spoiled, score=ds.LogScore() + ds.RankCvM(), nonfinite="drop")
    assert fit.dropped["members"] == ["member_1"]


def test_one_number_a_simulation_may_be_given_as_a_vector():
    table = ds.toy.table(120, draws=20)
    flat = ds.Table(table.theta, table.y[:, 0], log_q=table.log_q, draws=table.draws)
    assert np.isfinite(ds.JensenShannon(hidden=(8,), epochs=2).estimate(ds.stack(flat).view(flat)).value)
    assert np.isfinite(ds.stack(flat, ds.LocalMixture(hidden=(8,), epochs=5)).loss)


def test_big_endian_draws_are_read(table):
    foreign = ds.Table(table.theta, draws=table.draws.astype(">f4"))
    assert ds.stack(foreign, score=ds.EnergyScore()).converged


def test_a_table_does_not_change_when_the_users_arrays_do(table):
    theta = table.theta.copy()
    held = ds.Table(theta, log_q=table.log_q)
    theta[:] = 0
    np.testing.assert_array_equal(held.theta, table.theta)


@pytest.mark.parametrize("chosen", [[], slice(0, 0), np.zeros(5, bool)])
def test_selecting_nothing_is_an_error(table, chosen):
    with pytest.raises(ValueError, match="no `members` selected"):
        table.select(members=chosen)


def test_selecting_a_member_twice_or_by_fractions_is_an_error(table):
    with pytest.raises(ValueError, match="`members` must be unique; duplicated: 'member_0'"):
        table.select(members=[0, 0])
    with pytest.raises(TypeError, match="names, positions, a mask or a slice"):
        table.select(rows=[0.5])
    with pytest.raises(IndexError, match="`rows` must be positions below 60; got 3 to 60"):
        table.select(rows=[3, 60])
    with pytest.raises(ValueError, match="`fraction` must leave rows on both sides; got nan"):
        table.split(float("nan"))
    with pytest.raises(ValueError, match=r"level must be in \(0, 1\); got 1.5"):
        table.quantile(1.5)


def test_parts_that_are_looked_at_for_a_while_are_copied_when_they_are_used(table):
    part, copied = blocks.part(table, [3, 1]), table.select(members=[3, 1])
    assert part.names == copied.names
    draws = blocks.sliced_draws(part)
    assert draws.shape == copied.draws.shape
    assert np.shares_memory(draws[1], table.draws)
    for statistic in ("log_q", "rank", "mean", "cov", "draws"):
        np.testing.assert_array_equal(getattr(part, statistic), getattr(copied, statistic))
    again = blocks.part(blocks.part(part, [1]), rows=[4, 2])
    np.testing.assert_array_equal(again.draws, table.draws[[1]][:, [4, 2]])


def test_the_view_of_a_fit_copies_no_draws():
    rng = np.random.default_rng(0)
    table = ds.Table(
        rng.normal(size=(60, 2)), log_q=rng.normal(size=(40, 60)), draws=rng.normal(size=(40, 60, 50, 2))
    )
    weights = np.where(np.arange(40) % 2, 1 / 20, 0)
    tracemalloc.start()
    view = view_of(ds.Mixture(), {"weights": weights}, table)
    view.log_q()
    shown = view.independent_draws(3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < table.draws.nbytes / 2 / 2  # those of the members in use are half of all
    copied = ds.Mixture().combine({"weights": torch.full((20,), 1 / 20)}, table.select(members=weights > 0))
    torch.testing.assert_close(shown, copied.independent_draws(3), rtol=0, atol=0)
