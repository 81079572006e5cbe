"""Any change of any file: its loader names the file, or loads the same. No hang, and no more than a gigabyte.

Each loader is given copies of a file, or of a store, with bytes flipped, overwritten, inserted, removed, repeated
or cut off, or with a file of a store missing, exchanged or added. With a seal that fits the changed bytes (made
by somebody who knows how) it may load other numbers, but still names the file or loads.
"""

import json
import os
import resource
import shutil
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import drystone as ds
from drystone._files import read_npz, seal_file, seal_store, write_npz, write_sealed_json
from drystone._resume import Record, continue_or_start
from drystone.adapters import from_files, to_file
from drystone.inference.stored import recorded
from drystone.runs import Run
from drystone.runs.config import Config
from drystone.runs.imported import read_npy
from drystone.runs.manifest import Manifest
from drystone.runs.normalizer import RunNormalizer
from helpers import tiny_run as tiny

FEW, MANY = 200, 10_000
_TOY = ds.toy.table(5, seed=3, draws=3)
TABLE = ds.Table(_TOY.theta, log_q=_TOY.log_q[:2], draws=_TOY.draws[:2], names=["left", "right"])
PRIOR = ds.tasks.Normal([0.0], [10**0.5])


def of_table(table):
    """What a table holds, to be compared."""
    arrays = [table.theta, table.log_q, np.asarray(table.draws), table.rank, table.row_weights]
    return [table.names, table.parameters, table.S, table.left_out, *map(np.ndarray.tolist, arrays)]


def of_points(table):
    shared = [table.points, table.log_r, table.log_prior, table.log_f, table.log_q]
    return [table.names, table.parameters, *map(np.ndarray.tolist, shared)]


def of_simulations(loaded):
    arrays = [*loaded, loaded.row, loaded.support.lower, loaded.support.upper]
    return [dict(loaded.settings), dict(loaded.left_out), loaded.parameters, *map(np.ndarray.tolist, arrays)]


def of_member(member):
    rest = [member.name, member.configuration, member.flow.architecture, member.history.losses]
    return [*map(repr, rest), member.flow.parameters.tolist(), member.scaling.shift.tolist()]


def of_likelihood(member):
    rest = [member.name, member.configuration, member.flow.architecture, member.history.losses, member.features]
    return [*map(repr, rest), member.flow.parameters.tolist(), member.condition.scaling.shift.tolist()]


def of_fit(fit):
    return [fit.names, fit.weights.tolist(), fit.loss, repr(fit.form), repr(fit.score), fit.terms, fit.status]


def of_manifest(manifest):
    return repr(sorted(manifest.stages.items()))


def of_arrays(arrays):
    return {name: array.tolist() for name, array in arrays.items()}


def same(loaded):
    return loaded


def from_file(path):
    return from_files([path])


# By name: the file, how it is loaded, and what is compared: nothing of a user's own file, which may be edited.
LOADERS = {
    "table.zarr": ("table.zarr", ds.Table.load, of_table),
    "table.zarr, open": ("table.zarr", ds.Table.open, of_table),
    "table.nc": ("table.nc", ds.Table.load, of_table),
    "member.npz": ("member.npz", from_file, of_table),
    "member.zarr": ("member.zarr", from_file, of_table),
    "member.h5": ("member.h5", from_file, of_table),
    "member.nc": ("member.nc", from_file, of_table),
    "simulations.zarr": ("simulations.zarr", lambda path: ds.Simulations.load(path.parent), of_simulations),
    "members": ("members", lambda path: ds.Ensemble.load(path)[0], of_member),
    "fit.json": ("fit.json", ds.Stacking.load, of_fit),
    "manifest.json": ("manifest.json", lambda path: Manifest(Run(path.parent)), of_manifest),
    "block.npz": ("block.npz", read_npz, of_arrays),
    "points.zarr": ("points.zarr", ds.Table.load, of_points),
    "likelihoods": ("likelihoods", lambda path: ds.Ensemble.load(path)[0], of_likelihood),
    "product.json": ("product.json", ds.Stacking.load, of_fit),
    "normalizer.json": ("normalizer.json", RunNormalizer.load, same),
    "record.json": ("record.json", lambda path: recorded(path, ["theta"]), same),
    "config.toml": ("config.toml", Config.read, None),
    "theta.npy": ("theta.npy", read_npy, None),
}


@pytest.fixture(scope="module")
def files(original, tmp_path_factory):
    """One file of every kind."""
    directory = tmp_path_factory.mktemp("files")
    TABLE.save(directory / "table.zarr")
    TABLE.save(directory / "table.nc")
    for suffix in ("npz", "zarr", "h5", "nc"):
        arrays = {"log_q": TABLE.log_q[0], "draws": np.asarray(TABLE.draws)[0], "theta": TABLE.theta}
        to_file(directory / f"member.{suffix}", **arrays, name="maf")
    ds.simulate(ds.tasks.get("two_moons"), n=5, seed=1).save(directory)
    (directory / "members").mkdir()
    for suffix in ("json", "safetensors"):
        shutil.copy(original.members / f"maf-000.{suffix}", directory / "members")
    shutil.copy(original.fit("log"), directory / "fit.json")
    shutil.copy(original.path / "manifest.json", directory)
    write_npz(directory / "block.npz", {"theta": TABLE.theta, "reason": np.array(["", "a"])})
    theta, y = ds.toy.simulate(20, seed=1)
    shared = ds.tabulate(ds.toy.MEMBERS, theta, y, draws=0, points=5, prior=PRIOR)
    shared.save(directory / "points.zarr")
    ds.stack(shared, ds.Product(prior=PRIOR)).save(directory / "product.json")
    ds.train(theta, y, target="likelihood", members=1, epochs=1, workers=1).save(directory / "likelihoods")
    RunNormalizer({"maf-000": 0.25, "maf-001": 0.75}, seed=1).save(directory / "normalizer.json")
    settings = {"seed": 3, "log_y": False, "epochs": 2, "target": "both"}
    continue_or_start(directory / "record.json", Record(settings, {"theta": "8b1a"}), "the inference", "")
    tiny.CONFIG.write(directory / "config.toml")
    np.save(directory / "theta.npy", TABLE.theta)
    return directory


