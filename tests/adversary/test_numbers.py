"""Numbers that cannot be what they are said to be are refused; odd types and long names are taken."""

import os

import numpy as np
import pytest
import torch

import drystone as ds
from drystone._files import recover, replacing
from drystone.adapters import from_files, to_file
from drystone.cli.main import main
from drystone.table.disk import Writer
from helpers.tables import make_table


def test_covariances_that_are_not_symmetric_are_refused():
    table = make_table(K=2, N=4)
    cov = table.cov.copy()
    ds.Table(table.theta, mean=table.mean, cov=cov.astype(np.float32))
    cov[1, 2, 0, 1] += 0.1 * cov[1, 2, 0, 0]
    with pytest.raises(ValueError, match=r"`cov` must be symmetric; that of 'member_1' is not in rows 1 \(2\)"):
        ds.Table(table.theta, mean=table.mean, cov=cov)


CROSSED = r"`quantiles` must not cross; those of 'b' at level 0.5 lie above those at 0.9 in rows 2 \(3, 5\)"


def crossing():
    """A table's arguments, whose member b has its quantiles in the wrong order in two rows."""
    theta = np.zeros((6, 2))
    quantiles = {level: np.full((2, 6, 2), 10 * level) for level in (0.1, 0.5, 0.9)}
    quantiles[0.5][1, [3, 5], 1] = 9.01
    return theta, quantiles


def test_quantiles_that_cross_are_refused():
    theta, quantiles = crossing()
    with pytest.raises(ValueError, match=CROSSED):
        ds.Table(theta, quantiles=quantiles, names=["a", "b"])
    quantiles[0.5][1, 3, 1] = np.nan
    with pytest.raises(ValueError, match=r"in rows 1 \(5\)"):
        ds.Table(theta, quantiles=dict(reversed(quantiles.items())))
    quantiles[0.5][1, 5, 1] = 9 * (1 + 1e-7)  # interpolated in single precision
    assert ds.Table(theta, quantiles=quantiles).levels == (0.1, 0.5, 0.9)


@pytest.mark.parametrize("suffix", ["npz", "zarr", "h5", "nc"])
def test_files_of_members_whose_quantiles_cross_are_refused(tmp_path, suffix, monkeypatch):
    theta, quantiles = crossing()
    of_member = {level: values[1] for level, values in quantiles.items()}
    with pytest.raises(ValueError, match=CROSSED):
        to_file(tmp_path / f"b.{suffix}", quantiles=of_member, theta=theta)
    monkeypatch.setattr("drystone.adapters.member_file.check_ordered", lambda *_: None)
    to_file(tmp_path / f"b.{suffix}", quantiles=of_member, theta=theta)
    with pytest.raises(ValueError, match=CROSSED) as error:
        from_files([tmp_path / f"b.{suffix}"])
    assert str(tmp_path) in str(error.value)


def test_tables_on_disk_whose_quantiles_cross_are_refused(tmp_path, monkeypatch):
    theta, quantiles = crossing()

    def write_in_parts():
        with ds.Table.create(tmp_path / "t.zarr", 6, ["a", "b"]) as new:
            new.write(0, theta=theta)
            for k, start in ((0, 0), (0, 2), (1, 0), (1, 2)):
                rows = slice(start, 2 if start == 0 else 6)
                new.write(start, [k], quantiles={level: v[k : k + 1, rows] for level, v in quantiles.items()})

    with pytest.raises(ValueError, match=CROSSED):
        write_in_parts()
    assert not (tmp_path / "t.zarr").exists()

    with monkeypatch.context() as patch:
        patch.setattr("drystone.table.disk.check_ordered", lambda *_: None)
        with Writer(tmp_path / "t.zarr", 6, ["a", "b"], block=200) as new:  # in blocks of two rows
            new.write(0, theta=theta, quantiles=quantiles)
    with pytest.raises(ds.DamagedError, match=CROSSED) as error:
        ds.Table.load(tmp_path / "t.zarr")
    assert str(tmp_path) in str(error.value)
    opened = ds.Table.open(tmp_path / "t.zarr", memory=300)
    assert opened.select(rows=slice(0, 3)).N == 3
    with pytest.raises(ValueError, match=r"those of 'b' at level 0.5 lie above those at 0.9 in rows 1 \(3\)"):
        ds.stack(opened, score=ds.IntervalScore(0.2))
    with pytest.raises(ValueError, match=r"those of 'b' at level 0\.5 lie above"):
        ds.stack(ds.Table.open(tmp_path / "t.zarr"), ds.IntervalAggregation(0.2), ds.IntervalScore(0.2))


def test_quantiles_of_draws_never_cross():
    rng = np.random.default_rng(0)
    levels = np.round(np.linspace(0.01, 0.99, 99), 2).tolist()
    theta = rng.normal(size=(20, 2))
    for scale in (1e-8, 1.0, 1e6):
        draws = (67.4 + scale * rng.normal(size=(2, 20, 7, 2))).astype(np.float32)
        table = ds.Table(theta, draws=draws)
        ds.Table(theta, quantiles={level: table.quantile(level) for level in levels})


