"""Files made to deceive: none runs code, none is followed or waited for, none takes the memory, each is named."""

import json
import os
import resource
import shutil
import sys
import types
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr

import drystone as ds
from drystone.adapters import from_files, to_file
from drystone.cli.main import main
from drystone.runs import outputs
from drystone.runs.imported import read_npy
from helpers import tiny_run as tiny
from helpers.tables import make_table

THETA = np.arange(6.0).reshape(3, 2)


@pytest.fixture
def little_memory():
    """A gigabyte of addresses more than now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages + 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


class Exploit:
    """What unpickling would run."""

    def __reduce__(self):
        return os.mkdir, ("exploited",)


@pytest.fixture(autouse=True)
def nothing_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / "exploited").exists()


# ── code ─────────────────────────────────────────────────────────────────────────────────────────────────────


def pickled_zarr2(path, format="drystone-table"):
    """A store of Zarr format 2 whose only array is decoded by numcodecs' Pickle."""
    import pickle

    group = path / "log_q"
    group.mkdir(parents=True)
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    (path / ".zattrs").write_text(
        json.dumps({"format": format, "version": 1, "member": ["a"], "parameter": ["b"]})
    )
    metadata = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "compressor": None, "fill_value": 0}
    metadata |= {"order": "C", "filters": [{"id": "pickle", "protocol": 5}]}
    (group / ".zarray").write_text(json.dumps(metadata))
    (group / "0").write_bytes(pickle.dumps(np.array([Exploit()], dtype=object)))
    return path


@pytest.mark.parametrize("read", [ds.Table.load, ds.Table.open], ids=["load", "open"])
def test_a_store_that_is_unpickled_is_no_table(tmp_path, read):
    with pytest.raises(ds.DamagedError, match=r"evil\.zarr"):
        read(pickled_zarr2(tmp_path / "evil.zarr"))


def test_a_store_that_is_unpickled_is_no_members_file(tmp_path):
    pickled_zarr2(tmp_path / "evil.zarr", format="other")
    with pytest.raises(ValueError, match=r"evil\.zarr cannot be read"):
        from_files(str(tmp_path / "*.zarr"), theta=np.zeros((1, 1)))


def test_a_store_that_is_unpickled_is_no_simulations(tmp_path):
    pickled_zarr2(tmp_path / "simulations.zarr", format="drystone simulations")
    with pytest.raises(ds.DamagedError, match=r"simulations\.zarr"):
        ds.Simulations.load(tmp_path)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_pickles_of_numpy_are_refused(tmp_path, suffix):
    evil = np.array([Exploit()], dtype=object)
    path = tmp_path / f"evil{suffix}"
    (np.save if suffix == ".npy" else np.savez)(path, evil, allow_pickle=True)
    with pytest.raises(ValueError, match="evil"):
        read_npy(path) if suffix == ".npy" else from_files([path], theta=THETA)


@pytest.fixture
def foreign_task(monkeypatch):
    """A module whose import shows; returns how often it was imported."""
    imported = []

    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name == "foreign_code":
                imported.append(name)
            return

    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    return imported


@pytest.mark.parametrize("verb", ["simulate", "train", "tabulate", "compare --exact", "report --exact"])
def test_a_task_that_is_code_is_imported_only_if_the_user_says_so(run, foreign_task, verb, capsys):
    text = run.config_file.read_text()
    run.config_file.write_text(text.replace('"two_moons"', '"foreign_code:task"'))
    (run.path / "manifest.json").unlink()  # else the simulations are of another task
    words = [verb.split()[0], str(run.path), *verb.split()[1:], *(["--force"] if verb[0] in "st" else [])]
    if verb in ("train", "tabulate"):  # the simulations hold what they need
        assert main(words) == 0
    else:
        assert main(words) == 1
        assert "add --trust if you trust this directory" in capsys.readouterr().err
    assert not foreign_task
    if verb not in ("train", "tabulate"):
        assert main([*words, "--trust"]) == 1
        assert "cannot be imported" in capsys.readouterr().err
        assert foreign_task


