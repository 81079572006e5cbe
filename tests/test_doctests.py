"""Examples in docstrings."""

import doctest
import importlib
import pkgutil

import pytest

import drystone

MODULES = [
    module.name
    for module in pkgutil.walk_packages(drystone.__path__, "drystone.")
    if not module.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_right(name):
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0
