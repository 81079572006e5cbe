"""Tests for `drystone demo`: every file is hashed a few times only, and a second demo changes nothing."""

import re
from collections import Counter

import pytest

from drystone._files import seals
from drystone.cli import demo
from drystone.cli.main import main
from drystone.runs.config import Config, Simulate
from helpers.tiny_inference import ROWS, shrink

# What `replacing` calls a store while it is written: .table.zarr.<hex>.tmp.
TEMPORARY = re.compile(r"\.(\w+\.zarr)\.[0-9a-f]{32}\.tmp")
SIZE = demo.Size(Config(Simulate("two_moons", 100, ROWS, 20, seed=1)), members=1, epochs=5)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    shrink(monkeypatch)
    monkeypatch.setattr(demo, "settings", lambda quick: SIZE)


def test_a_demo_hashes_its_files_a_few_times_only(tmp_path, monkeypatch):
    hashed, digest_until = Counter(), seals._digest_until

    def counting_digest(file, size):
        hashed[TEMPORARY.sub(r"\1", str(file.name))] += 1
        return digest_until(file, size)

    monkeypatch.setattr(seals, "_digest_until", counting_digest)
    assert main(["demo", str(tmp_path / "moons"), "--quick"]) == 0
    of_stores = {name: count for name, count in hashed.items() if ".zarr/" in name}
    for store in ("simulations.zarr", "table.zarr"):
        counts = [count for name, count in of_stores.items() if f"{store}/" in name]
        assert counts
        assert max(counts) <= 2, of_stores


def test_a_second_demo_ends_with_the_same_numbers_and_leaves_the_files_as_they_are(tmp_path, capsys):
    names = (
        "fit.json", "stacking/table.zarr/zarr.json", "test/table.zarr/zarr.json", "members/nsf-000.json",
        "likelihoods/nle-maf-000.json",
    )  # fmt: skip
    files = ("config.toml", "simulations.zarr/zarr.json", *(f"inference/{name}" for name in names))
    contents, trained, ends = [], [], []
    for _ in range(2):
        assert main(["demo", str(tmp_path)]) == 0
        contents.append([(tmp_path / name).read_bytes() for name in files])
        trained.append({path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")})
        ends.append(capsys.readouterr().out.splitlines()[-3:])
    assert contents[0] == contents[1]
    assert trained[0] == trained[1]
    assert ends[0] == ends[1]
    assert "nats from the exact posterior" in " ".join(ends[0])


def test_a_directory_of_other_settings_is_not_overwritten(tmp_path, capsys):
    Config(Simulate("slcp")).write(tmp_path / "config.toml")
    assert main(["demo", str(tmp_path)]) == 1
    assert "is not the configuration of this demo" in capsys.readouterr().err
