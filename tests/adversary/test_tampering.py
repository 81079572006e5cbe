"""Every file we write is recognised as changed: names and attributes, numbers, and the seal itself."""

import json
import shutil

import numpy as np
import pytest

import drystone as ds
from drystone.adapters import from_files, to_file
from helpers.tables import make_table


@pytest.fixture
def table():
    return make_table(K=3, N=20)


@pytest.mark.parametrize("read", [ds.Table.load, ds.Table.open], ids=["load", "open"])
@pytest.mark.parametrize("change", ["exchange names", "lose a name", "lose the seal", "edit the seal"])
def test_attributes_of_a_store_are_sealed(table, tmp_path, change, read):
    table.save(tmp_path / "t.zarr")
    root = tmp_path / "t.zarr" / "zarr.json"
    plain = json.loads(root.read_text())
    attributes = plain["attributes"]
    if change == "exchange names":
        attributes["member"] = attributes["member"][::-1]
    elif change == "lose a name":
        attributes["member"].pop()
    elif change == "lose the seal":
        del attributes["seal"]
    else:
        attributes["seal"] = 64 * "0"
    root.write_text(json.dumps(plain))
    with pytest.raises(ds.DamagedError, match=r"t\.zarr"):
        read(tmp_path / "t.zarr")


def test_stores_that_are_written_differently_but_say_the_same_are_read(table, tmp_path):
    table.save(tmp_path / "t.zarr")
    root = tmp_path / "t.zarr" / "zarr.json"
    root.write_text(json.dumps(json.loads(root.read_text()), indent=7, sort_keys=True))
    np.testing.assert_array_equal(ds.Table.load(tmp_path / "t.zarr").log_q, table.log_q)


def bits(path, count, seed=0):
    """Copies of a file or store with one bit changed, each at another place."""
    rng = np.random.default_rng(seed)
    copy = path.with_name(f"changed{path.suffix}")
    for _ in range(count):
        shutil.rmtree(copy) if copy.is_dir() else copy.unlink(missing_ok=True)
        shutil.copytree(path, copy) if path.is_dir() else shutil.copy(path, copy)
        files = sorted(file for file in copy.rglob("*") if file.is_file()) if copy.is_dir() else [copy]
        file = files[rng.integers(len(files))]
        content = bytearray(file.read_bytes())
        content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        file.write_bytes(content)
        yield copy


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_no_bit_of_a_table_changes_unnoticed(table, tmp_path, suffix):
    table.save(tmp_path / f"t{suffix}")
    for copy in bits(tmp_path / f"t{suffix}", 40):
        with pytest.raises(ValueError, match=r"changed"):
            ds.Table.load(copy)


@pytest.mark.parametrize("suffix", [".npz", ".h5", ".nc", ".zarr"])
def test_no_bit_of_a_members_file_changes_unnoticed(table, tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    to_file(path, log_q=table.log_q[0], theta=table.theta, name="maf")
    expected = from_files([path])
    for copy in bits(path, 40):
        with pytest.raises(ValueError, match=r"changed"):
            from_files([copy])
    assert expected.names == ("maf",)


def test_no_bit_of_a_member_changes_unnoticed(run):
    for suffix in (".json", ".safetensors"):
        path = run.members / f"maf-000{suffix}"
        content = path.read_bytes()
        for copy in bits(path, 10):
            path.write_bytes(copy.read_bytes())
            copy.unlink()
            with pytest.raises(ds.DamagedError, match=r"maf-000"):
                ds.Ensemble.load(run.members)[0]
        path.write_bytes(content)


def test_a_record_of_a_manifest_is_sealed_and_may_be_removed(run):
    from drystone.runs.manifest import Manifest

    path = run.path / "manifest.json"
    plain = json.loads(path.read_text())
    plain["stages"]["tabulate"]["rows"][0] += 1
    path.write_text(json.dumps(plain))
    with pytest.raises(ds.DamagedError, match=r"manifest\.json is damaged .*'tabulate'"):
        Manifest(run)
    del plain["stages"]["tabulate"]
    path.write_text(json.dumps(plain))
    assert Manifest(run).get("tabulate") is None


def test_tables_that_others_wrote_have_no_seal_and_are_read(table, tmp_path):
    table.to_xarray().to_netcdf(tmp_path / "t.nc", engine="h5netcdf")
    np.savez(tmp_path / "m.npz", log_q=table.log_q[0], theta=table.theta)
    np.testing.assert_array_equal(ds.Table.load(tmp_path / "t.nc").log_q, table.log_q)
    np.testing.assert_array_equal(from_files([tmp_path / "m.npz"]).log_q, table.log_q[:1])
