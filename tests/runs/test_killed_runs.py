"""A run that is killed at any moment, and run again, ends with the files of one that was not."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = 24


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of one process")
def test_a_run_killed_at_any_moment_ends_with_the_same_bytes(tmp_path):
    command = [
        sys.executable,
        str(Path(__file__).parents[1] / "helpers" / "killing.py"),
        str(tmp_path),
        str(KILLS),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    killed = [end for end in told["ends"] if end == -signal.SIGKILL]
    assert len(killed) >= KILLS, told["ends"]
    assert len({tuple(state) for state in told["states"]}) >= 6, "the kills were not spread over the stages"
    expected = told["expected"]
    assert {"config.toml", "manifest.json", "fits/log.json", "fits/hybrid.json"} <= expected.keys()
    assert sum(name.endswith(".safetensors") for name in expected) == 3
    for outcome in told["outcomes"]:
        assert outcome["code"] == 0, result.stderr
        assert outcome["files"] == expected
