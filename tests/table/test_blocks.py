"""Tables on disk: in blocks they give the weights that memory gives, and they say what they cannot give."""

import pickle
import tracemalloc

import numpy as np
import pytest
import torch
import xarray

import drystone as ds
from drystone.solvers import Multiplicative
from drystone.solvers.simplex import row_sum as coarse
from drystone.stacking.stack import COPIES
from drystone.table import blocks
from drystone.table.disk import Writer
from helpers.stored_table import stored
from helpers.tables import make_table

SCORES = {
    "log": ds.LogScore(),
    "mean": ds.MeanScore(scale=(1.0, 2.0, 0.7)),
    "energy": ds.EnergyScore(draws=5),
    "sum": ds.LogScore() + 0.3 * ds.MeanScore(),
}


@pytest.fixture
def both(tmp_path):
    """A table in memory with row weights and everything derived, and the same in seven blocks on disk."""
    table = make_table(N=207, S=9, row_weights=True)
    _ = table.mean, table.cov, table.rank, table.quantile(0.05), table.quantile(0.95)
    return table, stored(table, tmp_path / "table.zarr", blocks=7)


@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
def test_blocks_give_the_weights_that_memory_gives(both, score):
    here, there = (ds.stack(table, score=score, tol=1e-12) for table in both)
    np.testing.assert_allclose(there.weights, here.weights, atol=1e-8)
    assert there.loss == pytest.approx(here.loss, abs=1e-10)
    assert there.notes == here.notes


def test_a_prior_on_the_weights_is_the_same_in_blocks(both):
    here, there = (ds.stack(table, ds.Mixture(1.5), tol=1e-12) for table in both)
    np.testing.assert_allclose(there.weights, here.weights, atol=1e-8)


def test_moments_are_the_same_in_blocks(tmp_path):
    table = make_table(K=3, N=90, S=9, d=2)
    _ = table.mean, table.cov
    score = ds.MomentScore() + ds.LogScore()
    here = ds.stack(table, score=score, tol=1e-12, solver=ds.solvers.ProjectedGradient(starts=2))
    on_disk = stored(table, tmp_path / "table.zarr", blocks=2)
    there = ds.stack(on_disk, score=score, tol=1e-12, solver=ds.solvers.ProjectedGradient(starts=2))
    np.testing.assert_allclose(there.weights, here.weights, atol=1e-8)


def test_multiplicative_steps_are_the_same_in_blocks(both):
    here, there = (ds.stack(table, solver=Multiplicative(), tol=1e-3) for table in both)
    assert there.iterations == here.iterations
    np.testing.assert_allclose(there.weights, here.weights, atol=1e-12)


def test_a_table_that_fits_is_solved_in_memory_whatever_the_score(both, tmp_path):
    table, _ = both
    opened = ds.Table.open(tmp_path / "table.zarr")
    score = ds.LogScore() + ds.RankCvM()
    here, there = ds.stack(table, score=score), ds.stack(opened, score=score)
    np.testing.assert_array_equal(there.weights, here.weights)
    assert there.notes == ()


@pytest.mark.parametrize(("N", "K", "share"), [(200_000, 2, 1.2), (20_000, 20, 1.2), (20_000, 20, 5.0)])
def test_stacking_takes_no_more_than_the_memory_that_is_allowed(tmp_path, N, K, share):
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(N, 1))
    log_q = -((theta[:, 0] - rng.normal(size=(K, 1))) ** 2) / 2
    table = ds.Table(theta, log_q=log_q)
    memory = round(share * log_q.nbytes)
    opened = stored(table, tmp_path / "table.zarr", blocks=8, memory=memory)
    ds.stack(opened)  # imports and compiles
    tracemalloc.start()
    fit = ds.stack(opened)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < memory
    np.testing.assert_allclose(fit.weights, ds.stack(table).weights, atol=1e-6)


@pytest.mark.parametrize(
    "score", [ds.LogScore() + ds.RankCvM(), ds.IntervalScore(), ds.LogScore() + ds.RankMoments()], ids=repr
)
def test_a_score_that_is_no_sum_over_rows_is_fitted_to_a_sample_and_says_so(both, tmp_path, score):
    table, _ = both
    six_in_ten = round(0.6 * COPIES * table.N * blocks.bytes_per_row(table, score.needs))
    opened = ds.Table.open(tmp_path / "table.zarr", six_in_ten)
    fit = ds.stack(opened, score=score)
    assert "fitted to 124 of 207 rows, chosen at random by seed 0" in fit.notes[0]
    overall = fit.evaluate(table)["loss"]
    assert f"Over all rows the score is {overall:.6g}" in fit.notes[0]
    assert fit.evaluate(opened)["loss"] == pytest.approx(overall, rel=1e-12)
    assert overall == pytest.approx(ds.stack(table, score=score).loss, rel=0.05)
    np.testing.assert_array_equal(ds.stack(opened, score=score).weights, fit.weights)
    assert not np.array_equal(ds.stack(opened, score=score, seed=1).weights, fit.weights)


