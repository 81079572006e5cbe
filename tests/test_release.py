"""What a release says of itself: workflows call what exists, and versions are those that were tested."""

import os
import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def jobs(path):
    return yaml.safe_load(path.read_text())["jobs"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_is_in_the_repository(path):
    steps = [step for job in jobs(path).values() for step in job["steps"]]
    assert steps
    for step in steps:
        assert ("run" in step) != ("uses" in step)
        for target in re.findall(r"\bmake ([a-z-]+)", step.get("run", "")):
            assert target in TARGETS
        for file in re.findall(r"(?:^| )((?:\.ci|tests)/\S+)", step.get("run", "")):
            assert (ROOT / file).exists()
            assert (ROOT / file).is_dir() or os.access(ROOT / file, os.X_OK)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_job_waits_for_jobs_that_exist_and_may_write_only_where_it_says_so(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        needed = job.get("needs", [])
        assert set([needed] if isinstance(needed, str) else needed) <= set(workflow["jobs"])


def test_the_pythons_of_the_package_are_those_of_the_policy_and_of_the_workflow():
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    policy = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
    (tested,) = re.findall(r"^\| Python \| (.*?) \|", policy, re.M)
    assert claimed == tested.split(", ")
    run = jobs(ROOT / ".github" / "workflows" / "test.yml")["test"]["strategy"]["matrix"]["python"]
    assert set(claimed) <= set(run)
    assert PROJECT["requires-python"] == f">={claimed[0]}"


def test_the_lowest_versions_of_the_policy_are_those_that_the_package_asks_for():
    policy = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    asked = {
        name: lowest
        for requirement in chain.from_iterable(groups)
        for name, lowest in re.findall(r"^([\w-]+)>=([\d.]+)", requirement)
    }
    names = {"ArviZ": "arviz", "BayesFlow": "bayesflow", "Dask": "distributed", "NumPy": "numpy"}
    rows = re.findall(r"^\| (\w+) \| [^|]* \| ([\d.]+) \|$", policy, re.M)
    assert len(rows) > 5
    for name, lowest in rows:
        if name != "Python":
            assert asked[names.get(name, name)] == lowest, name
