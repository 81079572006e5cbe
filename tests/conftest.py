"""Fixtures that several tests share."""

import os

import pytest
from hypothesis import settings

from helpers.tables import make_table

# The same examples in every run of CI; new ones on a developer's machine.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture
def table():
    return make_table()


@pytest.fixture
def weighted_table():
    return make_table(seed=3, row_weights=True)


@pytest.fixture(scope="session")
def original(tmp_path_factory):
    """A tiny run from its simulations to its fits, to be looked at and copied."""
    from helpers import tiny_run

    return tiny_run.make(tmp_path_factory.mktemp("runs") / "original")


@pytest.fixture
def run(original, tmp_path):
    """A copy of it, to be spoilt."""
    from helpers import tiny_run

    return tiny_run.copy(original, tmp_path / "run")
