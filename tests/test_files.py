"""Tests for drystone._files."""

import errno
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import drystone as ds
from drystone._files import check, digest, read_npz, recover, remove, replacing, write_npz
from helpers.faults import injected


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(TypeError), replacing(target) as temporary:
        temporary.write_text(["not", "text"])  # pyright: ignore[reportArgumentType]
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_directory_is_replaced_whole(tmp_path):
    target = tmp_path / "store"
    for content in ("one", "two"):
        with replacing(target) as temporary:
            temporary.mkdir()
            (temporary / content).write_text(content)
    assert [p.name for p in target.iterdir()] == ["two"]
    assert [p.name for p in tmp_path.iterdir()] == ["store"]


def test_a_directory_lost_between_two_renamings_is_recovered(tmp_path):
    (tmp_path / ".store.0f.old").mkdir()
    (tmp_path / ".store.0f.old" / "one").write_text("one")
    recover(tmp_path / "store")
    assert (tmp_path / "store" / "one").read_text() == "one"


def test_a_file_never_takes_the_place_of_a_directory(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious.txt").write_text("work of weeks")
    with pytest.raises(IsADirectoryError, match="is a directory"), replacing(tmp_path / "run") as temporary:
        temporary.write_text("a file")
    assert [path.name for path in tmp_path.rglob("*")] == ["run", "precious.txt"]


@pytest.mark.parametrize(
    ("error", "builtin"),
    [(ds.DamagedError, ValueError), (ds.StaleError, ValueError), (ds.LockedError, RuntimeError)],
)
def test_errors_of_files_are_drystones_own_and_a_builtin_kind(error, builtin):
    assert issubclass(error, ds.StackingError)
    assert issubclass(error, builtin)


def test_a_changed_file_is_damaged(tmp_path):
    path = tmp_path / "weights.json"
    path.write_text("[0.3, 0.7]")
    written = digest(path)
    check(path, written)
    path.write_text("[0.7, 0.3]")
    with pytest.raises(ds.DamagedError, match=r"weights.json is damaged"):
        check(path, written)


def test_a_directory_is_removed_although_its_files_vanish_meanwhile(tmp_path, monkeypatch):
    store = tmp_path / "store"
    (store / "chunks").mkdir(parents=True)
    rmtree, faults = shutil.rmtree, [FileNotFoundError(errno.ENOENT, "gone"), OSError(errno.ENOTEMPTY, "new")]

    def disturbed(path):
        if faults:
            raise faults.pop()
        rmtree(path)

    monkeypatch.setattr(shutil, "rmtree", disturbed)
    remove(store)
    assert not faults
    assert not store.exists()


def test_a_directory_that_cannot_be_removed_is_an_error(tmp_path, monkeypatch):
    def failing(path):
        raise OSError(errno.EIO, "failed")

    monkeypatch.setattr(shutil, "rmtree", failing)
    with pytest.raises(OSError, match="failed"):
        remove(tmp_path)


def test_an_archive_that_cannot_be_written_is_never_left_empty(tmp_path):
    path = tmp_path / "a.npz"
    events = []
    for n in range(1, 20):
        with injected(tmp_path, n, "ENOSPC") as faults, suppress(OSError):
            write_npz(path, {"log_q": np.arange(3.0)})
        events.append(faults.count)
        if path.exists():
            np.testing.assert_array_equal(read_npz(path)["log_q"], np.arange(3.0))
            path.unlink()
    assert events[-1] < 19, "every event of a write had its fault"


def test_an_archive_holds_what_was_given_and_no_objects(tmp_path):
    path = tmp_path / "a.npz"
    write_npz(path, {"log_q": np.arange(3.0), "name": np.array("maf")})
    assert set(read_npz(path)) == {"log_q", "name"}
    with pytest.raises(ValueError, match="b must be of numbers or text; got arrays of objects"):
        write_npz(path, {"a": np.arange(3), "b": np.array([{}])})


def test_a_directory_that_appears_while_it_is_removed_is_no_error(tmp_path, monkeypatch):
    path, is_dir, looks = tmp_path / "store.tmp", Path.is_dir, []

    def appearing(self, **options):
        """A thread makes the directory right after the first look."""
        if self == path and not looks:
            looks.append(is_dir(self))
            path.mkdir()
            return False
        return is_dir(self, **options)

    monkeypatch.setattr(Path, "is_dir", appearing)
    remove(path)
    assert looks == [False]
    assert not path.exists()
