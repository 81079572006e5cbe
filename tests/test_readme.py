"""The README says what is so: its example runs, and its tables are the current ones."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from drystone.solvers.table1 import markdown

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def section(name):
    (found,) = re.findall(rf"<!-- {name}:.*?-->\n(.*?)\n<!-- /{name} -->", README, re.DOTALL)
    return found


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    call, sbi, code = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert "ds.infer" in call  # which docs/inference.md runs
    assert "from_sbi" in sbi  # which examples/from_sbi.py runs
    exec(compile(code, "README.md", "exec"), {})
    assert "carry weight" in capsys.readouterr().out
    assert (tmp_path / "fit.json").exists()


def test_the_table_of_cells_is_that_of_the_registry():
    assert section("cells") == markdown()


def test_the_table_of_speeds_is_that_of_the_results():
    assert section("fast") == runpy.run_path(str(ROOT / "benchmarks" / "table.py"))["fast"]()


@pytest.mark.parametrize("link", re.findall(r"\]\((?!http)([^)#]+)", README))
def test_links_lead_somewhere(link):
    assert (ROOT / link).exists()


@pytest.mark.parametrize(
    "script",
    [
        "examples/toy.py",
        "examples/own_form.py",
        "examples/own_score.py",
        "examples/own_task.py",
        "examples/train_and_stack.py --quick",
        "examples/from_sbi.py --quick",
        "examples/gallery.py --quick",
    ],
)
def test_examples_and_experiments_run(script):
    path, *arguments = script.split()
    run = subprocess.run([sys.executable, ROOT / path, *arguments], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout


def test_importing_pulls_in_nothing_heavy():
    heavy = ("torch", "matplotlib", "sbi", "zuko", "arviz_base", "dask", "numba", "pandas", "xarray")
    code = f"import sys, drystone; print([name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_every_public_name_can_be_imported():
    import drystone

    for name in drystone.__all__:
        assert getattr(drystone, name) is not None