def test_a_task_whose_name_was_typed_is_imported_and_later_verbs_do_without(tmp_path, monkeypatch):
    module, task = types.ModuleType("typed_code"), ds.tasks.get("two_moons")
    module.__dict__["task"] = task
    monkeypatch.setitem(sys.modules, "typed_code", module)
    sizes = ["--train", "60", "--stack", "20", "--test", "20"]
    assert main(["simulate", str(tmp_path / "run"), "--task", "typed_code:task", *sizes]) == 0
    monkeypatch.delitem(sys.modules, "typed_code")
    simulations = ds.Simulations.load(tmp_path / "run")
    assert simulations.parameters == task.parameters
    np.testing.assert_array_equal(simulations.support.lower, task.prior.support.lower)
    options = ["--members", "2", "--family", "maf", "--epochs", "1", "--workers", "1"]
    assert main(["train", str(tmp_path / "run"), *options]) == 0
    assert main(["tabulate", str(tmp_path / "run"), "--draws", "5"]) == 0
    assert ds.Table.load(tmp_path / "run" / "table.zarr").parameters == task.parameters


# ── other files ──────────────────────────────────────────────────────────────────────────────────────────────


def member_h5(path):
    """A member's file without a seal, as another program would write it, to be spoilt."""
    with h5py.File(path, "w") as file:
        file["theta"] = THETA
    return path


def test_an_external_link_in_hdf5_is_refused(tmp_path):
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["log_q"] = np.zeros(3)
    with h5py.File(member_h5(tmp_path / "a.h5"), "a") as file:
        file["log_q"] = h5py.ExternalLink("secret.h5", "log_q")
    with pytest.raises(ValueError, match=r"a\.h5 is refused: 'log_q' is a link"):
        from_files([tmp_path / "a.h5"])


def test_external_and_virtual_storage_in_hdf5_are_refused(tmp_path):
    (tmp_path / "secret").write_bytes(b"password" * 3)
    with h5py.File(member_h5(tmp_path / "a.h5"), "a") as file:
        file.create_dataset("log_q", (3,), float, external=[(str(tmp_path / "secret"), 0, 24)])
    with h5py.File(member_h5(tmp_path / "b.h5"), "a") as file:
        layout = h5py.VirtualLayout((3,), float)
        layout[:] = h5py.VirtualSource(tmp_path / "a.h5", "theta", (3, 2))[:, 0]
        file.create_virtual_dataset("log_q", layout)
    for name in ("a.h5", "b.h5"):
        with pytest.raises(ValueError, match=f"{name} is refused: the values of 'log_q' lie in other files"):
            from_files([tmp_path / name])


def test_a_netcdf_table_with_links_is_refused(tmp_path):
    make_table(K=2, N=5).to_xarray().to_netcdf(tmp_path / "t.nc", engine="h5netcdf")
    with h5py.File(tmp_path / "t.nc", "a") as file:
        del file["log_q"]
        file["log_q"] = h5py.ExternalLink("/dev/zero", "log_q")
    with pytest.raises(ds.DamagedError, match=r"t\.nc is refused"):
        ds.Table.load(tmp_path / "t.nc")


@pytest.mark.parametrize("name", ["inference", "inference/members", "inference/refitted", "inference/stacking"])
def test_an_inference_is_not_written_through_a_link(run, tmp_path, name, capsys):
    outside = tmp_path / "outside"
    (outside / "members").mkdir(parents=True)
    for place in (outside, outside / "members"):
        (place / f".maf.{'a' * 32}.tmp").write_text("work of weeks")
    (run.path / name).parent.mkdir(exist_ok=True)
    (run.path / name).symlink_to(outside)
    assert main(["infer", str(run.path), "--members", "1"]) == 1
    assert str(run.path / name) in capsys.readouterr().err
    assert len([path for path in outside.rglob("*") if path.is_file()]) == 2