def test_the_stacked_posterior_is_put_together_from_blocks(both):
    table, on_disk = both
    fit = ds.stack(table)
    here, there = fit.apply(table), fit.apply(on_disk)
    for name in ("log_q", "rank", "mean", "cov"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(there.interval(0.2), here.interval(0.2))
    for score in (*SCORES.values(), ds.RankCvM(), ds.IntervalScore(0.2)):
        assert fit.evaluate(on_disk, score)["loss"] == pytest.approx(fit.evaluate(table, score)["loss"])


@pytest.mark.parametrize("K", [5, 150])
def test_a_large_table_is_begun_on_a_few_rows_in_memory_and_in_blocks_alike(tmp_path, monkeypatch, K):
    monkeypatch.setattr(coarse, "ROWS", 60)
    rng = np.random.default_rng(4)
    log_q = rng.normal(size=(K, 600)) - 0.2 * np.arange(K)[:, None] / K
    # One row that only the last member explains, and that is not among the few.
    log_q[:, 7] = -800.0
    log_q[-1, 7] = 0.0
    table = ds.Table(np.zeros((600, 1)), log_q=log_q)
    here = ds.stack(table, tol=1e-12)
    there = ds.stack(stored(table, tmp_path / "table.zarr", blocks=4), tol=1e-12)
    assert here.gap <= 1e-12
    np.testing.assert_allclose(there.weights, here.weights, atol=1e-8)
    monkeypatch.setattr(coarse, "ROWS", 10**6)
    assert here.loss == pytest.approx(ds.stack(table, tol=1e-12).loss, abs=1e-11)


def test_moments_of_a_large_table_are_begun_on_a_few_rows(monkeypatch):
    table = make_table(N=400, S=12)
    score = ds.LogScore() + ds.MomentScore(diagonal=True)
    whole = ds.stack(table, score=score, tol=1e-10)
    monkeypatch.setattr(coarse, "ROWS", 50)
    np.testing.assert_allclose(ds.stack(table, score=score, tol=1e-10).weights, whole.weights, atol=1e-5)


def test_bad_entries_are_found_across_blocks(tmp_path):
    table = make_table(N=200, S=3)
    log_q = table.log_q.copy()
    log_q[1, [3, 150]] = np.nan
    log_q[:, [20, 199]] = -np.inf
    on_disk = stored(ds.Table(table.theta, log_q=log_q), tmp_path / "table.zarr", blocks=6)
    with pytest.raises(ValueError, match="`log_q` is NaN or infinite for 'member_1' at 2 of 200 rows"):
        ds.stack(on_disk)
    with pytest.raises(ValueError, match=r"density 0 .* at 2 of 200 rows \(20, 199\)"):
        ds.stack(on_disk.select(members=[0, 2, 3, 4]))
    fit = ds.stack(on_disk, nonfinite="drop")
    assert fit.dropped == {"members": ["member_1"], "rows": [20, 199]}
    rows = np.setdiff1d(np.arange(200), [20, 199])
    clean = table.select(members=[0, 2, 3, 4], rows=rows)
    np.testing.assert_allclose(fit.weights[[0, 2, 3, 4]], ds.stack(clean).weights, atol=1e-8)


SELECTIONS = {
    "members": dict(members=["member_3", "member_1"]),
    "a slice": dict(rows=slice(5, 190, 3)),
    "positions": dict(rows=[0, 7, 8, 120, 206]),
    "a mask": dict(rows=np.arange(207) % 7 == 3),
    "both": dict(members=[4, 0], rows=slice(100, None)),
}


@pytest.mark.parametrize("chosen", SELECTIONS.values(), ids=SELECTIONS)
def test_a_selection_reads_nothing_and_is_the_one_in_memory(both, tmp_path, chosen):
    table, _ = both
    here, there = table.select(**chosen), ds.Table.open(tmp_path / "table.zarr").select(**chosen)
    assert not blocks.in_memory(there)
    assert (there.K, there.N, there.d, there.S, there.names) == (here.K, here.N, here.d, here.S, here.names)
    assert there.gives == here.gives
    for name in ("theta", "y", "row_weights", "log_q", "rank", "mean", "cov", "draws"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-13)
    np.testing.assert_allclose(there.quantile(0.95), here.quantile(0.95))
    np.testing.assert_allclose(there.quantile(0.3), here.quantile(0.3))
    # And again within the selection.
    np.testing.assert_allclose(there.select(rows=[0, 3]).theta, here.theta[[0, 3]])


def test_a_split_on_disk_is_the_one_in_memory(both):
    table, on_disk = both
    for here, there in zip(table.split(0.3, seed=2), on_disk.split(0.3, seed=2), strict=True):
        np.testing.assert_allclose(ds.stack(there).weights, ds.stack(here).weights, atol=1e-8)


def test_weights_near_an_observation_are_the_same_on_disk(both, tmp_path):
    table, _ = both
    opened = ds.Table.open(tmp_path / "table.zarr", memory=6000)
    here, there = (ds.stack(t, at=np.array([0.3, -0.2, 0.1])) for t in (table, opened))
    np.testing.assert_allclose(there.weights, here.weights, atol=1e-8)


def test_statistics_are_derived_from_draws_block_by_block(tmp_path):
    table = make_table(N=50, S=13)
    on_disk = stored(table, tmp_path / "table.zarr", blocks=4, memory=10**6)

    def first(theta, y):
        return theta[..., 0] - y[:, 1]

    for name in ("rank", "mean", "cov"):
        np.testing.assert_allclose(getattr(on_disk, name), getattr(table, name))
    np.testing.assert_array_equal(on_disk.rank_of(first), table.rank_of(first))


def test_what_does_not_fit_into_memory_is_refused_with_its_size(both):
    _, on_disk = both
    for name in ("log_q", "cov", "theta"):
        with pytest.raises(MemoryError, match=f"`{name}` of all rows takes .* GiB, and `memory` is 0 GiB"):
            getattr(on_disk, name)


def test_a_table_on_disk_can_be_saved_and_loaded_whole(both, tmp_path):
    table, on_disk = both
    on_disk.select(rows=slice(None, None, 2)).save(tmp_path / "copy.zarr")
    copy = ds.Table.load(tmp_path / "copy.zarr")
    np.testing.assert_array_equal(copy.draws, table.draws[:, ::2])
    np.testing.assert_allclose(copy.row_weights, table.select(rows=slice(None, None, 2)).row_weights)
    assert copy.levels == (0.05, 0.95)


def test_a_block_travels_to_another_process(both):
    _, on_disk = both
    (block, *_) = blocks._blocks(on_disk)
    pickled = pickle.dumps(block)
    assert len(pickled) < 2000 + 8 * block.N, "a path, positions and weights, but no statistics"
    again = pickle.loads(pickled)
    log_q = blocks._on_block(again, lambda rows: rows.log_q, ())
    np.testing.assert_array_equal(log_q, both[0].log_q[:, : again.N])


def test_parts_are_written_in_any_order_and_member_by_member(tmp_path):
    table, path = make_table(N=60, S=4), tmp_path / "new.zarr"
    with ds.Table.create(path, 60, table.names) as new:
        for start in (40, 0, 20):
            rows = slice(start, start + 20)
            new.write(start, theta=table.theta[rows])
            for k in (3, 0, 1, 4, 2):
                quantiles = {0.5: table.quantile(0.5)[k : k + 1, rows]}
                new.write(start, members=[k], log_q=table.log_q[k : k + 1, rows], quantiles=quantiles)
        assert not path.exists(), "nothing is there before the end"
    loaded = ds.Table.load(path)
    np.testing.assert_array_equal(loaded.log_q, table.log_q)
    np.testing.assert_array_equal(loaded.quantile(0.5), table.quantile(0.5))
    assert xarray.open_zarr(path, consolidated=False)["log_q"].dims == ("member", "simulation")


def test_a_table_that_is_not_complete_is_not_there(tmp_path):
    path = tmp_path / "new.zarr"
    writer = ds.Table.create(path, 10, ["a", "b"])
    with (
        pytest.raises(ValueError, match=r"`log_q` of 'a' was not written at 2 of 10 rows \(8 to 9\)"),
        writer as new,
    ):
        new.write(0, theta=np.ones((10, 2)), log_q=np.zeros((2, 8)))
    with pytest.raises(ValueError, match="a Table needs `theta`"), ds.Table.create(path, 10, ["a", "b"]) as new:
        new.write(0, theta=np.ones((10, 2)))
    assert list(tmp_path.iterdir()) == []


def test_a_part_may_be_written_again_and_one_that_is_missing_is_named(tmp_path):
    table, path = make_table(N=60), tmp_path / "new.zarr"
    with ds.Table.create(path, 60, table.names) as new:
        new.write(0, theta=table.theta, log_q=np.zeros_like(table.log_q))
        for start in (20, 0, 20):
            new.write(start, log_q=table.log_q[:, start : start + 40])
    np.testing.assert_array_equal(ds.Table.load(path).log_q, table.log_q)

    def write(theta_at, log_q_at):
        with ds.Table.create(tmp_path / "gaps.zarr", 60, ["a", "b"]) as new:
            for start, end in theta_at:
                new.write(start, theta=table.theta[start:end])
            new.write(0, members=[0], log_q=table.log_q[:1])
            for start, end in log_q_at:
                new.write(start, members=[1], log_q=table.log_q[1:2, start:end])

    missing = r"`log_q` of 'b' was not written at 21 of 60 rows \(10 to 19, 30, 50 to 59\)"
    with pytest.raises(ValueError, match=missing):
        write([(0, 60)], [(0, 10), (0, 10), (20, 30), (31, 50), (20, 30)])
    with pytest.raises(ValueError, match=r"`theta` was not written at 30 of 60 rows \(30 to 59\)"):
        write([(0, 30), (0, 30)], [(0, 60)])
    assert not (tmp_path / "gaps.zarr").exists()


BAD = {
    "rows": (dict(start=8, log_q=np.zeros((2, 3))), "`log_q` has rows 8 to 11 of a table of 10"),
    "transposed": (dict(start=0, log_q=np.zeros((3, 2))), "must be of 2 members; got shape .* Is it transposed"),
    "unknown": (dict(start=0, logq=np.zeros((2, 3))), "a table has no `logq`"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_a_bad_part_is_explained(tmp_path, arguments, message):
    with (
        pytest.raises((TypeError, ValueError), match=message),
        ds.Table.create(tmp_path / "new.zarr", 10, ["a", "b"]) as new,
    ):
        new.write(**arguments)


def test_what_cannot_be_opened_is_explained(tmp_path):
    with pytest.raises(FileNotFoundError, match="no table at"):
        ds.Table.open(tmp_path / "nothing.zarr")
    make_table(N=5).save(tmp_path / "table.nc")
    with pytest.raises(ValueError, match=r"only a `.zarr` table can be opened without reading it"):
        ds.Table.open(tmp_path / "table.nc")
    with pytest.raises(ValueError, match=r"written in parts as `.zarr`"):
        Writer(tmp_path / "table.nc", 5, ["a"])


def test_a_table_on_disk_says_so(both):
    assert repr(both[1]).endswith("; on disk)")
    assert "on disk" not in repr(both[0])


def test_rows_on_disk_are_selected_in_order(both):
    with pytest.raises(ValueError, match="in increasing order, each once"):
        both[1].select(rows=[3, 1])


@pytest.mark.parametrize(
    "form", [ds.Mixture(), ds.SampleAggregation(draws=8), ds.LocalMixture(hidden=(4,))], ids=repr
)
def test_a_table_on_disk_is_diagnosed_as_in_memory(tmp_path, form):
    table = make_table(K=3, N=90, d=2)
    fit = ds.stack(table, form, ds.EnergyScore())
    opened = stored(table, tmp_path / "table.zarr", blocks=4, memory=2**24)
    np.testing.assert_allclose(fit.apply(opened).draws(5, 1), fit.apply(table).draws(5, 1))
    here, there = (ds.diagnostics.ranks(t, fit).methods["stacked"] for t in (table, opened))
    np.testing.assert_allclose(there, here)
    for score in (ds.RankMoments(), ds.JensenShannon(draws=5)):
        assert fit.evaluate(opened, score)["loss"] == pytest.approx(fit.evaluate(table, score)["loss"])
    weights = torch.as_tensor(np.random.default_rng(0).dirichlet(np.ones(90)))
    here, there = (float(fit.view(t).reweighted(weights).mean_of(ds.EnergyScore().rows)) for t in (table, opened))
    assert there == pytest.approx(here)
