"""Numbers that cannot be what they are said to be are refused; odd types and long names are taken."""

import os

import numpy as np
import pytest
import torch

import drystone as ds
from drystone._files import recover, replacing
from drystone.cli.main import main
from helpers.tables import make_table


def test_covariances_that_are_not_symmetric_are_refused():
    table = make_table(K=2, N=4)
    cov = table.cov.copy()
    ds.Table(table.theta, mean=table.mean, cov=cov.astype(np.float32))
    cov[1, 2, 0, 1] += 0.1 * cov[1, 2, 0, 0]
    with pytest.raises(ValueError, match=r"`cov` must be symmetric; .* not in rows 1 \(2\)"):
        ds.Table(table.theta, mean=table.mean, cov=cov)


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
    monkeypatch.setattr("drystone._messages.find_spec", lambda module: None if module == "h5netcdf" else module)
    assert main(["stack", str(tmp_path / "t.nc")]) == 1
    said = capsys.readouterr().err
    assert "pip install 'drystone[files]'" in said
    assert "unexpected" not in said