@pytest.mark.parametrize("kind", ["link", "pipe", "device"])
@pytest.mark.parametrize("name", [".lock", "log.jsonl", "manifest.json", "config.toml"])
def test_files_of_a_run_that_are_not_regular_are_refused(run, tmp_path, name, kind, capsys):
    precious = tmp_path / "precious"
    precious.write_text("work of weeks")
    (run.path / name).unlink()
    if kind == "link":
        (run.path / name).symlink_to(precious)
    elif kind == "pipe":
        os.mkfifo(run.path / name)
    else:
        (run.path / name).symlink_to("/dev/zero")
    assert main(["stack", str(run.path), "--force"]) == 1
    said = capsys.readouterr().err
    assert str(run.path / name) in said
    assert "not the regular file" in said
    assert precious.read_text() == "work of weeks"


@pytest.mark.parametrize("name", [".new-train", ".ready-train", "members", "fits", "table.parts"])
def test_nothing_outside_of_a_run_is_written_or_emptied(run, tmp_path, name, capsys):
    outside = tmp_path / "outside"
    if (run.path / name).exists():
        shutil.move(run.path / name, outside)
    else:
        outside.mkdir()
    (outside / f".members.{32 * 'a'}.tmp").write_text("not ours")
    before = {path.name: path.read_bytes() for path in outside.iterdir()}
    (run.path / name).symlink_to(outside)
    verb = {"fits": ["stack", "--force"], "table.parts": ["tabulate", "--draws", "13"]}.get(
        name, ["train", "--members", "4"]
    )
    assert main([verb[0], str(run.path), *verb[1:]]) == 1
    assert "outside of the run, where nothing is written" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == before


def test_members_on_another_disk_are_read(run, tmp_path):
    shutil.move(run.members, tmp_path / "elsewhere")
    run.members.symlink_to(tmp_path / "elsewhere")
    assert len(outputs.load_members(run, tiny.CONFIG)) == 3
    assert main(["tabulate", str(run.path)]) == 0


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_chunks_and_members_files_that_are_not_regular_are_refused(tmp_path, kind):
    make_table(K=2, N=5).save(tmp_path / "t.zarr")
    to_file(tmp_path / "m.npz", log_q=np.zeros(3), theta=THETA)
    chunk = tmp_path / "t.zarr" / "log_q" / "c" / "0" / "0"
    for path in (chunk, tmp_path / "m.npz"):
        path.unlink()
        os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(ds.DamagedError, match="not the regular file"):
        ds.Table.load(tmp_path / "t.zarr")
    with pytest.raises(ValueError, match=r"m\.npz .*not the regular file"):
        from_files([tmp_path / "m.npz"])


# ── sizes ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_small_store_that_declares_a_large_array_takes_no_memory(tmp_path, little_memory):
    make_table(K=2, N=5).save(tmp_path / "t.zarr")
    root = tmp_path / "t.zarr" / "zarr.json"
    for array in ("theta", "log_q"):
        path = tmp_path / "t.zarr" / array / "zarr.json"
        node = json.loads(path.read_text())
        node["shape"][-2 if array == "theta" else -1] = 2**31
        path.write_text(json.dumps(node))
    plain = json.loads(root.read_text())
    del plain["attributes"]["seal"]
    plain["attributes"] |= {"version": 1, "checksum": "0"}
    root.write_text(json.dumps(plain))
    for read in (ds.Table.load, ds.Table.open):
        with pytest.raises(ds.DamagedError, match="declares arrays of"):
            read(tmp_path / "t.zarr")


def test_a_chunk_that_unpacks_to_more_than_it_should_is_refused(tmp_path, little_memory):
    group = zarr.create_group(tmp_path / "m.zarr")
    group.create_array("theta", data=THETA)
    group.create_array("log_q", data=np.ones(3))
    zeros = zarr.create_group(tmp_path / "zeros.zarr").create_array(
        "log_q", data=np.zeros(2**20), chunks=(2**20,), config={"write_empty_chunks": True}
    )
    assert zeros.nchunks == 1
    shutil.copy(tmp_path / "zeros.zarr/log_q/c/0", tmp_path / "m.zarr/log_q/c/0")
    with pytest.raises(ValueError, match=r"log_q/c/0 is damaged: it holds 8388608 bytes of a chunk of 24"):
        from_files([tmp_path / "m.zarr"])