def test_brain_floats_are_numbers():
    table = make_table(K=2, N=8)
    halved = torch.tensor(table.log_q).to(torch.bfloat16)
    np.testing.assert_array_equal(ds.Table(table.theta, log_q=halved).log_q, halved.float().numpy())


def test_members_with_long_names_are_tabulated_on_disk(tmp_path):
    theta, y = ds.toy.simulate(5, seed=0)
    names = {stem + "é" * 300: member for stem, member in zip("ab", ds.toy.MEMBERS.values(), strict=False)}
    table = ds.tabulate(names, theta, y, draws=3, directory=tmp_path)
    assert table.names == tuple(names)


@pytest.mark.parametrize("directory", [False, True])
def test_files_with_the_longest_name_there_is_are_written_and_recovered(tmp_path, directory):
    target = tmp_path / ("a" * 255)
    for content in ("old", "new"):
        with replacing(target) as temporary:
            if directory:
                temporary.mkdir()
            (temporary / "file" if directory else temporary).write_text(content)
    assert (target / "file" if directory else target).read_text() == "new"
    if directory:
        from drystone._files.whole import _hidden

        os.rename(target, _hidden(target, "0", "old"))
        recover(target)
        assert (target / "file").read_text() == "new"


def test_an_extra_that_is_missing_is_named(tmp_path, monkeypatch, capsys):
    make_table(K=2, N=8).save(tmp_path / "t.nc")
    monkeypatch.setattr(
        "drystone._messages.text.find_spec", lambda module: None if module == "h5netcdf" else module
    )
    assert main(["stack", str(tmp_path / "t.nc")]) == 1
    said = capsys.readouterr().err
    assert "pip install 'drystone[files]'" in said
    assert "unexpected" not in said


def test_parameters_too_large_to_be_squared_are_refused():
    toy = ds.toy.table(9, seed=1)
    message = r"`theta` must be below 1e\+60 in absolute value; column 0 reaches 2e\+200, and rows 1 \(4\) of 9"
    theta = toy.theta.copy()
    theta[4] = 2e200
    with pytest.raises(ValueError, match=message):
        ds.Table(theta, log_q=toy.log_q)
    with pytest.raises(ValueError, match=message):
        ds.tabulate(ds.toy.MEMBERS, theta, toy.theta, draws=3)


IN_UNITS = [ds.MeanScore(), ds.MomentScore(), ds.EnergyScore(), ds.IntervalScore(0.1), ds.JensenShannon()]


@pytest.mark.parametrize(
    ("form", "score"),
    [(ds.Mixture(), score) for score in IN_UNITS]
    + [(ds.SampleAggregation(), score) for score in IN_UNITS]
    + [(ds.IntervalAggregation(0.1), ds.IntervalScore(0.1))],
)
def test_members_too_large_to_be_squared_are_named(form, score):
    toy = ds.toy.table(40, seed=1, draws=8)
    draws = np.array(toy.draws)
    draws[1, 3, 4] = 1e200
    table = ds.Table(toy.theta, toy.y, draws=draws)
    with pytest.raises(ValueError, match="for 'member_1' at 1 of 40 rows, where numbers above"):
        ds.stack(table, form, score)


@pytest.mark.parametrize("score", [ds.MomentScore(), ds.EnergyScore()])
def test_members_too_large_to_be_squared_can_be_dropped(score):
    toy = ds.toy.table(40, seed=1, draws=8)
    draws = np.array(toy.draws)
    draws[1] *= 1e200
    fit = ds.stack(ds.Table(toy.theta, draws=draws), score=score, nonfinite="drop")
    assert fit.dropped["members"] == ["member_1"]
    others = ds.stack(ds.Table(toy.theta, draws=toy.draws).select(members=[0, 2, 3]), score=score)
    np.testing.assert_allclose(fit.weights[[0, 2, 3]], others.weights)


@pytest.mark.parametrize("scale", [1e-20, 1e50])
def test_weights_do_not_depend_on_the_units_of_the_parameters(scale):
    toy = ds.toy.table(40, seed=1, draws=8)
    table = ds.Table(toy.theta * scale, draws=np.asarray(toy.draws) * scale)
    for score in (ds.IntervalScore(0.1), ds.MeanScore(), ds.MomentScore(), ds.EnergyScore()):
        expected = ds.stack(ds.Table(toy.theta, draws=toy.draws), score=score).weights
        np.testing.assert_allclose(ds.stack(table, score=score).weights, expected, atol=1e-3)


@pytest.mark.parametrize("name", ["theta", "y"])
def test_data_too_large_to_be_squared_are_not_trained_on(name):
    theta, y = ds.toy.simulate(20, seed=0)
    rows = {"theta": theta, "y": y}
    rows[name] = 1e200 * rows[name]
    with pytest.raises(
        ValueError, match=rf"`{name}` must be finite; 20 \(.*\) of 20 rows are not, where numbers above 1e.60"
    ):
        ds.train(rows["theta"], rows["y"], members=1)


def test_data_too_large_to_be_squared_are_not_stacked_near():
    toy = ds.toy.table(20, seed=1)
    table = ds.Table(toy.theta, 1e200 * toy.y, log_q=toy.log_q)
    with pytest.raises(ValueError, match=r"finite `y`; .* where numbers above 1e\+60 count as infinite"):
        ds.stack(table, at=table.y[0])
