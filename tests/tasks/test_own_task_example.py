"""The example of a user's own task runs, and a second time from what it has stored."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_task.py"


def test_the_example_of_a_users_own_task_runs_twice_with_the_same_result(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-W", "error", str(EXAMPLE)]
    first, second = (
        subprocess.run(command, env=environment, check=True, capture_output=True, text=True) for _ in range(2)
    )
    assert "1000 simulations" in first.stdout
    assert second.stdout == first.stdout
    assert (tmp_path / "drystone-decay" / "simulations.zarr").is_dir()