def test_archives_and_arrays_that_declare_more_than_they_hold_are_refused(tmp_path, little_memory):
    import io

    def header(shape):
        file = io.BytesIO()
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
        return file.getvalue()

    with zipfile.ZipFile(tmp_path / "m.npz", "w") as archive:
        archive.writestr("log_q.npy", header((2**33,)))
    (tmp_path / "theta.npy").write_bytes(header((2**33, 2)))
    with pytest.raises(ValueError, match=r"m\.npz"):
        from_files([tmp_path / "m.npz"], theta=THETA)
    with pytest.raises(ValueError, match=r"theta\.npy"):
        read_npy(tmp_path / "theta.npy")


def test_an_hdf5_file_that_declares_more_than_it_holds_is_refused(tmp_path, little_memory):
    with h5py.File(member_h5(tmp_path / "m.h5"), "a") as file:
        file.create_dataset("log_q", (2**33,), float, chunks=(2**10,))
    with h5py.File(member_h5(tmp_path / "n.h5"), "a") as file:
        file.create_dataset("log_q", (3,), float)  # never written
    with pytest.raises(ValueError, match=r"m\.h5 is damaged: it declares"):
        from_files([tmp_path / "m.h5"])
    with pytest.raises(ValueError, match=r"n\.h5 is damaged: a part of 'log_q' was never written"):
        from_files([tmp_path / "n.h5"])


def test_a_member_that_declares_a_large_network_takes_no_memory(run, little_memory):
    path = run.members / "maf-000.json"
    plain = json.loads(path.read_text())
    del plain["checksum"]
    plain["format"] = 1
    plain["architecture"] |= {"features": 50_000_000, "orders": None}
    path.write_text(json.dumps(plain))
    with pytest.raises(ds.DamagedError, match=r"maf-000\.json .*other than the \d+ parameters"):
        ds.Ensemble.load(run.members)[0]


def test_a_text_without_end_is_not_read(run, little_memory):
    with (run.members / "maf-000.json").open("r+b") as file:
        file.truncate(2**40)
    with pytest.raises(ds.DamagedError, match=r"maf-000\.json has more than 64 MiB"):
        ds.Ensemble.load(run.members)


BROKEN = {
    "empty": b"",
    "deep": b"[" * 100_000,
    "not UTF-8": b"\xff\xfe",
    "a list": b"[]",
    "a number": b"1" * 10_000,
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("name", ["members/maf-000.json", "manifest.json", "fits/log.json", "config.toml"])
def test_texts_that_are_not_what_they_should_be_are_named(run, name, content, capsys):
    (run.path / name).write_bytes(content)
    if name == "config.toml" and content in (b"",):
        return  # the defaults
    sample = ["sample", str(run.path), "--row", "0", "--out", str(run.path / "draws.npz")]
    assert main(["tabulate", str(run.path), "--force"] if name.startswith("members") else sample) == 1
    said = capsys.readouterr().err
    assert str(run.path / name) in said
    assert "unexpected" not in said


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_record_that_is_not_what_it_should_be_is_named(tmp_path, content):
    (tmp_path / "table.json").write_bytes(content)
    theta, y = ds.toy.simulate(5, seed=0)
    with pytest.raises(ds.DamagedError, match=r"table\.json"):
        ds.tabulate(ds.toy.MEMBERS, theta, y, draws=3, directory=tmp_path)


def test_logs_that_are_not_text_stop_nothing(run):
    (run.path / "log.jsonl").write_bytes(b"\xff\xfe\n")
    (run.members / "timings.jsonl").write_bytes(b'{"name": "maf-000"}\n[1]\n' + b"[" * 100_000)
    assert np.isnan(ds.Ensemble.load(run.members)[0].history.seconds)
    assert main(["stack", str(run.path), "--force"]) == 0
