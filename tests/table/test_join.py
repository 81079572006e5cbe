"""Members of two tables of the same rows in one, and members with different statistics."""

import numpy as np
import pytest

import drystone as ds
from helpers.stored_table import held
from helpers.tables import make_table


@pytest.fixture
def whole():
    return make_table(K=5, N=30, S=11, d=2, seed=3, row_weights=True, names=list("abcde"))


def part(table, members, *statistics, **others):
    """Return some members of a table with some statistics."""
    chosen = table.select(members=members)
    weights = table.row_weights if table.weighted else None
    arrays = {name: getattr(chosen, name) for name in statistics}
    return ds.Table(table.theta, table.y, names=chosen.names, row_weights=weights, **arrays, **others)


def test_joining_parts_gives_the_whole_again(whole):
    joined = whole.select(members=[0, 3]).join(whole.select(members=[1, 2, 4]))
    assert joined.names == ("a", "d", "b", "c", "e")
    for key, array in held(whole.select(members=list(joined.names))).items():
        np.testing.assert_array_equal(held(joined)[key], array)
    np.testing.assert_array_equal(joined.row_weights, whole.row_weights)
    assert joined.S == 11


def test_a_member_that_the_other_table_has_is_not_left_out_any_more(whole):
    first = part(whole, ["a", "b"], "log_q", left_out={"c": "it diverged", "e": "no file"})
    second = part(whole, ["c", "d"], "log_q", left_out={"a": "too slow"})
    for joined in (first.join(second), second.join(first)):
        assert joined.left_out == {"e": "no file"}


def test_members_keep_what_they_have(whole):
    joined = part(whole, ["a", "b"], "log_q").join(part(whole, ["c", "d", "e"], "draws"))
    np.testing.assert_array_equal(joined.has("log_q"), [True, True, False, False, False])
    for name in ("rank", "mean", "moments", "interval", "draws"):
        np.testing.assert_array_equal(joined.has(name), [False, False, True, True, True])
    assert joined.gives == whole.gives
    np.testing.assert_array_equal(joined.mean[2:], whole.mean[2:])
    assert np.isnan(joined.log_q[2:]).all()
    assert joined.lacking["log_q"] == ("c", "d", "e")
    assert all(joined.lacking[name] == ("a", "b") for name in ("draws", "rank", "mean", "cov", "quantiles"))
    assert joined.select(members=["a"]).gives == {"log_q"}


def test_what_one_table_holds_and_the_other_can_derive_is_derived(whole):
    joined = part(whole, ["a", "b"], "mean", "cov", "rank", S=11).join(part(whole, ["c"], "draws"))
    np.testing.assert_array_equal(joined.rank, whole.rank[:3])
    np.testing.assert_array_equal(joined.has("moments"), [True, True, True])
    assert joined.S == 11


@pytest.mark.parametrize("suffix", ["zarr", "nc"])
def test_what_members_lack_survives_files_and_selection(whole, tmp_path, suffix):
    joined = part(whole, ["a", "b"], "log_q").join(part(whole, ["c", "d"], "draws", "mean"))
    joined.save(tmp_path / f"table.{suffix}")
    tables = [ds.Table.load(tmp_path / f"table.{suffix}"), ds.Table.from_xarray(joined.to_xarray())]
    if suffix == "zarr":
        tables += [ds.Table.open(tmp_path / "table.zarr", memory) for memory in (0, 2**20)]
    for table in [*tables, joined.select(rows=[3, 5])]:
        assert table.lacking == joined.lacking
        np.testing.assert_array_equal(table.has("mean"), [False, False, True, True])
    np.testing.assert_array_equal(tables[0].log_q, joined.log_q)
    np.testing.assert_array_equal(tables[0].mean, joined.mean)


def test_a_member_whose_network_broke_is_not_taken_for_one_without_a_density(whole, tmp_path):
    log_q = np.where(np.arange(5)[:, None] == 2, np.nan, whole.log_q)
    broken = ds.Table(whole.theta, log_q=log_q, lacking={})
    broken.save(tmp_path / "table.zarr")
    for table in (broken, ds.Table.load(tmp_path / "table.zarr"), ds.Table.open(tmp_path / "table.zarr")):
        assert table.has("log_q").all()
        with pytest.raises(ValueError, match="NaN or infinite for 'member_2' at 30 of 30 rows"):
            ds.stack(table)


