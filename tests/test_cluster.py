"""On a Dask cluster of processes: the same results as here, and a killed worker costs nothing but time."""

import json
import os
import shutil
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import drystone as ds
from drystone._parallel import connect
from drystone.cli.main import main
from drystone.tabulation.parts import StoredParts
from drystone.training import disk as storage
from helpers import tiny_run
from helpers.stored_table import stored
from helpers.tables import make_table

distributed = pytest.importorskip("distributed")

SMALL = ds.Sweep(transforms=(2, 2), units=(10, 16), layers=(0, 1), bins=(4, 5), batch_size=(40, 60))
PRIOR = ds.tasks.Uniform([-1.0, 0.0], [1.0, 2.0])


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


def noisy(theta, rng):
    return np.column_stack([theta, theta.sum(1)]) + rng.normal(size=(len(theta), 3))


class Slow:
    """A Gaussian member that takes its time."""

    def __init__(self, shift):
        self.shift = shift

    def log_prob(self, theta, y):
        time.sleep(0.1)
        return -((theta - y - self.shift) ** 2).sum(1)

    def sample(self, n, y, seed):
        return y + self.shift + np.random.default_rng(seed).normal(size=(n, *y.shape))


class Killer(threading.Thread):
    """Kills a worker of the cluster, hard, once enough files are there."""

    def __init__(self, client, folder: Path, pattern: str, files: int):
        super().__init__(daemon=True)
        self.pids = client.run(os.getpid)
        self.client, self.folder, self.pattern, self.files = client, folder, pattern, files
        self.killed_at = -1

    def run(self):
        deadline = time.monotonic() + 120
        while len(list(self.folder.rglob(self.pattern))) < self.files and time.monotonic() < deadline:
            time.sleep(0.01)
        self.killed_at = len(list(self.folder.rglob(self.pattern)))
        os.kill(next(iter(self.pids.values())), signal.SIGKILL)


def test_simulations_are_the_same(client):
    here = ds.simulate(noisy, PRIOR, 70, seed=3, block=16)
    there = ds.simulate(noisy, PRIOR, 70, seed=3, block=16, client=client)
    np.testing.assert_array_equal(there.theta, here.theta)
    np.testing.assert_array_equal(there.y, here.y)


def test_an_address_is_enough(cluster):
    with connect(cluster.scheduler_address) as client:
        there = ds.simulate(noisy, PRIOR, 20, client=client)
    np.testing.assert_array_equal(there.y, ds.simulate(noisy, PRIOR, 20).y)


def test_training_survives_the_loss_of_a_worker(client, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(400, 2))
    y = theta + rng.normal(size=(400, 2))
    options = {"members": 6, "sweep": SMALL, "epochs": 150, "patience": None}
    here = ds.train(theta, y, **options)
    written = Counter()
    save = storage.save

    def counted(member, directory, fingerprint=""):
        written[member.name] += 1
        save(member, directory, fingerprint)

    monkeypatch.setattr(storage, "save", counted)
    killer = Killer(client, tmp_path, "*.json", 1)
    killer.start()
    there = ds.train(theta, y, client=client, directory=tmp_path, **options)
    killer.join()
    assert 1 <= killer.killed_at < 6, "the worker must be lost while members are in training"
    assert written == dict.fromkeys(here.names, 1)
    assert there.names == here.names
    for a, b, c in zip(here, there, ds.Ensemble.load(tmp_path), strict=True):
        np.testing.assert_array_equal(b.flow.parameters, a.flow.parameters)
        np.testing.assert_array_equal(c.flow.parameters, a.flow.parameters)


def test_tabulation_survives_the_loss_of_a_worker(client, tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    y = rng.normal(size=(160, 2))
    theta = y + rng.normal(size=y.shape)
    members = {"left": Slow(-0.3), "right": Slow(0.5), "centre": Slow(0.1)}
    options = {"draws": 20, "chunk": 16, "keep_draws": True}
    here = ds.tabulate(members, theta, y, **options)
    kept = Counter()
    add = StoredParts.add

    def counted(self, job, part):
        kept[job.member.name, job.start] += 1
        add(self, job, part)

    monkeypatch.setattr(StoredParts, "add", counted)
    killer = Killer(client, tmp_path, "*.npz", 2)
    killer.start()
    there = ds.tabulate(members, theta, y, client=client, directory=tmp_path, **options)
    killer.join()
    assert 2 <= killer.killed_at < len(kept), "the worker must be lost while rows are tabulated"
    assert set(kept.values()) == {1}
    assert there.names == here.names
    for name in ("log_q", "rank", "mean", "cov", "draws"):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name))


@pytest.mark.parametrize("score", [ds.LogScore(), ds.MeanScore(), ds.LogScore() + ds.MeanScore()], ids=repr)
def test_stacking_in_blocks_is_the_same(client, tmp_path, score):
    table = stored(make_table(N=400, S=7), tmp_path / "table.zarr", blocks=5)
    here, there = ds.stack(table, score=score), ds.stack(table, score=score, client=client)
    np.testing.assert_array_equal(there.weights, here.weights)
    assert there.loss == here.loss


def test_the_command_line_makes_the_same_run_on_a_cluster(cluster, client, tmp_path, capsys):
    here = tiny_run.make(tmp_path / "here")
    there, on_cluster = str(tmp_path / "there"), ["--cluster", cluster.scheduler_address]
    shutil.copytree(here.path, there, ignore=lambda *_: {"simulations.zarr", "members", "table.zarr", "fits"})
    (tmp_path / "there" / "manifest.json").unlink()
    for verb in ("simulate", "train", "tabulate", "stack"):
        assert main([verb, there, *on_cluster]) == 0, capsys.readouterr().err
    for name in ("manifest.json", "fits/log.json", "fits/hybrid.json"):  # the manifest has checksums of all files
        assert (tmp_path / "there" / name).read_bytes() == (here.path / name).read_bytes(), name


@pytest.mark.parametrize("flags", [["--workers", "2"], "cluster"], ids=["workers", "cluster"])
def test_the_command_line_stacks_tables_larger_than_memory(cluster, client, tmp_path, capsys, flags):
    table = make_table(N=400, S=7)
    stored(table, tmp_path / "table.zarr", blocks=5)
    flags = ["--cluster", cluster.scheduler_address] if flags == "cluster" else flags
    fits = []
    for limit in ([], ["--memory", "0.000001"]):
        assert main(["stack", str(tmp_path / "table.zarr"), "--json", *limit, *(flags if limit else [])]) == 0
        fits.append(json.loads(capsys.readouterr().out))
    assert fits[0]["solver"] == fits[1]["solver"]
    expected = ds.stack(table, tol=1e-12).weights
    for fit in fits:
        np.testing.assert_allclose(list(fit["weights"].values()), expected, atol=1e-5)
    assert fits[1]["gap"] < 1e-8


def test_workers_of_this_machine_and_a_cluster_exclude_each_other(cluster, tmp_path, capsys):
    ds.toy.table(30, seed=1).save(tmp_path / "table.zarr")
    flags = ["--workers", "2", "--cluster", cluster.scheduler_address]
    assert main(["stack", str(tmp_path / "table.zarr"), *flags]) == 2
    assert "a cluster has its own workers" in capsys.readouterr().err