# ── changes ──────────────────────────────────────────────────────────────────────────────────────────────────

KINDS = ("flip", "overwrite", "insert", "remove", "repeat", "cut", "lose", "exchange", "add")
SHARE = st.floats(0, 1, exclude_max=True)
CHANGES = st.lists(
    st.tuples(st.sampled_from(KINDS), SHARE, SHARE, st.binary(min_size=1, max_size=9)), min_size=1, max_size=3
)


def change(path, kind, where, which, content):
    """Change a file, or one of the files of a directory."""
    inside = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    if not inside:
        return
    file = inside[int(which * len(inside))]
    if kind == "lose" and path.is_dir():
        file.unlink()
    elif kind == "exchange" and path.is_dir():
        other = inside[int(where * len(inside))]
        one, two = file.read_bytes(), other.read_bytes()
        file.write_bytes(two)
        other.write_bytes(one)
    elif kind == "add" and path.is_dir():
        (path / f"stray-{content.hex()}").write_bytes(content)
    else:
        old = file.read_bytes()
        i = int(where * len(old))
        file.write_bytes(
            {
                "flip": old[:i] + bytes([old[i] ^ (1 << content[0] % 8)]) + old[i + 1 :] if old else content,
                "overwrite": old[:i] + content + old[i + len(content) :],
                "insert": old[:i] + content + old[i:],
                "remove": old[:i] + old[i + len(content) :],
                "repeat": old[:i] + old[i : i + 64] + old[i:],
            }.get(kind, old[:i])
        )


def reseal(path):
    """Give a changed file a seal that fits; False if there is nothing to seal."""
    try:
        if path.suffix == ".zarr":
            seal_store(path)
        elif path.suffix == ".npz":
            seal_file(path, reserved=path.stat().st_size > 200)
        elif path.suffix == ".json":
            write_sealed_json(path, json.loads(path.read_bytes()))
        else:
            return False
    except Exception:
        return False
    return True


@pytest.fixture(autouse=True)
def little_memory():
    pages = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages + 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


class Original:
    """A file or directory, with its bytes, copied to where it is changed.

    A copy in memory that is repaired after each change costs a tenth of a new copy on disk.
    """

    def __init__(self, name, files, directory):
        file, self.load, self.contents = LOADERS[name]
        self.source, self.path = files / file, Path(directory) / file
        self.directory = str(directory)
        if self.source.is_dir():
            self.bytes = {p.relative_to(self.source): p.read_bytes() for p in sorted(self.source.rglob("*"))
                          if p.is_file()}  # fmt: skip
            shutil.copytree(self.source, self.path)
        else:
            self.bytes = {Path(): self.source.read_bytes()}
            shutil.copy(self.source, self.path)
        self.expected = None if self.contents is None else self.contents(self.load(self.source))

    def differing(self):
        """Files that are not as they were, with what they were: None for a file that was added."""
        path = self.path
        names = [p.relative_to(path) for p in path.rglob("*") if p.is_file()] if self.source.is_dir() else [Path()]
        found = {name: (path / name).read_bytes() for name in names if (path / name).exists()}
        every = {**found, **self.bytes}
        return {name: self.bytes.get(name) for name in every if found.get(name) != self.bytes.get(name)}

    def restore(self):
        for name, content in self.differing().items():
            (self.path / name).unlink() if content is None else (self.path / name).write_bytes(content)


def check(original, changes, resealed):
    path, contents = original.path, original.contents
    try:
        for one in changes:
            change(path, *one)
        may_differ = contents is None or (resealed and reseal(path))
        unchanged = not original.differing()
        begun, loaded, problem = time.process_time(), None, None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                loaded = original.load(path)
                if contents is not None and not may_differ:
                    loaded = contents(loaded)  # some is read only now
        except Exception as error:
            problem = error
        assert time.process_time() - begun < 10
        if problem is None:
            assert may_differ or loaded == original.expected
        else:
            assert not unchanged
            assert not isinstance(problem, MemoryError)
            assert original.directory in str(problem), f"{type(problem).__name__}: {problem}"
    finally:
        original.restore()


def fuzz(examples):
    """Return a test of one loader with so many changed files."""

    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        database=None,
    )
    @given(changes=CHANGES, resealed=st.booleans())
    def of_one_loader(original, changes, resealed):
        check(original, changes, resealed)

    return of_one_loader


few, many = fuzz(FEW), fuzz(MANY)


@pytest.fixture
def originals(files):
    """Return the original of a loader, copied to memory where there is such a place."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as directory:
        yield lambda name: Original(name, files, directory)


@pytest.mark.parametrize("name", LOADERS)
def test_a_changed_file_is_named_or_loads_the_same(name, originals):
    few(originals(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADERS)
def test_ten_thousand_changed_files_are_named_or_load_the_same(name, originals):
    many(originals(name))
