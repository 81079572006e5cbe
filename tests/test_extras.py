"""What is installed by default and what by extras, and that the messages agree with it."""

import ast
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from helpers import extras
from helpers.imports import imports, modules

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
LOWEST = runpy.run_path(str(ROOT / ".ci" / "lowest.py"))
# Names of distributions that are imported by another name.
IMPORTED_AS = {"scikit-learn": "sklearn"}
# These packages and modules are imported only for what their extra is for, and may import it at once.
FOR_EXTRAS = (
    "drystone.adapters.to_arviz",
    "drystone.adapters.to_sbi",
    "drystone.cli",
    "drystone.flows",
    "drystone.plots",
    "drystone.report",
    "drystone.training",
)


def names(requirements):
    """Return names of distributions, with those of the extras that are named."""
    for requirement in requirements:
        if inner := re.match(r"drystone\[(.+)\]", requirement):
            for extra in inner[1].split(","):
                yield from names(EXTRAS[extra])
        else:
            yield re.split(r"[\[<>=]", requirement)[0]


def test_the_core_has_few_dependencies():
    assert len(PROJECT["dependencies"]) <= 10
    assert not extras.ALL & set(names(PROJECT["dependencies"]))


def test_all_is_all():
    for extra in set(EXTRAS) - {"dev", "docs", "integrations"}:
        assert set(names(EXTRAS[extra])) <= set(names(EXTRAS["all"]))
    assert set(names(EXTRAS["all"])) <= set(names(EXTRAS["dev"]))


def test_the_core_works_where_no_extra_is_found():
    code = "from helpers import extras; extras.hide(); import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    run = subprocess.run(
        [sys.executable, "-c", code, "-q", "-p", "no:cacheprovider", "core"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT / "tests",
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # Zarr is one, and pytest finds it by itself
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_core_imports_no_extra_at_once():
    early = [
        (found.module, found.target)
        for found in imports()
        if found.top and found.target in extras.ALL and not found.module.startswith(FOR_EXTRAS)
    ]
    assert early == []


def calls_of_require():
    for module, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "require":
                library, extra, _ = node.args
                if isinstance(library, ast.Constant):
                    assert isinstance(extra, ast.Constant)
                    yield module, library.value, extra.value


@pytest.mark.parametrize(("module", "library", "extra"), list(calls_of_require()))
def test_the_extra_that_a_message_names_brings_the_library(module, library, extra):
    assert library in {IMPORTED_AS.get(name, name) for name in names(EXTRAS[extra])}


def test_the_extras_that_are_hidden_are_those_that_there_are():
    libraries = {IMPORTED_AS.get(name, name) for name in names(EXTRAS["all"])}
    assert libraries - {"jinja2", "six"} == extras.ALL  # PyTorch brings Jinja2, and pandas six


def test_the_lowest_versions_are_those_allowed():
    lines = LOWEST["lowest"](PROJECT, (ROOT / "constraints.txt").read_text()).splitlines()
    direct = {*names(PROJECT["dependencies"]), *names(EXTRAS["all"])} - {"torch"}
    requirements = [*PROJECT["dependencies"], *(line for extra in EXTRAS.values() for line in extra)]
    for name in direct:
        (floor,) = {line for line in requirements if re.split(">=", line)[0] == name}
        assert [line for line in lines if line.split("==")[0] == name] == [floor.replace(">=", "==")]
    assert "torch==2.13.0" in lines