def test_the_weights_of_members_without_a_density_are_zero(whole):
    log_q = whole.log_q.copy()
    log_q[[1, 3]] = np.nan
    table = ds.Table(whole.theta, whole.y, log_q=log_q, draws=whole.draws, names=whole.names)
    fit, others = ds.stack(table), ds.stack(ds.Table(whole.theta, log_q=log_q[[0, 2, 4]]))
    np.testing.assert_allclose(fit.weights[[0, 2, 4]], others.weights)
    assert (fit.weights[[1, 3]] == 0).all()
    assert fit.dropped == {"members": ["b", "d"], "rows": []}
    assert "b, d (no `log_q`)" in fit.notes[0]
    assert fit.loss == pytest.approx(others.loss)
    assert fit.evaluate(table)["loss"] == pytest.approx(fit.loss)
    hybrid = ds.stack(table, score=ds.LogScore() + ds.EnergyScore())
    assert hybrid.dropped["members"] == ["b", "d"]
    assert ds.stack(table, score=ds.EnergyScore()).dropped["members"] == []


def test_a_score_that_no_member_can_give_alone_is_refused(whole):
    table = part(whole, ["a", "b"], "log_q").join(part(whole, ["c"], "draws"))
    message = r"no member has all that .* Members without `draws`: a, b; `log_q`: c"
    with pytest.raises(ValueError, match=message):
        ds.stack(table, score=ds.LogScore() + ds.EnergyScore())


def test_uniform_weights_are_of_the_members_that_can_be_compared(whole):
    lacking = whole.log_q.copy()
    lacking[1] = np.nan
    table = ds.Table(whole.theta, whole.y, log_q=lacking, draws=whole.draws, names=whole.names)
    able = table.select(members=[0, 2, 3, 4])
    fits = {"log": ds.stack(table), "energy": ds.stack(table, score=ds.EnergyScore())}
    comparison, others = ds.compare(table, table, fits), ds.compare(able, able, ds.stack(able))
    result, expected = comparison.of("log density"), others.of("log density")
    for method in ("best", "uniform"):
        assert result.methods[method].value == expected.methods[method].value
    assert result.methods["log"].value.value == pytest.approx(expected.methods["stacked"].value.value)
    weight = fits["energy"].weights[1]
    assert ("energy" in result.skipped) == bool(weight > 0)
    of_all, of_able = (c.of("energy score").methods["uniform"].value for c in (comparison, others))
    assert of_all != of_able


def test_a_fit_says_which_of_its_members_lack_what_is_asked(whole):
    table = part(whole, ["a"], "log_q").join(part(whole, ["b", "c"], "draws"))
    fit = ds.stack(table, score=ds.EnergyScore())
    with pytest.raises(ValueError, match=r"the fit uses .*b.* no `log_q`"):
        fit.evaluate(table, ds.LogScore())
    with pytest.raises(ValueError, match="the table has no `draws`"):
        ds.stack(table).apply(table).draws()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"theta": 1.0}, "`theta` of both tables must be the same; it differs in 30 of 30 rows"),
        ({"y": 1.0}, "`y` of both tables must be the same; it differs in 30 of 30 rows"),
        ({"rows": slice(0, 20)}, "the same rows; got 30 and 20"),
        ({"names": ["b"]}, "names of members must be unique; both tables have 'b'"),
        ({"parameters": ["x", "z"]}, "must have the same parameters"),
    ],
)
def test_other_rows_and_names_are_refused(whole, change, message):
    other = whole.select(members=["e"], rows=change.get("rows"))
    other = ds.Table(
        other.theta + change.get("theta", 0.0),
        other.y + change.get("y", 0.0),
        log_q=other.log_q,
        names=change.get("names", ["e"]),
        parameters=change.get("parameters"),
    )
    with pytest.raises(ValueError, match=message):
        part(whole, ["a", "b"], "log_q").reweighted(np.ones(30)).join(other)


def test_draws_and_levels_that_differ_are_cut_to_those_of_both(whole):
    few = ds.Table(whole.theta, whole.y, draws=whole.draws[:2, :, :5], names=["a", "b"])
    many = ds.Table(whole.theta, whole.y, draws=whole.draws[2:], names=["c", "d", "e"])
    with pytest.warns(UserWarning, match="11 and 5 draws"):
        assert few.join(many).draws.shape == (5, 30, 5, 2)
    one = ds.Table(whole.theta, quantiles={0.1: whole.mean[:2], 0.5: whole.mean[:2]}, names=["a", "b"])
    two = ds.Table(whole.theta, quantiles={0.5: whole.mean[2:3], 0.9: whole.mean[2:3]}, names=["c"])
    with pytest.warns(UserWarning, match=r"levels \[0.1, 0.9\] are not in the joined table"):
        assert one.join(two).levels == (0.5,)
