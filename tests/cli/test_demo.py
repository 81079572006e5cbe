"""Tests for `drystone demo`: every file is read and hashed a few times only, and a second demo changes nothing."""

import re
from collections import Counter
from dataclasses import replace

import pytest

from drystone._files import regular, seals
from drystone.cli import demo
from drystone.cli.main import main
from drystone.runs.config import Tabulate
from helpers import tiny_run

# What `replacing` calls a store while it is written: .table.zarr.<hex>.tmp.
TEMPORARY = re.compile(r"\.(\w+\.zarr)\.[0-9a-f]{32}\.tmp")
CONFIG = replace(tiny_run.CONFIG, tabulate=Tabulate(draws=11, keep_draws=True))


@pytest.fixture
def counted(monkeypatch):
    """Counts how often the manifest and fits are read, and how often each file of a store is hashed."""
    read, hashed = Counter(), Counter()
    read_text, digest_until = regular.read_text, seals._digest_until

    def counting_read(path, **options):
        read["fits" if path.parent.name == "fits" else path.name] += 1
        return read_text(path, **options)

    def counting_digest(file, size):
        hashed[TEMPORARY.sub(r"\1", str(file.name))] += 1
        return digest_until(file, size)

    for module in (regular, seals):
        monkeypatch.setattr(module, "read_text", counting_read)
    monkeypatch.setattr(seals, "_digest_until", counting_digest)
    monkeypatch.setattr(demo, "settings", lambda quick: CONFIG)
    return read, hashed


def test_a_demo_reads_and_hashes_its_files_a_few_times_only(tmp_path, counted):
    read, hashed = counted
    assert main(["demo", str(tmp_path / "moons"), "--quick"]) == 0
    assert 0 < read["manifest.json"] <= 15
    assert read["fits"] == 0, "fits are returned, not read again"
    of_stores = {name: count for name, count in hashed.items() if ".zarr/" in name}
    for store in ("simulations.zarr", "table.zarr"):
        counts = [count for name, count in of_stores.items() if f"{store}/" in name]
        assert counts
        assert max(counts) <= 2, of_stores


def test_a_second_demo_leaves_the_files_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "settings", lambda quick: CONFIG)
    files = ("manifest.json", "config.toml", "fits/log.json", "table.zarr/zarr.json", "simulations.zarr/zarr.json")
    contents = []
    for _ in range(2):
        assert main(["demo", str(tmp_path)]) == 0
        contents.append([(tmp_path / name).read_bytes() for name in files])
    assert contents[0] == contents[1]
